import Foundation
import Vocabulary

@testable import Outbound

/// Glibc's headers show it only to who asks for X/Open.
@_silgen_name("strptime")
private func strptime(
    _ text: UnsafePointer<CChar>, _ form: UnsafePointer<CChar>, _ parts: UnsafeMutablePointer<tm>
) -> UnsafeMutablePointer<CChar>?

/// Times as text, beside the C library's strptime(3) and timegm(3).
enum TimesTarget {
    private static let now = Timestamp(milliseconds: 1_700_000_000_000)

    static func wait(_ text: String) {
        if let wait = RetryAfter.parse(text, now: now) {
            require((.zero...Limits.retryAfterMax).contains(wait), "a wait of \(wait)")
        }
        guard let date = HTTPDate.parse(text, now: now) else { return }
        require(Timestamp.writable.contains(date), "a date that cannot be written")
        let words = text.split(separator: " ")
        let form =
            switch words.count {
            case 6: "%a, %d %b %Y %H:%M:%S GMT"
            case 4: "%A, %d-%b-%y %H:%M:%S GMT"
            default: "%a %b %d %H:%M:%S %Y"
            }
        guard var oracle = seconds(words.joined(separator: " "), form) else {
            breach("a date that strptime does not read: \(text)")
        }
        // A leap second counts as the one before it.
        if text.contains(":60") { oracle -= 1 }
        // Of two digits of a year strptime has its own reading.
        if words.count == 4 { return }
        require(date.milliseconds == oracle * 1_000, "another time than strptime's: \(text)")
    }

    static func iso8601(_ text: String) {
        let bytes = Array(text.utf8.prefix(8))
        if bytes.count == 8 {
            let number = bytes.reduce(Int64(0)) { $0 << 8 | Int64($1) }
            let width = Timestamp.writable.upperBound.milliseconds - Timestamp.writable.lowerBound.milliseconds
            let offset = Int64(UInt64(bitPattern: number) % UInt64(width))
            let time = Timestamp(milliseconds: Timestamp.writable.lowerBound.milliseconds + offset)
            require(Timestamp(iso8601: time.iso8601) == time, "a time does not read back the same")
        }
        guard let time = Timestamp(iso8601: text) else { return }
        if Timestamp.writable.contains(time) {
            require(Timestamp(iso8601: time.iso8601) == time, "a time does not read back the same")
        }
        guard let oracle = seconds(String(text.prefix(19)), "%Y-%m-%dT%H:%M:%S") else {
            breach("a time that strptime does not read: \(text)")
        }
        let zone = abs(time.milliseconds - oracle * 1_000)
        require(zone < 24 * 3_600_000 + 1_000, "further from UTC than any zone: \(text)")
        if text.hasSuffix("Z") { require(zone < 1_000, "another time than strptime's: \(text)") }
    }

    private static func seconds(_ text: String, _ form: String) -> Int64? {
        var parts = tm()
        // What it returns points into the text: it is looked at while that is there.
        let isWhole = text.withCString { strptime($0, form, &parts)?.pointee == 0 }
        guard isWhole else { return nil }
        return Int64(timegm(&parts))
    }
}
