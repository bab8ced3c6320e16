internal import Ledger
internal import Vocabulary

/// Purchasely's signature (its documentation, "Backend entitlements security"):
/// `X-PURCHASELY-REQUEST-SIGNATURE` is the lower-case hex of HMAC-SHA256 with the client shared secret over
/// `X-PURCHASELY-TIMESTAMP` and the raw body, with nothing between them.
///
/// The older `X-PURCHASELY-SIGNATURE` is ignored, because it does not cover the body.
enum PurchaselySignature: WebhookSignature {
    private static let signatureHeader = "X-PURCHASELY-REQUEST-SIGNATURE"
    private static let timestampHeader = "X-PURCHASELY-TIMESTAMP"

    static func headers(body: [UInt8], unixSeconds: Int64, secret: Secret) -> [(name: String, value: String)] {
        let timestamp = String(unixSeconds)
        let signature = HexSignature.sign(prefix: Array(timestamp.utf8), body: body, secret: secret)
        return [(timestampHeader, timestamp), (signatureHeader, signature)]
    }

    static func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, keys: [KeyedSHA256], now: Timestamp
    ) -> Authenticity {
        guard let given = header(signatureHeader), !given.isEmpty else { return .refused(.missingSignature) }
        guard let written = header(timestampHeader), !written.isEmpty else { return .refused(.missingTimestamp) }
        guard let signature = HexSignature.decode(given) else { return .refused(.malformedSignature) }
        guard let timestamp = SignedTimestamp(written) else { return .refused(.malformedTimestamp) }
        let isSigned = HexSignature.matches(
            anyOf: [signature], prefix: Array(timestamp.text.utf8), body: body, keys: keys)
        return timestamp.verdict(isSigned: isSigned, source: source, now: now)
    }
}
