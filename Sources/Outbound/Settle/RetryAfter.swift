package import Vocabulary

/// How long a receiver asks to be left alone (RFC 9110 §10.2.3): a number of seconds or an HTTP-date.
package enum RetryAfter {
    /// Between zero (a date gone by) and `Limits.retryAfterMax`; nil for what is neither form.
    package static func parse(_ text: String, now: Timestamp) -> Duration? {
        let trimmed = text.drop { $0 == " " || $0 == "\t" }
        guard let first = trimmed.utf8.first else { return nil }
        if (0x30...0x39).contains(first) { return seconds(trimmed) }
        guard let date = HTTPDate.parse(trimmed, now: now) else { return nil }
        let (wait, overflow) = date.milliseconds.subtractingReportingOverflow(now.milliseconds)
        return overflow ? nil : min(max(.zero, .milliseconds(wait)), Limits.retryAfterMax)
    }

    private static func seconds(_ text: Substring) -> Duration? {
        let end = text.lastIndex { $0 != " " && $0 != "\t" } ?? text.startIndex
        let digits = text[...end].utf8
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        // More digits than Int64 holds are more than any bound.
        guard let value = Int64(text[...end]) else { return Limits.retryAfterMax }
        return value > Limits.retryAfterMax.components.seconds ? Limits.retryAfterMax : .seconds(value)
    }
}
