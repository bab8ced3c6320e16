internal import JSONText

/// A signed JSON Web Token (RFC 7519) in compact form, with the one algorithm of Google's ID tokens: RS256.
///
/// The algorithm is compared, never chosen by the token: `none` and an HMAC keyed with the public key are refused
/// (RFC 8725 sections 2.1 and 3.1).
struct JSONWebToken {
    enum Malformed: Error, Hashable {
        /// No compact JWS, no JSON, no key named, an extension that must be understood, or beyond a limit.
        case unreadable
        /// `alg` is not exactly RS256.
        case algorithm
    }

    /// Bytes of a whole token; Google's have some 900.
    static let bytesMax = 8 << 10
    /// Nesting of the claims; Google's are flat.
    static let claimsDepthMax = 8

    private static let algorithm = "RS256"

    /// `kid`: the id of the key that signed it.
    let keyID: String
    /// Proven only by `isSigned(by:)`.
    let claims: JSONObject
    private let signature: [UInt8]
    private let signingInput: [UInt8]

    init(_ text: [UInt8]) throws(Malformed) {
        guard text.count <= Self.bytesMax else { throw Malformed.unreadable }
        let parts: CompactJWS
        do {
            parts = try CompactJWS(text)
        } catch {
            throw Malformed.unreadable
        }
        let named: (algorithm: String?, keyID: String?)
        do {
            named = (try parts.header.string("alg"), try parts.header.string("kid"))
            claims = try JSONScan.topObject(parts.payload, depthMax: Self.claimsDepthMax)
        } catch {
            throw Malformed.unreadable
        }
        guard named.algorithm == Self.algorithm else { throw Malformed.algorithm }
        // RFC 7515 section 4.1.11: what `crit` lists must be understood; nothing is.
        guard parts.header.rawRange("crit") == nil, let keyID = named.keyID, !keyID.isEmpty,
            keyID.utf8.count <= JSONWebKeys.keyIDBytesMax
        else { throw Malformed.unreadable }
        self.keyID = keyID
        signature = parts.signature
        signingInput = parts.signingInput
    }

    func isSigned(by key: JSONWebKeys.Key) -> Bool { key.isValid(signature, over: signingInput) }
}
