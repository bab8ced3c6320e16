internal import CryptoExtras
internal import JSONText
package import Vocabulary

/// A service account of Google, read from the JSON document of its key. It proves itself to the token endpoint with a
/// JSON Web Token that it signs (RFC 7523 section 2.1; developers.google.com/identity/protocols/oauth2/service-account,
/// "HTTP/REST").
package struct ServiceAccount: Sendable {
    /// The document is none of a service account's key. Quotes nothing of it.
    package struct Unusable: Error, Hashable, Sendable, CustomStringConvertible {
        package let reason: String

        package var description: String { reason }
    }

    /// Nesting of a document; Google's are flat.
    private static let depthMax = 8
    private static let kind = "service_account"
    /// How long a token that is asked for may last, in seconds: the longest that Google allows.
    private static let lifetimeSeconds: Int64 = 3_600
    static let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    /// Its address.
    let address: String
    /// Where access tokens are given out.
    let tokenURL: EndpointURL
    /// As the document names it: the token must be made for exactly that.
    private let tokenAudience: String
    private let keyID: String?
    private let key: _RSA.Signing.PrivateKey

    /// - Parameter readURL: an absolute https URL, or an http one on this machine; nil for anything else.
    package init(_ document: Secret, readURL: (String) -> EndpointURL?) throws(Unusable) {
        let fields: (kind: String?, address: String?, tokenURL: String?, keyID: String?, key: String?)
        do {
            let object = try document.withBytes { bytes throws(JSONError) in
                try JSONScan.topObject(bytes, depthMax: Self.depthMax)
            }
            fields = (
                try object.string("type"), try object.string("client_email"), try object.string("token_uri"),
                try object.string("private_key_id"), try object.string("private_key")
            )
        } catch {
            throw Unusable(reason: "it is not the JSON document of a service account's key")
        }
        guard fields.kind == Self.kind else { throw Unusable(reason: "its type is not \(Self.kind)") }
        guard let address = fields.address, !address.isEmpty else { throw Unusable(reason: "client_email is missing") }
        guard let audience = fields.tokenURL, let url = readURL(audience) else {
            throw Unusable(reason: "token_uri is missing, or no https:// URL")
        }
        guard let text = fields.key, let key = try? _RSA.Signing.PrivateKey(pemRepresentation: text) else {
            throw Unusable(reason: "private_key is missing, or no RSA key in PEM with 2048 bits or more")
        }
        self.address = address
        tokenURL = url
        tokenAudience = audience
        keyID = fields.keyID
        self.key = key
    }

    /// A token that says who asks and for what, signed with RS256 (RFC 7518 section 3.3); nil if it cannot be signed.
    /// - Parameters:
    ///   - scope: what access is asked for.
    ///   - now: this machine's wall clock.
    func assertion(for scope: String, now: Timestamp) -> String? {
        let issuedAt = now.milliseconds / 1_000
        let header = JSONWriter.object { json in
            json.member("alg", "RS256")
            json.member("typ", "JWT")
            if let keyID { json.member("kid", keyID) }
        }
        let claims = JSONWriter.object { json in
            json.member("iss", address)
            json.member("scope", scope)
            json.member("aud", tokenAudience)
            json.member("iat", issuedAt)
            json.member("exp", issuedAt + Self.lifetimeSeconds)
        }
        let text = Base64URL.encode(header) + [UInt8(ascii: ".")] + Base64URL.encode(claims)
        guard let signature = try? key.signature(for: text, padding: .insecurePKCS1v1_5) else { return nil }
        let bytes = signature.withUnsafeBytes { Array($0) }
        return String(decoding: text + [UInt8(ascii: ".")] + Base64URL.encode(bytes), as: UTF8.self)
    }
}

/// An access token (RFC 6749 section 5.1), and how long it is used.
struct AccessToken: Sendable {
    /// A new one is asked for this long before its end: a request on its way must not outlive it.
    private static let margin: Duration = .seconds(120)
    /// How long one is used if the answer does not say.
    private static let usualLifetime: Duration = .seconds(300)
    private static let longestSeconds: Int64 = 86_400
    private static let depthMax = 8

    let text: Secret
    /// From here on a new one is asked for.
    let renewAt: Duration
    /// From here on it is not used.
    let endsAt: Duration

    /// Reads an answer of the token endpoint; nil if there is no token in it.
    /// - Parameter now: when it was asked for.
    init?(_ answer: [UInt8], now: Duration) {
        guard let object = try? JSONScan.topObject(answer, depthMax: Self.depthMax),
            let text = try? object.string("access_token"), !text.isEmpty, HeaderField.isValue(text.utf8)
        else { return nil }
        let seconds = try? object.integer("expires_in")
        let lifetime = seconds.map { Duration.seconds(min(max($0, 0), Self.longestSeconds)) } ?? Self.usualLifetime
        self.text = Secret(Array(text.utf8))
        endsAt = now + lifetime
        renewAt = now + max(lifetime - Self.margin, lifetime / 2)
    }
}
