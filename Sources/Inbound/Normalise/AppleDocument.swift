internal import JSONText
internal import Vocabulary

/// A notification in clear: the signed payload with the sealed texts in it opened, each in its place and under a name
/// that no longer says that it is signed. What was in them stays byte for byte.
///
/// | sealed | opened |
/// |--|--|
/// | `data.signedTransactionInfo` | `data.transactionInfo` |
/// | `data.signedRenewalInfo` | `data.renewalInfo` |
/// | `appData.signedAppTransactionInfo` | `appData.appTransactionInfo` |
///
/// Signatures are not checked here. The outer one covers the sealed texts byte by byte, so theirs need no check.
struct AppleDocument {
    /// One JSON object.
    let bytes: [UInt8]
    /// The members of `bytes`.
    let fields: BodyFields

    private typealias Member = (sealed: String, opened: String)

    private static let sealed: [(container: String, members: [Member])] = [
        (
            "data",
            [("signedTransactionInfo", "transactionInfo"), ("signedRenewalInfo", "renewalInfo")]
        ),
        ("appData", [("signedAppTransactionInfo", "appTransactionInfo")]),
    ]
    /// How many objects are open around an opened text.
    private static let depthAround = 2

    /// Opens a body. The error names the place that cannot be read.
    init(_ body: [UInt8]) throws(Unreadable) {
        let envelope: JSONObject
        do {
            envelope = try JSONScan.topObject(body, depthMax: Limits.jsonDepthMax)
        } catch {
            throw Unreadable(reason: "the body is not one strict JSON object: \(error)")
        }
        guard let text = envelope.writtenText("signedPayload") else {
            throw Unreadable(reason: "signedPayload is missing or not a string")
        }
        let payload = try Self.open(text, at: "signedPayload", depthMax: Limits.jsonDepthMax)
        var changes: DerivedBody.Changes = []
        for (container, members) in Self.sealed {
            // A container of another type counts as absent.
            guard let object = try? payload.object(container) else { continue }
            changes.append((container, .set(try Self.opened(object, members, path: container + "."))))
        }
        bytes = JSONEdit.apply(changes, to: payload)
        fields = try BodyFields(bytes)
    }

    /// The object in the payload of a compact JWS.
    private static func open(
        _ text: ArraySlice<UInt8>, at place: String, depthMax: Int
    ) throws(Unreadable) -> JSONObject {
        let payload: [UInt8]
        do {
            payload = try CompactJWS.payload(of: text)
        } catch {
            throw Unreadable(reason: "\(place): \(error)")
        }
        do {
            return try JSONScan.topObject(payload, depthMax: depthMax)
        } catch {
            throw Unreadable(reason: "\(place): the payload is not one strict JSON object: \(error)")
        }
    }

    /// The text of `object` with its sealed members opened. A member that is null or empty is left as it is.
    private static func opened(
        _ object: JSONObject, _ members: [Member], path: String
    ) throws(Unreadable) -> [UInt8] {
        var replaced: [String: (name: String, value: ArraySlice<UInt8>)] = [:]
        for member in members {
            guard let raw = object.raw(member.sealed), raw.first != UInt8(ascii: "n") else { continue }
            guard let text = object.writtenText(member.sealed) else {
                throw Unreadable(reason: "\(path)\(member.sealed): not a string")
            }
            if text.isEmpty { continue }
            let depthMax = Limits.jsonDepthMax - depthAround
            let inner = try open(text, at: path + member.sealed, depthMax: depthMax)
            // Two members of one name would be no strict JSON.
            let name = object.rawRange(member.opened) == nil ? member.opened : member.sealed
            replaced[member.sealed] = (name, inner.bytes[inner.range])
        }
        if replaced.isEmpty { return Array(object.bytes[object.range]) }
        return JSONWriter.object { json in
            for key in object.keys {
                if let member = replaced[key] {
                    json.key(member.name)
                    json.raw(member.value)
                } else if let raw = object.raw(key) {
                    json.key(key)
                    json.raw(raw)
                }
            }
        }
    }
}
