internal import Vocabulary

/// Unix seconds as a header carries them and as they were signed: the text, not the number.
struct SignedTimestamp {
    /// Digits of the largest UInt64: bounds what is hashed before the body.
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

    /// Within `window` before or after now, for clocks differ either way. Asked only after the signature: an unsigned
    /// timestamp says nothing.
    func isFresh(now: Timestamp, window: Duration) -> Bool {
        guard let signedAt = Int64(text) else { return false }
        let difference = Duration.seconds(signedAt) - .milliseconds(now.milliseconds)
        return (difference < .zero ? .zero - difference : difference) <= window
    }
}
