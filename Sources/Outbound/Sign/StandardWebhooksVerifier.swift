import Crypto
import Ledger
package import Vocabulary

/// Verifies what `StandardWebhooksSigner` and the reference libraries sign; `posthouse listen` uses it.
package struct StandardWebhooksVerifier: Sendable {
    /// Why a webhook is refused.
    package enum Refusal: Error, Sendable, Equatable {
        case unreadableTimestamp
        case tooOld
        case tooNew
        /// No `v1` or `v1a` signature in the header is valid for any key.
        case wrongSignature
    }

    private let keys: [KeyedSHA256]
    private let publicKeys: [Curve25519.Signing.PublicKey]
    private let tolerance: Duration

    /// `keys` are a sender's own, `publicKeys` (32 bytes each) those of a sender that keeps its private key.
    /// `tolerance` is how far `webhook-timestamp` may differ from now in either direction; the reference libraries use
    /// 5 min.
    package init(
        keys: [Integration.SigningKey], publicKeys: [[UInt8]] = [], tolerance: Duration
    ) throws(SigningFailure) {
        var shared: [KeyedSHA256] = []
        var published: [Curve25519.Signing.PublicKey] = []
        for key in keys {
            switch key {
            case .symmetric(let secret): shared.append(KeyedSHA256(secret))
            case .asymmetric(let seed): published.append(try Ed25519.privateKey(seed: seed).publicKey)
            }
        }
        for key in publicKeys { published.append(try Ed25519.publicKey(key)) }
        self.keys = shared
        self.publicKeys = published
        self.tolerance = tolerance
    }

    /// Takes the values of `webhook-id`, `webhook-timestamp` and `webhook-signature` as they came.
    package func verify(
        id: String, timestamp: String, signature: String, body: [[UInt8]], now: Timestamp
    ) throws(Refusal) {
        // Only the form that a signer writes: `+5` and `05` are other texts under the signature.
        guard let seconds = Int64(timestamp), String(seconds) == timestamp, seconds >= 0 else {
            throw .unreadableTimestamp
        }
        let age = Duration.milliseconds(now.milliseconds) - .seconds(seconds)
        if age > tolerance { throw .tooOld }
        if age < .zero - tolerance { throw .tooNew }
        var content = SignedContent(id: id, timestamp: timestamp, body: body)
        // Every pair is compared, a code in constant time, so that the duration does not show which one is valid.
        var holds = false
        for key in keys {
            let expected = Secret(key.code(of: content.parts).withUnsafeBytes(Array.init))
            for given in Self.signatures(signature, SignedContent.symmetricVersion) where expected.matches(given) {
                holds = true
            }
        }
        for key in publicKeys {
            for given in Self.signatures(signature, SignedContent.asymmetricVersion)
            where Ed25519.holds(given, of: content.whole, for: key) {
                holds = true
            }
        }
        guard holds else { throw .wrongSignature }
    }

    /// The signatures of one version; those that cannot be read are skipped.
    private static func signatures(_ header: String, _ version: String) -> [[UInt8]] {
        header.split(separator: " ").compactMap { part in
            part.hasPrefix(version) ? Base64.decode(part.dropFirst(version.count)) : nil
        }
    }
}
