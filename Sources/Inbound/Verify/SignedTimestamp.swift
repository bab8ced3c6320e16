internal import Vocabulary

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

    /// Whether it is within `window` before or after now, because clocks differ either way. Checked only after the
    /// signature: an unsigned timestamp proves nothing.
    func isFresh(now: Timestamp, window: Duration) -> Bool {
        guard let signedAt = Int64(text) else { return false }
        let difference = Duration.seconds(signedAt) - .milliseconds(now.milliseconds)
        return (difference < .zero ? .zero - difference : difference) <= window
    }
}
