internal import Vocabulary

/// A decimal number, kept by its digits: it is never a float, never rounded, and written without an exponent.
struct ExactDecimal: Hashable, Sendable {
    /// `-9.99`: a minus or nothing, digits, and a point with further digits where the number is written with them. Zero
    /// has no sign.
    let text: String
    let isNegative: Bool

    private static let zero = UInt8(ascii: "0")
    /// A longer token has more digits than are kept, or zeros to no purpose.
    private static let tokenBytesMax = 2 * Limits.moneyDigitsMax

    /// Nil for what is no number of RFC 8259 §6, and for one of more than `Limits.moneyDigitsMax` digits.
    ///
    /// - Parameters:
    ///   - token: as it is written in JSON, without quotes.
    ///   - minorDigits: how many of its last digits stand after the point, if it counts the smallest unit of a
    ///     currency: 799 with two is 7.99.
    init?(_ token: ArraySlice<UInt8>, minorDigits: Int = 0) {
        guard token.count <= Self.tokenBytesMax else { return nil }
        let isMinus = token.first == UInt8(ascii: "-")
        let unsigned = isMinus ? token.dropFirst() : token
        let whole = unsigned.prefix(while: Self.isDigit)
        var rest = unsigned.dropFirst(whole.count)
        guard let first = whole.first, first != Self.zero || whole.count == 1 else { return nil }
        var fraction: ArraySlice<UInt8> = []
        if rest.first == UInt8(ascii: ".") {
            fraction = rest.dropFirst().prefix(while: Self.isDigit)
            guard !fraction.isEmpty else { return nil }
            rest = rest.dropFirst(1 + fraction.count)
        }
        var exponent = 0
        if !rest.isEmpty {
            guard let power = Self.exponent(rest) else { return nil }
            exponent = power
        }

        var digits = Array(whole)
        digits += fraction
        let decimals = fraction.count + minorDigits - exponent
        if decimals < 0 { digits += repeatElement(Self.zero, count: -decimals) }
        let decimalsWritten = max(decimals, 0)
        let missing = decimalsWritten + 1 - digits.count
        if missing > 0 { digits.insert(contentsOf: repeatElement(Self.zero, count: missing), at: 0) }
        let wholeCount = digits.count - decimalsWritten
        let leadingZeros = digits.prefix(wholeCount - 1).prefix { $0 == Self.zero }.count
        digits.removeFirst(leadingZeros)
        guard digits.count <= Limits.moneyDigitsMax else { return nil }

        isNegative = isMinus && digits.contains { $0 != Self.zero }
        var written: [UInt8] = isNegative ? [UInt8(ascii: "-")] : []
        written += digits.dropLast(decimalsWritten)
        if decimalsWritten > 0 {
            written.append(UInt8(ascii: "."))
            written += digits.suffix(decimalsWritten)
        }
        text = String(decoding: written, as: UTF8.self)
    }

    private init(text: String, isNegative: Bool) {
        self.text = text
        self.isNegative = isNegative
    }

    /// The same number without the zeros at its end that say nothing: 9.990 is 9.99.
    var withoutTrailingZeros: ExactDecimal {
        var bytes = Array(text.utf8)
        guard bytes.contains(UInt8(ascii: ".")) else { return self }
        while bytes.last == Self.zero { bytes.removeLast() }
        if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
        return ExactDecimal(text: String(decoding: bytes, as: UTF8.self), isNegative: isNegative)
    }

    /// The exponent with its `e`. Nil for none, and for one that would move the point further than digits are kept.
    private static func exponent(_ token: ArraySlice<UInt8>) -> Int? {
        guard let letter = token.first, letter | 0x20 == UInt8(ascii: "e") else { return nil }
        var digits = token.dropFirst()
        let sign = digits.first
        if sign == UInt8(ascii: "-") || sign == UInt8(ascii: "+") { digits = digits.dropFirst() }
        guard !digits.isEmpty, digits.allSatisfy(isDigit), let power = Int(String(decoding: digits, as: UTF8.self)),
            power <= tokenBytesMax
        else { return nil }
        return sign == UInt8(ascii: "-") ? -power : power
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte &- zero < 10 }
}
