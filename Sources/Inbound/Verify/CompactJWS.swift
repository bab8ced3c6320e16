internal import JSONText
internal import Vocabulary

/// A JSON Web Signature in compact serialisation (RFC 7515 section 7.1): header, payload and signature, each in
/// base64url without padding, with dots between them. Nothing of it is proven by having been read.
///
/// Read strictly, so that one signature has one text. A header that asks for an extension (`crit`, RFC 7515 section
/// 4.1.11; `b64`, RFC 7797) is malformed, because none is supported here.
struct CompactJWS {
    /// Bytes of the whole text; as many as a request body may have.
    static let textBytesMax = Limits.requestBodyBytesMax
    /// Bytes of the encoded header; one with three certificates has some six thousand.
    static let headerBytesMax = 32 << 10
    /// Bytes of the encoded signature; one of a 4,096-bit RSA key has 683.
    static let signatureBytesMax = 1 << 10
    /// Objects and arrays of the header that may be open at once.
    private static let headerDepthMax = 8

    /// Why a text is none. It quotes nothing of the text.
    enum Malformed: Error, Hashable, CustomStringConvertible {
        case tooLong
        case notThreeParts
        case headerNotBase64URL
        case payloadNotBase64URL
        case signatureNotBase64URL
        case headerUnreadable(JSONError)
        case unsupportedExtension

        var description: String {
            switch self {
            case .tooLong: "a part of the JWS is too long"
            case .notThreeParts: "the JWS does not have three parts"
            case .headerNotBase64URL: "the JWS header is not base64url without padding"
            case .payloadNotBase64URL: "the JWS payload is not base64url without padding"
            case .signatureNotBase64URL: "the JWS signature is not base64url without padding"
            case .headerUnreadable(let error): "the JWS header is not one strict JSON object: \(error)"
            case .unsupportedExtension: "the JWS header asks for an extension"
            }
        }
    }

    let header: JSONObject
    let payload: [UInt8]
    /// Empty where the third part is.
    let signature: [UInt8]
    /// What is signed: the first two parts as they are written, with the dot between them.
    let signingInput: [UInt8]

    init(_ text: some Collection<UInt8>) throws(Malformed) {
        let parts = try Parts(text)
        guard parts.header.count <= Self.headerBytesMax, parts.signature.count <= Self.signatureBytesMax else {
            throw Malformed.tooLong
        }
        guard let header = Base64URL.decode(parts.header) else { throw Malformed.headerNotBase64URL }
        guard let signature = Base64URL.decode(parts.signature) else { throw Malformed.signatureNotBase64URL }
        payload = try parts.decodedPayload()
        self.signature = signature
        do {
            self.header = try JSONScan.topObject(header, depthMax: Self.headerDepthMax)
        } catch {
            throw Malformed.headerUnreadable(error)
        }
        guard self.header.rawRange("crit") == nil, self.header.rawRange("b64") == nil else {
            throw Malformed.unsupportedExtension
        }
        signingInput = Array(parts.signingInput)
    }

    /// The payload alone, for texts whose proof was checked or is not needed; nothing else is decoded.
    static func payload(of text: some Collection<UInt8>) throws(Malformed) -> [UInt8] {
        try Parts(text).decodedPayload()
    }

    private struct Parts {
        private let bytes: [UInt8]
        private let firstDot: Int
        private let secondDot: Int

        init(_ text: some Collection<UInt8>) throws(Malformed) {
            guard text.count <= CompactJWS.textBytesMax else { throw Malformed.tooLong }
            let bytes = Array(text)
            let dot = UInt8(ascii: ".")
            guard let firstDot = bytes.firstIndex(of: dot),
                let secondDot = bytes[(firstDot + 1)...].firstIndex(of: dot),
                !bytes[(secondDot + 1)...].contains(dot)
            else { throw Malformed.notThreeParts }
            self.bytes = bytes
            self.firstDot = firstDot
            self.secondDot = secondDot
        }

        var header: ArraySlice<UInt8> { bytes[..<firstDot] }
        var signature: ArraySlice<UInt8> { bytes[(secondDot + 1)...] }
        var signingInput: ArraySlice<UInt8> { bytes[..<secondDot] }

        func decodedPayload() throws(Malformed) -> [UInt8] {
            guard let payload = Base64URL.decode(bytes[(firstDot + 1)..<secondDot]) else {
                throw Malformed.payloadNotBase64URL
            }
            return payload
        }
    }
}

extension JSONObject {
    /// The bytes of a text as it is written, for a compact JWS, which needs no escapes: one with escapes is malformed.
    /// Nil if the member is absent, null or no text.
    func writtenText(_ key: String) -> ArraySlice<UInt8>? {
        guard let raw = raw(key), raw.first == UInt8(ascii: "\"") else { return nil }
        return raw.dropFirst().dropLast()
    }
}
