package import Vocabulary

/// The wait that a receiver asks for (RFC 9110 §10.2.3): a number of seconds or an HTTP-date.
package enum RetryAfter {
    /// Between zero (the date has passed) and `Limits.retryAfterMax`; nil if the text has neither form.
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
        // A number that Int64 cannot hold is above the limit.
        guard let value = Int64(text[...end]) else { return Limits.retryAfterMax }
        return value > Limits.retryAfterMax.components.seconds ? Limits.retryAfterMax : .seconds(value)
    }
}
