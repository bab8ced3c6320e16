import Foundation
import Testing
import Vocabulary

@testable import Inbound

/// Oracle: the numbers written out by hand, and Foundation's `Decimal`, which is exact for as many digits as these.
@Suite("Exact decimals")
struct ExactDecimalTests {
    private static func read(_ token: String, minorDigits: Int = 0) -> ExactDecimal? {
        ExactDecimal(Array(token.utf8)[...], minorDigits: minorDigits)
    }

    static let digits = String(repeating: "7", count: Limits.moneyDigitsMax)
    static let zeros = String(repeating: "0", count: 10_000)

    static let plain: [String] = [
        "0", "9", "9.99", "-9.99", "9.90", "0.00", "2.1165000000000003", "463.55357142857133", "9007199254740993",
        digits, "-\(digits)", "0.\(digits.dropFirst())",
    ]

    @Test("A number without an exponent stays as it is written, whatever a float would make of it", arguments: plain)
    func unchanged(token: String) {
        #expect(Self.read(token)?.text == token)
        #expect(Self.read(token)?.isNegative == token.hasPrefix("-"))
    }

    @Test(
        "An exponent is written out",
        arguments: [
            ("1e2", "100"), ("1.5E+3", "1500"), ("-1.5e3", "-1500"), ("1.5e-3", "0.0015"), ("100e-2", "1.00"),
            ("12.5e0", "12.5"), ("0.05e1", "0.5"), ("0e5", "0"), ("1e-\(Limits.moneyDigitsMax - 1)", edge),
        ])
    func exponents(token: String, written: String) {
        #expect(Self.read(token)?.text == written)
    }

    /// The smallest number that is kept.
    static let edge = "0." + String(repeating: "0", count: Limits.moneyDigitsMax - 2) + "1"

    @Test("Zero has no sign", arguments: [("-0", "0"), ("-0.0", "0.0"), ("-0e1", "0"), ("-0.00", "0.00")])
    func zero(token: String, written: String) {
        let read = Self.read(token)
        #expect(read?.text == written && read?.isNegative == false)
    }

    static let others: [String] = [
        "", "-", "+1", ".5", "5.", "01", "-01", "1e", "1e+", "1e1.0", "1.0.0", "1,5", " 1", "1 ", "0x1F", "NaN",
        "Infinity", "true", "{}", "٩", "\(digits)7", "0.\(digits)", "1e\(Limits.moneyDigitsMax)",
        "1e-\(Limits.moneyDigitsMax)", "1e99999999999999999999", "1e-99999999999999999999", zeros, "0.\(zeros)",
    ]

    @Test("What is no number of JSON, or has more digits than are kept, is none", arguments: others)
    func refused(token: String) {
        #expect(Self.read(token) == nil)
    }

    @Test(
        "Units of a currency get their point",
        arguments: [
            ("799", 2, "7.99"), ("5", 2, "0.05"), ("0", 2, "0.00"), ("-5", 3, "-0.005"), ("9990", 3, "9.990"),
            ("500", 0, "500"), ("-799", 2, "-7.99"), ("7e2", 2, "7"),
        ])
    func minorUnits(token: String, minorDigits: Int, written: String) {
        #expect(Self.read(token, minorDigits: minorDigits)?.text == written)
    }

    @Test(
        "Zeros at the end can be left out",
        arguments: [("9.990", "9.99"), ("9.000", "9"), ("-0.500", "-0.5"), ("0.000", "0"), ("900", "900"), ("0", "0")])
    func withoutTrailingZeros(token: String, written: String) {
        #expect(Self.read(token)?.withoutTrailingZeros.text == written)
    }

    @Test("The value is the token's, whatever its shape")
    func value() throws {
        var random = SeededGenerator(seed: 17)
        for _ in 0..<2_000 {
            let whole = UInt64.random(in: 0...999_999, using: &random)
            let fraction = UInt64.random(in: 0...99_999, using: &random)
            let exponent = Int.random(in: -9...9, using: &random)
            let sign = Bool.random(using: &random) ? "-" : ""
            let token = "\(sign)\(whole).\(fraction)" + (exponent == 0 ? "" : "e\(exponent)")
            let text = try #require(Self.read(token)?.text)
            #expect(Decimal(string: text) == Decimal(string: token), "\(token) became \(text)")
            #expect(!text.lowercased().contains("e"))
        }
    }
}
