import Testing
import Vocabulary

@testable import Outbound

/// Oracle: RFC 9110 §10.2.3 and §5.6.7, whose own example instant is 1994-11-06T08:49:37Z.
@Suite struct RetryAfterTests {
    private let example = Timestamp(milliseconds: 784_111_777_000)

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
    ]) func theThreeFormsOfADate(text: String) throws {
        #expect(HTTPDate.parse(text, now: example) == example)
        #expect(RetryAfter.parse(text, now: example.advanced(byMilliseconds: -90_000)) == .seconds(90))
        #expect(RetryAfter.parse(text, now: example.advanced(byMilliseconds: 90_000)) == .zero)
        #expect(RetryAfter.parse(text, now: example.advanced(byMilliseconds: -864_000_000)) == Limits.retryAfterMax)
    }

    @Test func twoDigitYearsLieAtMostFiftyYearsAhead() throws {
        let now = try #require(Timestamp(iso8601: "2026-11-21T00:00:00Z"))
        for (short, year) in [("26", "2026"), ("76", "2076"), ("77", "1977"), ("94", "1994"), ("00", "2000")] {
            #expect(
                HTTPDate.parse("Monday, 01-Jun-\(short) 00:00:00 GMT", now: now)
                    == Timestamp(iso8601: "\(year)-06-01T00:00:00Z"))
        }
    }

    @Test func leapDaysAndLeapSeconds() throws {
        #expect(HTTPDate.parse("Thu, 29 Feb 2024 00:00:00 GMT", now: example) != nil)
        #expect(HTTPDate.parse("Wed, 29 Feb 2023 00:00:00 GMT", now: example) == nil)
        #expect(
            HTTPDate.parse("Sat, 31 Dec 2016 23:59:60 GMT", now: example) == Timestamp(iso8601: "2016-12-31T23:59:59Z"))
    }

    @Test func seconds() {
        for (text, expected) in [
            ("0", 0), ("120", 120), (" 7\t", 7), ("007", 7), ("86400", 86_400), ("86401", 86_400),
            (String(repeating: "9", count: 60), 86_400),
        ] { #expect(RetryAfter.parse(text, now: example) == .seconds(expected)) }
    }

    @Test(arguments: [
        "", " ", "-5", "+5", "1.5", "5 s", "5s", "soon", "1e3", "٣", "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Now 1994 08:49:37 GMT", "Son, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49 GMT", "1994-11-06T08:49:37Z", "Sun, 06 Nov -994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun Nov 99 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37.5 GMT",
        "Sun Nov +6 08:49:37 1994", "Sun Nov 006 08:49:37 1994", "Sunday, 06-Nov--94 08:49:37 GMT",
        "Sunday, 06-Nov-94- 08:49:37 GMT",
    ]) func garbage(text: String) {
        #expect(RetryAfter.parse(text, now: example) == nil)
    }
}
