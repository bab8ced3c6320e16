/// A 128-bit id made by Posthouse: the first half of a SHA-256 over what it names, less of it behind a time, or a
/// random number. Stored as PostgreSQL's `uuid` (16 bytes, no text), written as 32 lower-case hex digits.
package struct Identifier: Hashable, Comparable, Sendable {
    package let high: UInt64
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The first 16 of `bytes`, big-endian. Precondition: there are 16.
    package init(bytes: some Sequence<UInt8>) {
        var high: UInt64 = 0
        var low: UInt64 = 0
        var count = 0
        for byte in bytes.prefix(16) {
            if count < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt64(byte) }
            count += 1
        }
        precondition(count == 16, "an identifier needs 16 bytes")
        self.init(high: high, low: low)
    }

    /// The first 16 of `bytes`, big-endian, without a copy. Precondition: there are 16.
    package init(rawBytes bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count >= 16, "an identifier needs 16 bytes")
        self.init(
            high: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }

    /// 32 hex digits, dashes allowed (PostgreSQL writes a uuid with them); nil for anything else.
    package init?(hex text: some StringProtocol) {
        var high: UInt64 = 0
        var low: UInt64 = 0
        var count = 0
        for byte in text.utf8 where byte != UInt8(ascii: "-") {
            guard let digit = Self.value(ofHexDigit: byte).map(UInt64.init) else { return nil }
            if count < 16 { high = high << 4 | digit } else { low = low << 4 | digit }
            count += 1
            if count > 32 { return nil }
        }
        guard count == 32 else { return nil }
        self.init(high: high, low: low)
    }

    package var bytes: [UInt8] {
        var out = [UInt8]()
        out.reserveCapacity(16)
        for half in [high, low] {
            for shift in stride(from: 56, through: 0, by: -8) { out.append(UInt8(truncatingIfNeeded: half >> shift)) }
        }
        return out
    }

    package var hex: String { hex(behind: "") }

    /// The hex digits behind a prefix.
    package func hex(behind prefix: StaticString) -> String {
        let start = prefix.utf8CodeUnitCount
        return String(unsafeUninitializedCapacity: start + 32) { out in
            for at in 0..<start { out[at] = prefix.utf8Start[at] }
            for digit in 0..<16 {
                let shift = UInt64(60 - 4 * digit)
                out[start + digit] = Self.hexDigit(UInt8(truncatingIfNeeded: high >> shift))
                out[start + 16 + digit] = Self.hexDigit(UInt8(truncatingIfNeeded: low >> shift))
            }
            return start + 32
        }
    }

    /// Of the lower four bits.
    private static func hexDigit(_ value: UInt8) -> UInt8 {
        let nibble = value & 15
        return nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") - 10 + nibble
    }

    package static func < (left: Identifier, right: Identifier) -> Bool {
        left.high == right.high ? left.low < right.low : left.high < right.high
    }

    /// This id behind a time: four bytes of time, in steps of 2^20 milliseconds (some 17 minutes) since 1970, then the
    /// first twelve bytes of this id. In an index, ids of one time stand side by side, and new ones at its end.
    ///
    /// Times are clamped to 1970–2109, so that the first ten bits are 0.
    package func behind(_ time: Timestamp) -> Identifier {
        let step = UInt64(min(max(time.milliseconds >> 20, 0), Self.lastTimeStep))
        return Identifier(high: step << 32 | high >> 32, low: high << 32 | low >> 32)
    }

    private static let lastTimeStep: Int64 = 1 << 22 - 1

    /// The value of a hex digit in either case; nil for any other byte.
    package static func value(ofHexDigit byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// 128 random bits, which nobody can guess.
    package static func random() -> Identifier {
        var generator = SystemRandomNumberGenerator()
        return Identifier(high: generator.next(), low: generator.next())
    }

    /// The text of a UUID of version 4 with these bits (RFC 9562 section 5.4).
    package var uuid4: String {
        let hex = Identifier(high: high & ~0xF000 | 0x4000, low: low & ~(3 << 62) | 1 << 63).hex
        var rest = hex[...]
        return [8, 4, 4, 4, 12].map { length in
            defer { rest = rest.dropFirst(length) }
            return rest.prefix(length)
        }.joined(separator: "-")
    }

    /// Lower-case hex of any bytes.
    package static func hex(of bytes: some Sequence<UInt8>) -> String {
        var out = [UInt8]()
        out.reserveCapacity(2 * bytes.underestimatedCount)
        for byte in bytes {
            out.append(hexDigit(byte >> 4))
            out.append(hexDigit(byte))
        }
        return String(decoding: out, as: UTF8.self)
    }
}
