import Foundation
import Testing
import Vocabulary

/// Oracle: Foundation's own calendar and ISO 8601.
@Suite("Timestamps")
struct TimestampTests {
    private static func foundation(_ milliseconds: Int64) -> String {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        // Whole seconds exactly, the rest by hand: Date counts in doubles.
        let seconds = Int64((Double(milliseconds) / 1_000).rounded(.down))
        let rest = milliseconds - seconds * 1_000
        let date = Date(timeIntervalSince1970: Double(seconds))
        let parts = calendar.dateComponents([.year, .month, .day, .hour, .minute, .second], from: date)
        return String(
            format: "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.year ?? 0, parts.month ?? 0, parts.day ?? 0,
            parts.hour ?? 0, parts.minute ?? 0, parts.second ?? 0, Int(rest))
    }

    @Test("Written as Foundation's calendar has it, and read back: leap years, before 1970, ends of months")
    func roundTrip() {
        var generator = Xorshift(state: 5)
        let day: Int64 = 86_400_000
        var samples: [Int64] = [0, -1, 1, 999, -999, 1_636_307_015_225, day - 1, -day, -day - 1]
        for year in [1600, 1700, 1900, 1970, 1999, 2000, 2023, 2024, 2100, 2400] {
            let start = (Int64(year) - 1970) * 36_525 / 100 * day
            for days in -3...3 { samples.append(start + Int64(days) * day + 58 * day) }
        }
        // Foundation is Julian before 1582-10-15; ISO 8601 and we are Gregorian throughout.
        for _ in 0..<2_000 {
            samples.append(Int64.random(in: -12_219_292_800_000...253_402_300_799_999, using: &generator))
        }
        for milliseconds in samples {
            let text = Timestamp(milliseconds: milliseconds).iso8601
            #expect(text == Self.foundation(milliseconds))
            #expect(Timestamp(iso8601: text)?.milliseconds == milliseconds)
        }
    }

    @Test("The ends of what four digits write")
    func ends() {
        #expect(Timestamp.writable.lowerBound.iso8601 == "0000-01-01T00:00:00.000Z")
        #expect(Timestamp.writable.upperBound.iso8601 == "9999-12-31T23:59:59.999Z")
        #expect(Timestamp(iso8601: "0000-01-01T00:00:00Z") == Timestamp.writable.lowerBound)
        // The Gregorian calendar repeats itself every 400 years, 146,097 days.
        for year in stride(from: 0, through: 1_580, by: 20) {
            let early = String(format: "%04d", year)
            let late = String(format: "%04d", year + 400)
            for date in ["-02-28", "-03-01", "-12-31"] {
                let first = Timestamp(iso8601: early + date + "T12:00:00Z")
                let second = Timestamp(iso8601: late + date + "T12:00:00Z")
                #expect(first?.advanced(byMilliseconds: 146_097 * 86_400_000) == second)
                #expect(first?.iso8601 == early + date + "T12:00:00.000Z")
            }
        }
    }

    @Test(
        "Read as Foundation reads it",
        arguments: [
            "2021-11-07T17:43:35Z", "2021-11-07T17:43:35+01:00", "2021-11-07T17:43:35-09:30", "2024-02-29T00:00:00Z",
            "1969-12-31T23:59:59Z", "2021-11-07T00:00:00+14:00",
        ])
    func zones(text: String) throws {
        let expected = try Date(text, strategy: .iso8601)
        #expect(Timestamp(iso8601: text)?.milliseconds == Int64(expected.timeIntervalSince1970 * 1_000))
    }

    @Test(
        "Fractions of any length; beyond milliseconds they are cut",
        arguments: [
            (".2", 200), (".22", 220), (".225", 225), (".2259", 225), (".000999999999", 0), (".0", 0),
        ] as [(String, Int64)])
    func fractions(fraction: String, milliseconds: Int64) {
        #expect(Timestamp(iso8601: "1970-01-01T00:00:00\(fraction)Z")?.milliseconds == milliseconds)
    }

    @Test(
        "Everything else is refused",
        arguments: [
            "", "2021-11-07", "2021-11-07T17:43:35", "2021-11-07 17:43:35Z", "2021-13-07T17:43:35Z",
            "2021-00-07T17:43:35Z", "2021-11-31T17:43:35Z", "2023-02-29T17:43:35Z", "1900-02-29T17:43:35Z",
            "2021-11-00T17:43:35Z", "2021-11-07T24:00:00Z", "2021-11-07T17:60:35Z", "2021-11-07T17:43:61Z",
            "2021-11-07T17:43:35.Z", "2021-11-07T17:43:35+0100", "2021-11-07T17:43:35+24:00", "2021-11-07T17:43:35Zx",
            "02021-11-07T17:43:35Z", "2021-1-07T17:43:35Z", "２021-11-07T17:43:35Z", "-021-11-07T17:43:35Z",
        ])
    func refused(text: String) { #expect(Timestamp(iso8601: text) == nil) }

    @Test("Moving stays inside the integer")
    func advancing() {
        #expect(Timestamp(milliseconds: 5).advanced(byMilliseconds: -7) == Timestamp(milliseconds: -2))
        #expect(Timestamp(milliseconds: .max).advanced(byMilliseconds: 1) == Timestamp(milliseconds: .max))
        #expect(Timestamp(milliseconds: .min).advanced(byMilliseconds: -1) == Timestamp(milliseconds: .min))
        #expect(Timestamp(milliseconds: 1) < Timestamp(milliseconds: 2))
    }
}

/// A small generator with a seed: the same samples on every machine.
struct Xorshift: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }
}
