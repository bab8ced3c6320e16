import Foundation
import Testing

@testable import JSONText

@Suite struct JSONObjectTests {
    @Test func readsEachType() throws {
        let object = try scan(
            #" {"s":"x","i":-42,"t":true,"f":false,"n":null,"o":{"p":"q","r":{"s":1}},"k\u0065y":"\u00e9\n","a":[1, 2]} "#
        )
        #expect(object.keys == ["s", "i", "t", "f", "n", "o", "key", "a"])
        #expect(try object.string("s") == "x")
        #expect(try object.integer("i") == -42)
        #expect(try object.bool("t") == true)
        #expect(try object.bool("f") == false)
        #expect(try object.string("key") == "é\n")
        let nested = try #require(try object.object("o"))
        #expect(nested.keys == ["p", "r"])
        #expect(try nested.string("p") == "q")
        #expect(try nested.object("r")?.integer("s") == 1)
        #expect(object.raw("a").map { String(decoding: $0, as: UTF8.self) } == "[1, 2]")
        #expect(object.raw("n").map { String(decoding: $0, as: UTF8.self) } == "null")
        #expect(object.raw("x") == nil)
    }

    @Test(arguments: ["absent", "null"]) func givesNilForWhatIsNotThere(_ key: String) throws {
        let object = try scan(#"{"null":null}"#)
        #expect(try object.string(key) == nil)
        #expect(try object.integer(key) == nil)
        #expect(try object.digits(key) == nil)
        #expect(try object.bool(key) == nil)
        #expect(try object.object(key)?.count == nil)
    }

    @Test func throwsForAnotherType() throws {
        let object = try scan(#"{"s":"1","i":1,"b":true,"o":{},"a":[]}"#)
        #expect(throws: JSONError(.notAString, at: 13)) { try object.string("i") }
        #expect(throws: JSONError(.notAString, at: 28)) { try object.string("o") }
        #expect(throws: JSONError(.notAnInteger, at: 5)) { try object.integer("s") }
        #expect(throws: JSONError(.notAnIdentifier, at: 19)) { try object.digits("b") }
        #expect(throws: JSONError(.notAnIdentifier, at: 35)) { try object.digits("a") }
        #expect(throws: JSONError(.notABoolean, at: 5)) { try object.bool("s") }
        #expect(throws: JSONError(.notAnObject, at: 35)) { _ = try object.object("a") }
    }

    @Test(
        arguments: [
            ("0", 0), ("-0", 0), ("9223372036854775807", .max), ("-9223372036854775808", .min),
            ("9223372036854775808", nil),
            ("1.0", nil), ("1e3", nil), ("1E0", nil), ("123456789012345678901234567890", nil),
        ] as [(String, Int64?)])
    func takesIntegersExactly(_ number: String, _ value: Int64?) throws {
        let object = try scan(#"{"n":\#(number)}"#)
        if let value {
            #expect(try object.integer("n") == value)
        } else {
            #expect(throws: JSONError(.notAnInteger, at: 5)) { try object.integer("n") }
        }
    }

    /// 2^53 + 1 is the first integer that a double cannot hold.
    @Test(arguments: ["9007199254740993", "123456789012345678901234567890", "-7", "0"])
    func keepsANumberIDDigitForDigit(_ digits: String) throws {
        #expect(try scan(#"{"id":\#(digits)}"#).digits("id") == digits)
        #expect(try scan(#"{"id":"\#(digits)"}"#).digits("id") == digits)
    }

    @Test(arguments: ["1.0", "1e3"]) func takesNoFractionForAnID(_ number: String) throws {
        let object = try scan(#"{"id":\#(number)}"#)
        #expect(throws: JSONError(.notAnIdentifier, at: 6)) { try object.digits("id") }
    }

    /// Keys of every length around the eight bytes that are compared at once.
    @Test func findsEachOfManyKeys() throws {
        let keys = (0..<200).map { String(repeating: "k", count: $0 % 20) + "\($0)" }
        let object = try scan("{" + keys.map { #""\#($0)":"\#($0)!""# }.joined(separator: ",") + "}")
        for key in keys { #expect(try object.string(key) == key + "!") }
        #expect(try object.string("kkk") == nil)
    }

    /// Oracle: Foundation's decoder.
    @Test func decodesEscapesAsFoundationDoes() throws {
        var random = SeededGenerator(seed: 1)
        let pieces = [
            #"\""#, #"\\"#, #"\/"#, #"\b"#, #"\f"#, #"\n"#, #"\r"#, #"\t"#, #"\u00e9"#, #"\uFFFF"#, #"\u001f"#,
            #"\ud83d\uDE00"#, #"\uDBFF\uDFFF"#, "é", "😀", "a", "12345678", " ",
        ]
        for _ in 0..<2_000 {
            let inside = (0..<Int.random(in: 0...12, using: &random)).map { _ in pieces.randomElement(using: &random)! }
            let text = #"{"k":""# + inside.joined() + #""}"#
            let expected = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: String]
            let found = try #require(try scan(text).string("k"))
            #expect(Array(found.unicodeScalars) == expected.map { Array($0["k", default: ""].unicodeScalars) })
        }
    }
}
