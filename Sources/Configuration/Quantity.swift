import Vocabulary

/// Durations as the configuration writes them: `250ms`, `5s`, `2m`, `24h`, `30d`.
package enum DurationText {
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]

    /// Nil for anything that is not digits and one unit, or too long for Int64 milliseconds.
    package static func read(_ text: String) -> Duration? {
        guard let (number, unit) = Quantity.split(text),
            let milliseconds = units.first(where: { $0.name == unit })?.milliseconds
        else { return nil }
        let (product, overflow) = number.multipliedReportingOverflow(by: milliseconds)
        return overflow ? nil : .milliseconds(product)
    }

    /// Writes in the largest unit that needs no fraction. Whole milliseconds only.
    package static func write(_ duration: Duration) -> String {
        let milliseconds = duration.wholeMilliseconds
        let unit = units.first { milliseconds % $0.milliseconds == 0 && milliseconds >= $0.milliseconds }
        return unit.map { "\(milliseconds / $0.milliseconds)\($0.name)" } ?? "\(milliseconds)ms"
    }
}

/// Sizes as the configuration writes them: `500B`, `64KiB`, `1MiB`, and the decimal `64KB`, `1MB`.
enum SizeText {
    private static let units: [(name: String, bytes: Int64)] = [
        ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000),
        ("kB", 1_000), ("B", 1),
    ]

    /// In bytes; nil for anything else.
    static func read(_ text: String) -> Int? {
        guard let (number, unit) = Quantity.split(text), let bytes = units.first(where: { $0.name == unit })?.bytes
        else { return nil }
        let (product, overflow) = number.multipliedReportingOverflow(by: bytes)
        return overflow ? nil : Int(product)
    }

    static func write(_ bytes: Int) -> String {
        let unit = units.first { Int64(bytes) % $0.bytes == 0 && Int64(bytes) >= $0.bytes && $0.name.contains("i") }
        return unit.map { "\(Int64(bytes) / $0.bytes)\($0.name)" } ?? "\(bytes)B"
    }
}

/// Rates as the configuration writes them: `100/s`, `30/m`.
enum RateText {
    private static let units: [(name: String, period: Duration)] = [("/s", .seconds(1)), ("/m", .seconds(60))]

    /// Nil for anything that is not digits and one unit.
    static func read(_ text: String) -> RateLimit? {
        guard let (number, unit) = Quantity.split(text), let period = units.first(where: { $0.name == unit })?.period,
            let count = Int(exactly: number)
        else { return nil }
        return RateLimit(count: count, period: period)
    }
}

private enum Quantity {
    /// Digits, then the rest; nil without digits or with too many.
    static func split(_ text: String) -> (number: Int64, unit: String)? {
        let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard !digits.isEmpty, let number = Int64(Substring(digits)) else { return nil }
        return (number, String(text.dropFirst(digits.count)))
    }
}
