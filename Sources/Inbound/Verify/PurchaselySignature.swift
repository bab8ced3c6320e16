internal import Vocabulary

/// Purchasely's signature (github Purchasely/Documentation, custom_blocks/BackendEntitlementsSecurity.md):
/// `X-PURCHASELY-REQUEST-SIGNATURE` is the lower-case hex of HMAC-SHA256 with the client shared secret over
/// `X-PURCHASELY-TIMESTAMP` and the raw body, with nothing between them.
///
/// The older `X-PURCHASELY-SIGNATURE` does not cover the body, so it proves nothing about it: it is not looked at.
enum PurchaselySignature {
    private static let signatureHeader = "X-PURCHASELY-REQUEST-SIGNATURE"
    private static let timestampHeader = "X-PURCHASELY-TIMESTAMP"
    /// Digits of the largest UInt64: bounds what is hashed before the body.
    private static let timestampDigitsMax = 20

    static func headers(body: [UInt8], unixSeconds: Int64, secret: Secret) -> [(name: String, value: String)] {
        let timestamp = String(unixSeconds)
        let signature = HexSignature.sign(prefix: Array(timestamp.utf8), body: body, secret: secret)
        return [(timestampHeader, timestamp), (signatureHeader, signature)]
    }

    static func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, now: Timestamp
    ) -> Authenticity {
        guard let given = header(signatureHeader), !given.isEmpty else { return .refused(.missingSignature) }
        guard let timestamp = header(timestampHeader), !timestamp.isEmpty else { return .refused(.missingTimestamp) }
        guard let signature = HexSignature.decode(given) else { return .refused(.malformedSignature) }
        let prefix = Array(timestamp.utf8)
        guard prefix.count <= timestampDigitsMax, prefix.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        else { return .refused(.malformedTimestamp) }
        guard HexSignature.matches(signature, prefix: prefix, body: body, secrets: source.secrets) else {
            return .refused(.wrongSignature)
        }
        // Only after the signature: an unsigned timestamp says nothing.
        if let window = source.freshness, !isFresh(timestamp, now: now, window: window) {
            return .refused(.staleTimestamp)
        }
        return .authentic
    }

    /// Within `window` before or after now, for clocks differ either way.
    private static func isFresh(_ timestamp: String, now: Timestamp, window: Duration) -> Bool {
        guard let signedAt = Int64(timestamp) else { return false }
        return (.seconds(signedAt) - .milliseconds(now.milliseconds)).magnitude <= window
    }
}

extension Duration {
    fileprivate var magnitude: Duration { self < .zero ? .zero - self : self }
}
