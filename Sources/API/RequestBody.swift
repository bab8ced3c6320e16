internal import JSONText
internal import Vocabulary

/// A request's body: one strict JSON object. Errors name the place and do not quote the content.
struct RequestBody {
    private let object: JSONObject

    /// - Parameters:
    ///   - members: the accepted members; nil: others are ignored.
    ///   - mayBeAbsent: an empty body counts as `{}`.
    init(_ body: [UInt8], members: Set<String>? = nil, mayBeAbsent: Bool = false) throws(APIFailure) {
        if mayBeAbsent, body.isEmpty {
            object = .empty
            return
        }
        do throws(JSONError) {
            object = try JSONScan.topObject(body, depthMax: Limits.jsonDepthMax)
        } catch {
            throw .body("the body is not one strict JSON object: \(error)")
        }
        if let members, object.keys.contains(where: { !members.contains($0) }) {
            throw .body("an unknown member; understood are \(members.sorted().joined(separator: ", "))")
        }
    }

    /// A non-empty text that the ledger can store as an id; nil if it is absent or null.
    func identifier(_ key: String) throws(APIFailure) -> String? {
        let text = try read { () throws(JSONError) in try object.string(key) }
        guard let text else { return nil }
        try Self.check(text, key)
        return text
    }

    func requiredIdentifier(_ key: String) throws(APIFailure) -> String {
        guard let text = try identifier(key) else { throw .body("\(key) is missing") }
        return text
    }

    func integer(_ key: String) throws(APIFailure) -> Int64? {
        try read { () throws(JSONError) in try object.integer(key) }
    }

    /// One to `max` ids: texts, or integers digit for digit.
    func identifiers(_ key: String, max: Int) throws(APIFailure) -> [String] {
        let texts = try read { () throws(JSONError) in try object.texts(key) }
        guard !texts.isEmpty else { throw .body("\(key) is missing or empty") }
        guard texts.count <= max else { throw .body("\(key) has more than \(max) elements") }
        guard try read({ () throws(JSONError) in try object.elementCount(key) }) == texts.count else {
            throw .body("\(key) holds something that is neither a string nor an integer")
        }
        for text in texts { try Self.check(text, "an element of \(key)") }
        return texts
    }

    private func read<Value>(_ body: () throws(JSONError) -> Value) throws(APIFailure) -> Value {
        do throws(JSONError) { return try body() } catch { throw .body("\(error)") }
    }

    private static func check(_ text: String, _ what: String) throws(APIFailure) {
        guard !text.isEmpty else { throw .body("\(what) is empty") }
        guard text.utf8.count <= Limits.identifierBytesMax else {
            throw .body("\(what) is longer than \(Limits.identifierBytesMax) bytes")
        }
    }
}
