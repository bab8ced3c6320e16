/// Base64 for URLs (RFC 4648 section 5) without padding, as JSON Web Signatures have it (RFC 7515 section 2).
///
/// Read strictly: neither padding nor blanks nor the digits of the other alphabet, and no bits set after the last byte,
/// so that every byte string has exactly one text.
enum Base64URL {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    /// The value of every byte; `outside` for those that are no digit.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: outside, count: 256)
        for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
        return values
    }()
    /// A bit that no digit's value has.
    private static let outside: UInt8 = 0x80

    /// ASCII.
    static func encode(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let digits = Self.digits
        var out = [UInt8]()
        out.reserveCapacity((bytes.count * 4 + 2) / 3)
        var group: UInt32 = 0
        var bits: UInt32 = 0
        for byte in bytes {
            group = group << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                out.append(digits[Int(group >> bits & 63)])
            }
            group &= 1 << bits - 1
        }
        if bits > 0 { out.append(digits[Int(group << (6 - bits) & 63)]) }
        return out
    }

    /// Decodes `text`; nil for anything that `encode` does not write.
    static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        let rest = text.count % 4
        guard rest != 1 else { return nil }
        let values = Self.values
        var out = [UInt8](repeating: 0, count: text.count / 4 * 3 + max(rest - 1, 0))
        // All values or-ed: one byte outside the alphabet shows in the end.
        var seen: UInt8 = 0
        var from = text.startIndex
        var to = 0
        while from + 4 <= text.endIndex {
            let (first, second) = (values[Int(text[from])], values[Int(text[from + 1])])
            let (third, fourth) = (values[Int(text[from + 2])], values[Int(text[from + 3])])
            seen |= first | second | third | fourth
            out[to] = first << 2 | second >> 4
            out[to + 1] = second << 4 | third >> 2
            out[to + 2] = third << 6 | fourth
            from += 4
            to += 3
        }
        var unused: UInt8 = 0
        if rest > 0 {
            let (first, second) = (values[Int(text[from])], values[Int(text[from + 1])])
            seen |= first | second
            out[to] = first << 2 | second >> 4
            unused = second << 4
            if rest == 3 {
                let third = values[Int(text[from + 2])]
                seen |= third
                out[to + 1] = second << 4 | third >> 2
                unused = third << 6
            }
        }
        return seen & outside == 0 && unused == 0 ? out : nil
    }
}
