/// Strict Base64 after RFC 4648 §4: padded, no line breaks, and no bits set after the last byte, so that every byte
/// string has exactly one text.
package enum Base64 {
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        // For other modules this is not specialised: an array is read faster.
        let bytes = Array(bytes)
        var out = [UInt8]()
        out.reserveCapacity((bytes.count + 2) / 3 * 4)
        bytes.withUnsafeBytes { append($0, to: &out) }
        return String(decoding: out, as: UTF8.self)
    }

    /// Writes the text of `bytes` to the end of `out`.
    package static func append(_ bytes: UnsafeRawBufferPointer, to out: inout [UInt8]) {
        var group: UInt32 = 0
        var count = 0
        for byte in bytes {
            group = group << 8 | UInt32(byte)
            count += 1
            if count == 3 {
                for shift: UInt32 in [18, 12, 6, 0] { out.append(digit(group >> shift & 63)) }
                group = 0
                count = 0
            }
        }
        if count == 1 {
            out += [digit(group >> 2 & 63), digit(group << 4 & 63), pad, pad]
        } else if count == 2 {
            out += [digit(group >> 10 & 63), digit(group >> 4 & 63), digit(group << 2 & 63), pad]
        }
    }

    /// Decodes `text`; nil for anything that `encode` does not write.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 4) else { return nil }
        guard !digits.isEmpty else { return [] }
        let padding = digits.last != pad ? 0 : digits[digits.count - 2] != pad ? 1 : 2
        var out = [UInt8]()
        out.reserveCapacity(digits.count / 4 * 3)
        var group: UInt32 = 0
        var bits = 0
        for byte in digits.dropLast(padding) {
            guard let value = value(byte) else { return nil }
            group = group << 6 | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                out.append(UInt8(truncatingIfNeeded: group >> UInt32(bits)))
                group &= 1 << UInt32(bits) - 1
            }
        }
        return group == 0 ? out : nil
    }

    private static let pad = UInt8(ascii: "=")

    private static func digit(_ value: UInt32) -> UInt8 {
        switch value {
        case 0..<26: UInt8(ascii: "A") + UInt8(value)
        case 26..<52: UInt8(ascii: "a") + UInt8(value - 26)
        case 52..<62: UInt8(ascii: "0") + UInt8(value - 52)
        case 62: UInt8(ascii: "+")
        default: UInt8(ascii: "/")
        }
    }

    private static func value(_ digit: UInt8) -> UInt32? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
