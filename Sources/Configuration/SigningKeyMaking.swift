internal import Crypto
package import Vocabulary

/// The kinds of keys that sign, by the mark of their text without its underscore.
package enum SigningKeyKind: String, CaseIterable, Sendable {
    /// Shared with the receiver: HMAC-SHA256.
    case whsec
    /// The private half of an ed25519 key. The receiver gets only the public half.
    case whsk
}

extension SigningKeyText {
    /// The text of a new random key, in the form that `read` takes: `whsec_` with 32 bytes, or `whsk_` with a seed.
    package static func make(_ kind: SigningKeyKind) -> Secret {
        switch kind {
        case .whsec:
            let bytes = SymmetricKey(size: .bits256).withUnsafeBytes { [UInt8]($0) }
            return Secret(Array((symmetricMark + Base64.encode(bytes)).utf8))
        case .whsk:
            let seed = [UInt8](Curve25519.Signing.PrivateKey().rawRepresentation)
            return Secret(Array((asymmetricMark + Base64.encode(seed)).utf8))
        }
    }

    /// The text `whpk_…` that belongs to a text `whsk_…`; nil for anything else.
    package static func publicText(of secret: Secret) -> String? {
        guard case .asymmetric(let seed)? = try? read(secret) else { return nil }
        let bytes = seed.withBytes { $0 }
        guard let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: bytes) else { return nil }
        return publicMark + Base64.encode([UInt8](key.publicKey.rawRepresentation))
    }

    /// Why a text that has the mark of a key is none; nil for a key, and for a text without a mark.
    package static func problem(of secret: Secret) -> Failure? {
        do throws(Failure) {
            _ = try read(secret)
            return nil
        } catch {
            return error == .unmarked ? nil : error
        }
    }
}
