internal import Ledger
internal import Vocabulary

/// Stripe's signature (docs.stripe.com/webhooks, "Verify webhook signatures manually"):
/// `Stripe-Signature: t=<unix>,v1=<hex>`, where the hex is HMAC-SHA256 over `<unix>.` and the raw body.
///
/// The key is the endpoint's whole secret as text, `whsec_` included: nothing of it is decoded, unlike in Standard
/// Webhooks, which has the same prefix. Each attempt is signed anew, so a freshness window does not reject retries.
///
/// There is one `v1` for each secret that is valid while a secret is rolled; one good one is enough. A `v1` that is not
/// 64 hex digits (in either case) and other schemes, as `v0` of test mode, are ignored. Everything else is read
/// strictly: parts of the form `scheme=value`, exactly one `t`, nothing around them.
enum StripeSignature: WebhookSignature {
    private static let signatureHeader = "Stripe-Signature"
    /// More than a rotation needs; limits the comparisons that one request can cause.
    private static let signaturesMax = 16
    /// Bytes of the header that are read; `signaturesMax` signatures fit twice.
    private static let headerBytesMax = 2_560

    static func headers(body: [UInt8], unixSeconds: Int64, secret: Secret) -> [(name: String, value: String)] {
        let timestamp = String(unixSeconds)
        let signature = HexSignature.sign(prefix: prefix(timestamp), body: body, secret: secret)
        return [(signatureHeader, "t=\(timestamp),v1=\(signature)")]
    }

    static func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, keys: [KeyedSHA256], now: Timestamp
    ) -> Authenticity {
        guard let given = header(signatureHeader), !given.isEmpty else { return .refused(.missingSignature) }
        guard let parts = Parts(given) else { return .refused(.malformedSignature) }
        guard let written = parts.timestamp else { return .refused(.missingTimestamp) }
        guard let timestamp = SignedTimestamp(written) else { return .refused(.malformedTimestamp) }
        let isSigned = HexSignature.matches(
            anyOf: parts.signatures, prefix: prefix(timestamp.text), body: body, keys: keys)
        return timestamp.verdict(isSigned: isSigned, source: source, now: now)
    }

    private static func prefix(_ timestamp: String) -> [UInt8] { Array(timestamp.utf8) + [UInt8(ascii: ".")] }

    /// The parts of the header.
    private struct Parts {
        var timestamp: Substring?
        /// Those that can be read.
        var signatures: [[UInt8]] = []

        /// Nil unless every part is `scheme=value`, `t` occurs at most once and there is a readable `v1`.
        init?(_ header: String) {
            guard header.utf8.count <= headerBytesMax else { return nil }
            var count = 0
            for part in header.split(separator: ",", omittingEmptySubsequences: false) {
                let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard pair.count == 2, !pair[0].isEmpty else { return nil }
                switch pair[0] {
                case "t":
                    guard timestamp == nil else { return nil }
                    timestamp = pair[1]
                case "v1":
                    count += 1
                    guard count <= signaturesMax else { return nil }
                    if let signature = HexSignature.decode(pair[1]) { signatures.append(signature) }
                default: continue
                }
            }
            if signatures.isEmpty { return nil }
        }
    }
}
