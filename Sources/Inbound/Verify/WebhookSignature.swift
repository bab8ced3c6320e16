internal import Ledger
internal import Vocabulary

/// A vendor's signature over a body and a time.
protocol WebhookSignature: Sendable {
    /// The keys that a secret may mean.
    static func keys(of secret: Secret) -> [KeyedSHA256]

    /// The headers that `authenticate` accepts at `unixSeconds`.
    static func headers(body: [UInt8], unixSeconds: Int64, secret: Secret) -> [(name: String, value: String)]

    /// - Parameter keys: those of the source's secrets.
    static func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, keys: [KeyedSHA256], now: Timestamp
    ) -> Authenticity
}

extension WebhookSignature {
    static func keys(of secret: Secret) -> [KeyedSHA256] { [KeyedSHA256(secret)] }
}

/// Unix seconds from a header, kept as the signed text, not as a number.
struct SignedTimestamp {
    /// Digits of the largest UInt64; limits the bytes hashed before the body.
    private static let digitsMax = 20

    let text: String

    /// Nil unless `text` is 1 to 20 ASCII digits.
    init?(_ text: some StringProtocol) {
        let digits = text.utf8
        guard (1...Self.digitsMax).contains(digits.count),
            digits.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        else { return nil }
        self.text = String(text)
    }

    /// The verdict on a webhook of this time. Whether it is fresh is checked only after the signature: an unsigned
    /// timestamp proves nothing.
    func verdict(isSigned: Bool, source: Source, now: Timestamp) -> Authenticity {
        guard isSigned else { return .refused(.wrongSignature) }
        if let window = source.freshness, !isFresh(now: now, window: window) { return .refused(.staleTimestamp) }
        return .authentic
    }

    /// Whether it is within `window` before or after now, because clocks differ either way.
    private func isFresh(now: Timestamp, window: Duration) -> Bool {
        guard let signedAt = Int64(text) else { return false }
        let difference = Duration.seconds(signedAt) - .milliseconds(now.milliseconds)
        return (difference < .zero ? .zero - difference : difference) <= window
    }
}
