/// A field line of HTTP in its plainest form (RFC 9112 §5): a name of letters, digits and `-`, a colon, a space at
/// most, and a value with no space around it. It says where the two are in the bytes of a head that is read in place.
package struct FieldLine: Sendable {
    package let name: Range<Int>
    package let value: Range<Int>

    /// - Parameter line: a line without its CR LF, as `lineEnd` finds it.
    package init?(_ bytes: UnsafeRawBufferPointer, _ line: Range<Int>) {
        var end = line.lowerBound
        while end < line.upperBound, Self.isOfName(bytes[end]) { end += 1 }
        guard end > line.lowerBound, end < line.upperBound, bytes[end] == UInt8(ascii: ":") else { return nil }
        var start = end + 1
        if start < line.upperBound, bytes[start] == UInt8(ascii: " ") { start += 1 }
        let space = UInt8(ascii: " ")
        if start < line.upperBound, bytes[start] == space || bytes[line.upperBound - 1] == space { return nil }
        name = line.lowerBound..<end
        value = start..<line.upperBound
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || byte == UInt8(ascii: "-")
    }

    /// - Parameter text: in small letters; the name may be in any case.
    package func isNamed(_ text: StaticString, in bytes: UnsafeRawBufferPointer) -> Bool {
        Self.holds(text, bytes, name)
    }

    /// - Parameter text: in small letters; the value may be in any case.
    package func hasValue(_ text: StaticString, in bytes: UnsafeRawBufferPointer) -> Bool {
        Self.holds(text, bytes, value)
    }

    private static func holds(_ text: StaticString, _ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Bool {
        guard range.count == text.utf8CodeUnitCount else { return false }
        for (index, byte) in bytes[range].enumerated() {
            guard text.utf8Start[index] == byte.asciiLowercased else { return false }
        }
        return true
    }

    /// Where the CR LF of the line at `start` is; nil: there is none, or it has bytes other than printable ASCII.
    package static func lineEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        var place = start
        while place < bytes.count, (0x20...0x7E).contains(bytes[place]) { place += 1 }
        guard place + 1 < bytes.count, bytes[place] == UInt8(ascii: "\r"), bytes[place + 1] == UInt8(ascii: "\n")
        else { return nil }
        return place
    }

    /// Decimal digits, nine at most.
    package static func number(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Int? {
        guard (1...9).contains(range.count), range.upperBound <= bytes.count else { return nil }
        var number = 0
        for byte in bytes[range] {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            number = number * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return number
    }
}
