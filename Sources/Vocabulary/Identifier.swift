/// A 128-bit id made by Posthouse: the first half of a SHA-256 over what it names, or a random number. Stored as
/// PostgreSQL's `uuid` (16 bytes, no text), written as 32 lower-case hex digits.
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
            let digit: UInt64
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = UInt64(byte - UInt8(ascii: "a") + 10)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = UInt64(byte - UInt8(ascii: "A") + 10)
            default: return nil
            }
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

    package var hex: String { Self.hex(of: bytes) }

    package static func < (left: Identifier, right: Identifier) -> Bool {
        left.high == right.high ? left.low < right.low : left.high < right.high
    }

    /// Lower-case hex of any bytes.
    package static func hex(of bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var out = [UInt8]()
        for byte in bytes {
            out.append(digits[Int(byte >> 4)])
            out.append(digits[Int(byte & 15)])
        }
        return String(decoding: out, as: UTF8.self)
    }
}
