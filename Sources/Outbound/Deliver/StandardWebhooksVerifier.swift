import Crypto
package import NIOCore
package import Vocabulary

/// Verifies what `StandardWebhooksSigner` and the reference libraries sign; `posthouse listen` uses it.
package struct StandardWebhooksVerifier: Sendable {
    /// Why a webhook is refused.
    package enum Refusal: Error, Sendable, Equatable {
        case unreadableTimestamp
        case tooOld
        case tooNew
        /// No `v1` signature of the header is of any key.
        case wrongSignature
    }

    private let keys: [SymmetricKey]
    private let tolerance: Duration

    /// `tolerance` is how far `webhook-timestamp` may lie from now, to both sides; the reference libraries take 5 min.
    package init(keys: [Integration.SigningKey], tolerance: Duration) {
        self.keys = keys.map(StandardWebhooksHash.key)
        self.tolerance = tolerance
    }

    /// Takes the values of `webhook-id`, `webhook-timestamp` and `webhook-signature` as they came.
    package func verify(
        id: String, timestamp: String, signature: String, body: [ByteBuffer], now: Timestamp
    ) throws(Refusal) {
        // Only the digits that a signer writes: `+5` and `05` are other texts under the signature.
        guard let seconds = Int64(timestamp), String(seconds) == timestamp, seconds >= 0 else {
            throw .unreadableTimestamp
        }
        let age = Duration.milliseconds(now.milliseconds) - .seconds(seconds)
        if age > tolerance { throw .tooOld }
        if age < .zero - tolerance { throw .tooNew }
        // Every pair is compared, in constant time each: how long it takes tells nothing about which one held.
        var holds = false
        for key in keys {
            let code = StandardWebhooksHash.code(id: id, timestamp: timestamp, body: body, key: key)
            let expected = Secret(code.withUnsafeBytes(Array.init))
            for candidate in signature.split(separator: " ") where candidate.hasPrefix("v1,") {
                guard let bytes = Base64.decode(candidate.dropFirst(3)) else { continue }
                if expected.matches(bytes) { holds = true }
            }
        }
        guard holds else { throw .wrongSignature }
    }
}
