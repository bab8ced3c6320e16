internal import Vocabulary

/// The header field Cache-Control of an answer (RFC 9111 section 5.2).
package enum CacheControl {
    /// Digits of an age that are read; RFC 9111 section 1.2.2 lets a greater one count as very long.
    private static let digitsMax = 10

    /// How long the answer may be used: its first readable `max-age`, and zero after `no-store` or `no-cache`; nil if
    /// the field says nothing of it.
    package static func maxAge(_ field: String) -> Duration? {
        var age: Duration?
        for part in field.utf8.split(separator: UInt8(ascii: ",")) {
            let directive = lowerCased(part)
            if directive.elementsEqual("no-store".utf8) || directive.elementsEqual("no-cache".utf8) { return .zero }
            let prefix = "max-age=".utf8
            guard age == nil, directive.starts(with: prefix) else { continue }
            age = seconds(unquoted(directive.dropFirst(prefix.count)))
        }
        return age
    }

    /// Without blanks around it.
    private static func lowerCased(_ part: Substring.UTF8View) -> [UInt8] {
        let isBlank = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var bytes = Array(part.drop(while: isBlank))
        while let last = bytes.last, isBlank(last) { bytes.removeLast() }
        return bytes.map(\.asciiLowercased)
    }

    /// A recipient takes the quoted form, too (RFC 9111 section 5.2).
    private static func unquoted(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let quote = UInt8(ascii: "\"")
        guard value.count >= 2, value.first == quote, value.last == quote else { return value }
        return value.dropFirst().dropLast()
    }

    private static func seconds(_ digits: ArraySlice<UInt8>) -> Duration? {
        guard !digits.isEmpty, digits.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) else { return nil }
        var value: Int64 = 0
        for digit in digits.prefix(digitsMax) { value = value * 10 + Int64(digit - UInt8(ascii: "0")) }
        return .seconds(value)
    }
}
