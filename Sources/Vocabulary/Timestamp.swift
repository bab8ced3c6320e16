/// An instant in milliseconds since 1970-01-01T00:00:00Z, as vendors send it (`event_created_at_ms`).
package struct Timestamp: Hashable, Comparable, Sendable {
    package var milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Seconds or milliseconds since 1970, by the size of the number: up to this limit seconds (the year 5138), above
    /// it milliseconds (from March 1973 on).
    package init(secondsOrMilliseconds number: Int64) {
        self.init(milliseconds: number.magnitude <= 100_000_000_000 ? number * 1_000 : number)
    }

    package static func < (left: Timestamp, right: Timestamp) -> Bool { left.milliseconds < right.milliseconds }

    /// The first instant; as the time from which something counts: ever before.
    package static let distantPast = Timestamp(milliseconds: .min)
    /// The last instant; as an end: none is stated.
    package static let distantFuture = Timestamp(milliseconds: .max)

    /// The instants that ISO 8601 writes with a four-digit year: years 0000 to 9999.
    package static let writable =
        Timestamp(
            milliseconds: -62_167_219_200_000)...Timestamp(
            milliseconds: 253_402_300_799_999)

    /// This instant moved by a number of milliseconds, clamped to Int64.
    package func advanced(byMilliseconds delta: Int64) -> Timestamp {
        let (sum, overflow) = milliseconds.addingReportingOverflow(delta)
        return Timestamp(milliseconds: overflow ? (delta > 0 ? .max : .min) : sum)
    }

    /// ISO 8601 in UTC with milliseconds, e.g. `2021-11-07T17:43:35.225Z`. Precondition: `writable` contains it.
    package var iso8601: String {
        let day = Self.floorDivide(milliseconds, 86_400_000)
        let rest = Int(milliseconds - day * 86_400_000)
        let (year, month, dayOfMonth) = Self.civil(fromDay: Int(day))
        var out = [UInt8]()
        out.reserveCapacity(24)
        Self.append(year, digits: 4, to: &out)
        out.append(UInt8(ascii: "-"))
        Self.append(month, digits: 2, to: &out)
        out.append(UInt8(ascii: "-"))
        Self.append(dayOfMonth, digits: 2, to: &out)
        out.append(UInt8(ascii: "T"))
        Self.append(rest / 3_600_000, digits: 2, to: &out)
        out.append(UInt8(ascii: ":"))
        Self.append(rest / 60_000 % 60, digits: 2, to: &out)
        out.append(UInt8(ascii: ":"))
        Self.append(rest / 1_000 % 60, digits: 2, to: &out)
        out.append(UInt8(ascii: "."))
        Self.append(rest % 1_000, digits: 3, to: &out)
        out.append(UInt8(ascii: "Z"))
        return String(decoding: out, as: UTF8.self)
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`, the form that vendors send; nil for anything else.
    package init?(iso8601 text: some StringProtocol) {
        var scan = DigitScan(text.utf8)
        guard let year = scan.number(4), scan.take("-"), let month = scan.number(2), scan.take("-"),
            let day = scan.number(2), scan.take("T"), let hour = scan.number(2), scan.take(":"),
            let minute = scan.number(2), scan.take(":"), let second = scan.number(2)
        else { return nil }
        guard (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second <= 60 else { return nil }
        var fraction = 0
        if scan.take(".") {
            guard let read = scan.fractionMilliseconds() else { return nil }
            fraction = read
        }
        guard let offset = scan.zoneOffsetMinutes(), scan.isAtEnd else { return nil }
        let days = Self.day(year: year, month: month, day: day)
        // A day that the month does not have would turn into one of the next month.
        guard Self.civil(fromDay: days) == (year, month, day) else { return nil }
        let seconds = Int64(days) * 86_400 + Int64(hour * 3_600 + minute * 60 + second) - Int64(offset * 60)
        self.init(milliseconds: seconds * 1_000 + Int64(fraction))
    }

    private static func append(_ value: Int, digits: Int, to out: inout [UInt8]) {
        var divisor = 1
        for _ in 1..<digits { divisor *= 10 }
        while divisor > 0 {
            out.append(UInt8(ascii: "0") + UInt8(value / divisor % 10))
            divisor /= 10
        }
    }

    private static func floorDivide(_ value: Int64, _ by: Int64) -> Int64 {
        value >= 0 ? value / by : -((-value + by - 1) / by)
    }

    /// Gregorian date of a day counted from 1970-01-01 (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    private static func civil(fromDay day: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = day + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    private static func day(year: Int, month: Int, day: Int) -> Int {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

/// A forward reader over ASCII digits, for `Timestamp(iso8601:)` alone.
private struct DigitScan<Bytes: Collection<UInt8>> {
    private var rest: Bytes.SubSequence

    init(_ bytes: Bytes) { rest = bytes[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard rest.first == UInt8(ascii: character) else { return false }
        rest = rest.dropFirst()
        return true
    }

    mutating func number(_ digits: Int) -> Int? {
        var value = 0
        for _ in 0..<digits {
            guard let byte = rest.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
            rest = rest.dropFirst()
        }
        return value
    }

    /// Reads any number of digits after the point; those after the third are dropped.
    mutating func fractionMilliseconds() -> Int? {
        var value = 0
        var digits = 0
        while let digit = number(1) {
            if digits < 3 { value = value * 10 + digit }
            digits += 1
        }
        guard digits > 0 else { return nil }
        for _ in min(digits, 3)..<3 { value *= 10 }
        return value
    }

    mutating func zoneOffsetMinutes() -> Int? {
        if take("Z") { return 0 }
        let sign: Int
        if take("+") { sign = 1 } else if take("-") { sign = -1 } else { return nil }
        guard let hours = number(2), take(":"), let minutes = number(2), hours < 24, minutes < 60 else { return nil }
        return sign * (hours * 60 + minutes)
    }
}
