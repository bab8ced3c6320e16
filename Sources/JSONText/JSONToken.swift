/// Finds the ends of the scalar values of RFC 8259. Each function starts at an offset inside the text and returns the
/// offset after the token.
enum JSONToken {
    /// From after the opening quote to after the closing one (RFC 8259 §7), and whether the string contains an escape.
    static func endOfString(
        _ bytes: Span<UInt8>, from start: Int
    ) throws(JSONError) -> (end: Int, isEscaped: Bool) {
        var at = start
        var isEscaped = false
        while true {
            at = firstSpecial(bytes, from: at)
            guard at < bytes.count else { throw JSONError(.unexpectedEnd, at: at) }
            switch bytes[at] {
            case UInt8(ascii: "\""): return (at + 1, isEscaped)
            case UInt8(ascii: "\\"):
                isEscaped = true
                at = try endOfEscape(bytes, from: at)
            case 0: throw JSONError(.nul, at: at)
            default: throw JSONError(.controlCharacter, at: at)
            }
        }
    }

    /// The offset of the next quote, backslash or control character, found eight bytes at a time; the end of the text
    /// if there is none.
    ///
    /// The sums are the well-known ones for "has a zero byte" and "has a byte below n" (S. Anderson, Bit Twiddling
    /// Hacks): a false mark is always above a true one, so the lowest mark is exact.
    private static func firstSpecial(_ bytes: Span<UInt8>, from start: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highs: UInt64 = 0x8080_8080_8080_8080
        let raw = bytes.bytes
        var at = start
        while at &+ 8 <= bytes.count {
            // Bounds-checked; any eight bytes are a UInt64.
            let word = UInt64(littleEndian: raw.unsafeLoadUnaligned(fromByteOffset: at, as: UInt64.self))
            let quote = word ^ (ones &* 0x22)
            let backslash = word ^ (ones &* 0x5C)
            let marks =
                (((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)
                    | ((word &- (ones &* 0x20)) & ~word)) & highs
            if marks != 0 { return at &+ marks.trailingZeroBitCount / 8 }
            at &+= 8
        }
        while at < bytes.count {
            let byte = bytes[at]
            if byte < 0x20 || byte == 0x22 || byte == 0x5C { return at }
            at += 1
        }
        return at
    }

    /// From a backslash to the end of its escape; a surrogate pair is one escape.
    private static func endOfEscape(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        guard start + 1 < bytes.count else { throw JSONError(.unexpectedEnd, at: bytes.count) }
        switch bytes[start + 1] {
        case 0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74: return start + 2  // " \ / b f n r t
        case UInt8(ascii: "u"): break
        default: throw JSONError(.malformedEscape, at: start)
        }
        guard let unit = fourHexDigits(bytes, from: start + 2) else { throw JSONError(.malformedEscape, at: start) }
        if unit == 0 { throw JSONError(.nul, at: start) }
        guard UTF16.isSurrogate(unit) else { return start + 6 }
        guard UTF16.isLeadSurrogate(unit), start + 7 < bytes.count, bytes[start + 6] == UInt8(ascii: "\\"),
            bytes[start + 7] == UInt8(ascii: "u"), let low = fourHexDigits(bytes, from: start + 8),
            UTF16.isTrailSurrogate(low)
        else { throw JSONError(.loneSurrogate, at: start) }
        return start + 12
    }

    static func fourHexDigits(_ bytes: Span<UInt8>, from start: Int) -> UInt16? {
        guard start + 4 <= bytes.count else { return nil }
        var value: UInt16 = 0
        for at in start..<(start + 4) {
            switch bytes[at] {
            case let digit where isDigit(digit): value = value << 4 | UInt16(digit - UInt8(ascii: "0"))
            case let letter where (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(letter | 0x20):
                value = value << 4 | UInt16((letter | 0x20) - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return value
    }

    /// RFC 8259 §6: no leading zero, no bare point, no plus sign.
    static func endOfNumber(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        var at = start
        if bytes[at] == UInt8(ascii: "-") { at += 1 }
        let integer = at
        at = try endOfDigits(bytes, from: at)
        if bytes[integer] == UInt8(ascii: "0"), at > integer + 1 { throw JSONError(.malformedNumber, at: integer) }
        if at < bytes.count, bytes[at] == UInt8(ascii: ".") { at = try endOfDigits(bytes, from: at + 1) }
        if at < bytes.count, bytes[at] | 0x20 == UInt8(ascii: "e") {
            at += 1
            if at < bytes.count, bytes[at] == UInt8(ascii: "+") || bytes[at] == UInt8(ascii: "-") { at += 1 }
            at = try endOfDigits(bytes, from: at)
        }
        return at
    }

    /// Reads at least one digit.
    private static func endOfDigits(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        var at = start
        while at < bytes.count, isDigit(bytes[at]) { at += 1 }
        guard at > start else { throw JSONError(at < bytes.count ? .malformedNumber : .unexpectedEnd, at: at) }
        return at
    }

    static func endOfWord(_ word: StaticString, _ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        guard start + word.utf8CodeUnitCount <= bytes.count else { throw JSONError(.unexpectedEnd, at: bytes.count) }
        let matches = word.withUTF8Buffer { letters in
            letters.indices.allSatisfy { bytes[start + $0] == letters[$0] }
        }
        guard matches else { throw JSONError(.unexpectedByte, at: start) }
        return start + word.utf8CodeUnitCount
    }

    static func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }
}
