internal import Crypto
internal import Vocabulary

/// A header that contains a secret in plain text. It authenticates the sender, not the body: the body is as trustworthy
/// as the connection, so these sources need TLS.
enum StaticToken {
    /// Whether the value of `name` is one of the source's secrets, byte for byte. The comparison takes the same time
    /// wherever the bytes differ, because it compares digests under a key made for each call.
    ///
    /// - Parameter scheme: a word that the vendor writes before the token, as in `Basic abc`. The secret may then be
    ///   the whole value or the token alone.
    static func authenticate(
        _ name: String, scheme: String? = nil, header: (String) -> String?, source: Source
    ) -> Authenticity {
        guard let given = header(name), !given.isEmpty else { return .refused(.missingToken) }
        let key = SymmetricKey(size: .bits256)
        let codes = readings(of: Array(given.utf8), scheme: scheme).map {
            HMAC<SHA256>.authenticationCode(for: $0, using: key)
        }
        let matches = source.secrets.contains { secret in
            secret.withBytes { bytes in
                codes.contains { HMAC<SHA256>.isValidAuthenticationCode($0, authenticating: bytes, using: key) }
            }
        }
        return matches ? .authentic : .refused(.wrongToken)
    }

    /// The header value for the secret under `scheme`: the secret itself if it already starts with the scheme.
    static func value(scheme: String, secret: Secret) -> String {
        secret.withBytes { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            return bytes.starts(with: (scheme + " ").utf8) ? text : "\(scheme) \(text)"
        }
    }

    /// The unchanged value, and the part after its scheme.
    private static func readings(of given: [UInt8], scheme: String?) -> [[UInt8]] {
        guard let scheme, given.starts(with: (scheme + " ").utf8) else { return [given] }
        return [given, Array(given.dropFirst(scheme.utf8.count + 1))]
    }

    /// The header that `authenticate` accepts for `secret`.
    static func headers(_ name: String, secret: Secret) -> [(name: String, value: String)] {
        [(name, secret.withBytes { String(decoding: $0, as: UTF8.self) })]
    }
}
