internal import Crypto
internal import Vocabulary

/// A header that contains a secret in plain text. It authenticates the sender, not the body: the body is as trustworthy
/// as the connection, so these sources need TLS.
package struct StaticToken: Sendable {
    let name: String
    /// A word that the vendor writes before the token, as in `Basic abc`. The secret may then be the whole value or the
    /// token alone.
    let scheme: String?

    init(header name: String, scheme: String? = nil) {
        self.name = name
        self.scheme = scheme
    }

    /// Whether the value of the header is one of the source's secrets, byte for byte. The comparison takes the same
    /// time wherever the bytes differ, because it compares digests under a key made for each call.
    func authenticate(header: (String) -> String?, source: Source) -> Authenticity {
        guard let given = header(name), !given.isEmpty else { return .refused(.missingToken) }
        let key = SymmetricKey(size: .bits256)
        let codes = readings(of: Array(given.utf8)).map { HMAC<SHA256>.authenticationCode(for: $0, using: key) }
        let matches = source.secrets.contains { secret in
            secret.withBytes { bytes in
                codes.contains { HMAC<SHA256>.isValidAuthenticationCode($0, authenticating: bytes, using: key) }
            }
        }
        return matches ? .authentic : .refused(.wrongToken)
    }

    /// The header that `authenticate` accepts for `secret`: its value begins with the scheme once, even if the secret
    /// does.
    func header(of secret: Secret) -> (name: String, value: String) {
        secret.withBytes { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            guard let scheme, !bytes.starts(with: (scheme + " ").utf8) else { return (name, text) }
            return (name, "\(scheme) \(text)")
        }
    }

    /// The unchanged value, and the part after its scheme.
    private func readings(of given: [UInt8]) -> [[UInt8]] {
        guard let scheme, given.starts(with: (scheme + " ").utf8) else { return [given] }
        return [given, Array(given.dropFirst(scheme.utf8.count + 1))]
    }
}
