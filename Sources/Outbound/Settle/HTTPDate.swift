package import Vocabulary

/// The three forms of an HTTP-date that a recipient must read (RFC 9110 §5.6.7).
package enum HTTPDate {
    /// Nil if the text has none of these forms. `now` places the two-digit year of the RFC 850 form.
    package static func parse(_ text: some StringProtocol, now: Timestamp) -> Timestamp? {
        guard text.utf8.count <= 40, text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else { return nil }
        let words = text.split(separator: " ")
        switch words.count {
        case 6: return fixdate(words)
        case 4: return rfc850(words, now: now)
        case 5: return asctime(words)
        default: return nil
        }
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    private static func fixdate(_ words: [some StringProtocol]) -> Timestamp? {
        guard shortDays.contains(where: { words[0] == $0 + "," }), words[5] == "GMT", words[1].utf8.count == 2,
            let month = month(words[2])
        else { return nil }
        return make(year: words[3], month: month, day: words[1], time: words[4])
    }

    /// `Sunday, 06-Nov-94 08:49:37 GMT`
    private static func rfc850(_ words: [some StringProtocol], now: Timestamp) -> Timestamp? {
        // Empty parts count: `06-Nov--94` has four.
        let parts = words[1].split(separator: "-", omittingEmptySubsequences: false)
        guard longDays.contains(where: { words[0] == $0 + "," }), words[3] == "GMT", parts.count == 3,
            parts[0].utf8.count == 2, let month = month(parts[1]), let short = number(parts[2], digits: 2),
            Timestamp.writable.contains(now), let thisYear = Int(now.iso8601.prefix(4))
        else { return nil }
        // A year that seems more than fifty years ahead is the most recent past one with these digits.
        var year = thisYear / 100 * 100 + short
        if year > thisYear + 50 { year -= 100 }
        return make(year: padded(year, digits: 4), month: month, day: parts[0], time: words[2])
    }

    /// `Sun Nov  6 08:49:37 1994`
    private static func asctime(_ words: [some StringProtocol]) -> Timestamp? {
        // Only digits: `Int` would accept a sign as well.
        guard shortDays.contains(where: { words[0] == $0 }), let month = month(words[1]), words[2].utf8.count <= 2,
            let day = number(words[2], digits: words[2].utf8.count), (1...31).contains(day)
        else { return nil }
        return make(year: words[4], month: month, day: padded(day, digits: 2), time: words[3])
    }

    private static func make(
        year: some StringProtocol, month: Int, day: some StringProtocol, time: some StringProtocol
    ) -> Timestamp? {
        // Second 60 is a leap second: the second before it is near enough.
        let clock = time.hasSuffix(":60") ? "\(time.dropLast(2))59" : String(time)
        let text = "\(year)-\(padded(month, digits: 2))-\(day)T\(clock)"
        // A date that no calendar has (30 Feb) reads differently when it is written back.
        guard text.utf8.count == 19, let instant = Timestamp(iso8601: text + "Z"), Timestamp.writable.contains(instant),
            instant.iso8601.hasPrefix(text)
        else { return nil }
        return instant
    }

    private static func month(_ name: some StringProtocol) -> Int? {
        months.firstIndex { name == $0 }.map { $0 + 1 }
    }

    private static func number(_ text: some StringProtocol, digits: Int) -> Int? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(text)
    }

    private static func padded(_ value: Int, digits: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }

    private static let shortDays = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    private static let longDays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
