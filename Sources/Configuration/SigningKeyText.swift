internal import Crypto
package import Vocabulary

/// Reads the text forms of keys of Standard Webhooks 1.0, "Signature scheme". What follows the mark is base64 with
/// padding (RFC 4648 §4).
package enum SigningKeyText {
    /// Why a text is no key. Nothing here holds any of it.
    package enum Failure: Error, Sendable, Hashable {
        case unmarked
        /// `whpk_` where a secret is needed.
        case publicKey
        case base64(mark: String)
        /// Bytes after `whsec_`.
        case symmetricLength(Int)
        /// Bytes after `whsk_`.
        case asymmetricLength(Int)
        /// Bytes after `whpk_`.
        case publicLength(Int)
        case mismatch

        /// After the name of what holds the text: a key of the configuration, a file.
        package var text: String {
            switch self {
            case .unmarked:
                "must begin with `whsec_` (a shared secret) or `whsk_` (an ed25519 key); this one begins with neither"
            case .publicKey:
                "is a public key (`whpk_`): it verifies and cannot sign; the `whsk_` secret it belongs to is needed"
            case .base64(let mark):
                "must be `\(mark)` and base64 with padding (RFC 4648); this one is not base64"
            case .symmetricLength(let count):
                "must be `whsec_` and the base64 of 24 to 64 bytes; this one has \(count)"
            case .asymmetricLength(let count):
                "must be `whsk_` and the base64 of a 32-byte ed25519 seed, or of the 64 bytes of seed and public key; "
                    + "this one has \(count)"
            case .publicLength(let count):
                "must be `whpk_` and the base64 of a 32-byte ed25519 public key; this one has \(count)"
            case .mismatch:
                "is `whsk_` with a public key that is not its seed's: the last 32 of its 64 bytes do not belong to the "
                    + "first 32; write the seed alone, or make a new pair"
            }
        }
    }

    static let symmetricMark = "whsec_"
    static let asymmetricMark = "whsk_"
    static let publicMark = "whpk_"
    private static let symmetricBytes = 24...64
    /// Of an ed25519 seed, and of a public key (RFC 8032 §5.1.5).
    static let keyBytes = 32

    /// A key that signs: `whsec_` or `whsk_`.
    package static func read(_ secret: Secret) throws(Failure) -> Integration.SigningKey {
        try secret.withBytes { bytes throws(Failure) in
            if let key = try decode(bytes, after: symmetricMark) {
                guard symmetricBytes.contains(key.count) else { throw .symmetricLength(key.count) }
                return .symmetric(Secret(key))
            }
            if let key = try decode(bytes, after: asymmetricMark) { return .asymmetric(seed: try seed(key)) }
            throw bytes.starts(with: publicMark.utf8) ? .publicKey : .unmarked
        }
    }

    /// A public key, `whpk_`; nil: the text begins with another mark.
    package static func readPublic(_ secret: Secret) throws(Failure) -> [UInt8]? {
        try secret.withBytes { bytes throws(Failure) in
            guard let key = try decode(bytes, after: publicMark) else { return nil }
            guard key.count == keyBytes else { throw .publicLength(key.count) }
            return key
        }
    }

    private static func decode(_ bytes: [UInt8], after mark: String) throws(Failure) -> [UInt8]? {
        guard bytes.starts(with: mark.utf8) else { return nil }
        guard let key = Base64.decode(String(decoding: bytes.dropFirst(mark.utf8.count), as: UTF8.self)) else {
            throw .base64(mark: mark)
        }
        return key
    }

    /// The seed alone, or the seed and its public key, as NaCl and its heirs keep a private key.
    private static func seed(_ key: [UInt8]) throws(Failure) -> Secret {
        guard key.count == keyBytes || key.count == 2 * keyBytes else { throw .asymmetricLength(key.count) }
        let seed = Array(key.prefix(keyBytes))
        if key.count > keyBytes {
            // Made from a seed of this length a key cannot fail; if it did, it would not match either.
            guard let own = try? Curve25519.Signing.PrivateKey(rawRepresentation: seed).publicKey.rawRepresentation,
                own.elementsEqual(key.suffix(keyBytes))
            else { throw .mismatch }
        }
        return Secret(seed)
    }
}
