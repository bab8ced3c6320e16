/// Decodes the inside of a JSON string. The scan has checked it before: escapes are complete and paired.
enum JSONString {
    static func decoded(_ bytes: [UInt8], _ range: Range<Int>) -> String {
        guard bytes[range].contains(UInt8(ascii: "\\")) else { return String(decoding: bytes[range], as: UTF8.self) }
        return String(decoding: decodedBytes(bytes.span, range), as: UTF8.self)
    }

    static func decodedBytes(_ bytes: Span<UInt8>, _ range: Range<Int>) -> [UInt8] {
        var out = [UInt8]()
        out.reserveCapacity(range.count)
        var at = range.lowerBound
        while at < range.upperBound {
            let byte = bytes[at]
            guard byte == UInt8(ascii: "\\"), at + 1 < range.upperBound else {
                out.append(byte)
                at += 1
                continue
            }
            switch bytes[at + 1] {
            case UInt8(ascii: "u"):
                at += appendScalar(bytes, from: at, to: &out)
                continue
            case UInt8(ascii: "b"): out.append(0x08)
            case UInt8(ascii: "f"): out.append(0x0C)
            case UInt8(ascii: "n"): out.append(0x0A)
            case UInt8(ascii: "r"): out.append(0x0D)
            case UInt8(ascii: "t"): out.append(0x09)
            case let itself: out.append(itself)
            }
            at += 2
        }
        return out
    }

    /// Appends the scalar of `\uXXXX` or of a surrogate pair at `start`; returns the number of bytes read.
    private static func appendScalar(_ bytes: Span<UInt8>, from start: Int, to out: inout [UInt8]) -> Int {
        let unit = UInt32(JSONToken.fourHexDigits(bytes, from: start + 2) ?? 0xFFFD)
        guard (0xD800...0xDBFF).contains(unit), let low = JSONToken.fourHexDigits(bytes, from: start + 8) else {
            append(Unicode.Scalar(unit) ?? "\u{FFFD}", to: &out)
            return 6
        }
        let paired = 0x10000 + (unit - 0xD800) << 10 + (UInt32(low) & 0x3FF)
        append(Unicode.Scalar(paired) ?? "\u{FFFD}", to: &out)
        return 12
    }

    private static func append(_ scalar: Unicode.Scalar, to out: inout [UInt8]) {
        out.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
    }
}
