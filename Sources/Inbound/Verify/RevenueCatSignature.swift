internal import Ledger
internal import Vocabulary

/// RevenueCat's opt-in signature: `X-RevenueCat-Webhook-Signature: t=<unix>,v1=<hex>`, where the hex is HMAC-SHA256
/// with the endpoint's secret over `<unix>.` and the raw body. Each attempt is signed anew, so a freshness window does
/// not reject retries.
///
/// Read strictly: one `t`, one or more `v1` (several while the secret is rotated), nothing around them. Schemes of
/// another name belong to a later version and are ignored.
enum RevenueCatSignature: WebhookSignature {
    private static let signatureHeader = "X-RevenueCat-Webhook-Signature"
    /// More than a rotation needs; limits the comparisons that one request can cause.
    private static let signaturesMax = 8

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
        var signatures: [[UInt8]] = []

        /// Nil unless every part is `scheme=value`, `t` occurs at most once and there is a readable `v1`.
        init?(_ header: String) {
            for part in header.split(separator: ",", omittingEmptySubsequences: false) {
                let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard pair.count == 2, !pair[0].isEmpty else { return nil }
                switch pair[0] {
                case "t":
                    guard timestamp == nil else { return nil }
                    timestamp = pair[1]
                case "v1":
                    guard let signature = HexSignature.decode(pair[1]), signatures.count < signaturesMax else {
                        return nil
                    }
                    signatures.append(signature)
                default: continue
                }
            }
            if signatures.isEmpty { return nil }
        }
    }
}
