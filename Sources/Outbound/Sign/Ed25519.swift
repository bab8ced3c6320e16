import Crypto
import Vocabulary

/// ed25519 (RFC 8032) as Standard Webhooks' `v1a` uses it: the pure variant, over the whole message.
///
/// A signature costs some tens of microseconds, an HMAC of the same kilobyte about one. In return, a receiver that has
/// only the public key cannot sign.
enum Ed25519 {
    static func privateKey(seed: Secret) throws(SigningFailure) -> Curve25519.Signing.PrivateKey {
        do {
            return try seed.withBytes { try Curve25519.Signing.PrivateKey(rawRepresentation: $0) }
        } catch {
            throw SigningFailure()
        }
    }

    static func publicKey(_ bytes: [UInt8]) throws(SigningFailure) -> Curve25519.Signing.PublicKey {
        do {
            return try Curve25519.Signing.PublicKey(rawRepresentation: bytes)
        } catch {
            throw SigningFailure()
        }
    }

    /// 64 bytes, always the same for the same key and message.
    static func sign(_ message: [UInt8], with key: Curve25519.Signing.PrivateKey) throws(SigningFailure) -> [UInt8] {
        do {
            return Array(try key.signature(for: message))
        } catch {
            throw SigningFailure()
        }
    }

    /// Also false for a signature of another length.
    static func holds(_ signature: [UInt8], of message: [UInt8], for key: Curve25519.Signing.PublicKey) -> Bool {
        key.isValidSignature(signature, for: message)
    }
}

/// ed25519 rejected a key. The error does not say which one: nothing of a key may be seen.
package struct SigningFailure: Error, Sendable, Equatable {
    /// Follows "the request cannot be sent: ".
    package var explanation: String {
        "ed25519 does not take one of its `whsk_` secrets; write another, posthouse check says what it must be"
    }
}
