internal import Crypto
internal import Vocabulary

/// A header that carries a secret as it is. It proves who sends, not what: such a body is as trustworthy as the way it
/// came, so these sources belong behind TLS.
enum StaticToken {
    /// Whether the value of `name` is one of the source's secrets, byte for byte. The comparison takes the same time
    /// whatever differs: what is compared are digests under a key made for each.
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

    /// The value that proves the secret under `scheme`: the secret itself where it holds the scheme already.
    static func value(scheme: String, secret: Secret) -> String {
        secret.withBytes { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            return bytes.starts(with: (scheme + " ").utf8) ? text : "\(scheme) \(text)"
        }
    }

    /// The value as it came, and what stands behind its scheme.
    private static func readings(of given: [UInt8], scheme: String?) -> [[UInt8]] {
        guard let scheme, given.starts(with: (scheme + " ").utf8) else { return [given] }
        return [given, Array(given.dropFirst(scheme.utf8.count + 1))]
    }

    /// The header that `authenticate` takes for `secret`.
    static func headers(_ name: String, secret: Secret) -> [(name: String, value: String)] {
        [(name, secret.withBytes { String(decoding: $0, as: UTF8.self) })]
    }
}
