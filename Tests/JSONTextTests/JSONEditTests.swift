import Testing

@testable import JSONText

@Suite struct JSONEditTests {
    typealias Changes = [(key: String, change: JSONEdit.Change)]

    static func edited(_ text: String, _ changes: Changes) throws -> String {
        String(decoding: JSONEdit.apply(changes, to: try scan(text)), as: UTF8.self)
    }

    static func set(_ raw: String) -> JSONEdit.Change { .set(Array(raw.utf8)) }

    @Test func replacesInPlaceAndKeepsEveryOtherByte() throws {
        let text = " {\"a\" : 1.50 ,\n\t\"b\":\"\\u0062\",  \"c\":[ 1 ]}\n"
        #expect(try Self.edited(text, []) == text)
        #expect(
            try Self.edited(text, [("b", Self.set("true"))])
                == " {\"a\" : 1.50 ,\n\t\"b\":true,  \"c\":[ 1 ]}\n")
        #expect(
            try Self.edited(text, [("c", .string("é\""))])
                == " {\"a\" : 1.50 ,\n\t\"b\":\"\\u0062\",  \"c\":\"é\\\"\"}\n")
    }

    @Test func findsAKeyHoweverItIsEscaped() throws {
        #expect(try Self.edited(#"{"\u0061":1}"#, [("a", Self.set("2"))]) == #"{"\u0061":2}"#)
    }

    @Test func takesMembersOutWithOneCommaEach() throws {
        let text = #"{"a":1, "b":2,  "c":3}"#
        #expect(try Self.edited(text, [("a", .remove)]) == #"{"b":2,  "c":3}"#)
        #expect(try Self.edited(text, [("b", .remove)]) == #"{"a":1,  "c":3}"#)
        #expect(try Self.edited(text, [("c", .remove)]) == #"{"a":1, "b":2}"#)
        #expect(try Self.edited(text, [("a", .remove), ("b", .remove), ("c", .remove)]) == "{}")
        #expect(try Self.edited(text, [("x", .remove)]) == text)
    }

    @Test func addsAtTheEndInTheTextsOwnStyle() throws {
        #expect(try Self.edited("{}", [("a", Self.set("1")), ("b", Self.set("2"))]) == #"{"a":1,"b":2}"#)
        #expect(try Self.edited("{ }", [("a", Self.set("1"))]) == #"{"a":1 }"#)
        #expect(try Self.edited(#"{"a":1}"#, [("b", Self.set("2"))]) == #"{"a":1,"b":2}"#)
        #expect(
            try Self.edited("{\n  \"a\": 1,\n  \"b\": 2\n}", [("c", Self.set("3")), ("a", .remove)])
                == "{\n  \"b\": 2,\n  \"c\": 3\n}")
    }

    @Test func theLastChangeOfAKeyHolds() throws {
        #expect(try Self.edited(#"{"a":1}"#, [("a", .remove), ("a", Self.set("2"))]) == #"{"a":2}"#)
        #expect(try Self.edited(#"{}"#, [("a", Self.set("1")), ("a", .remove)]) == "{}")
    }

    /// Oracle: a dictionary of raw values, changed the same way.
    @Test func doesToAnyObjectWhatADictionaryDoes() throws {
        var random = SeededGenerator(seed: 3)
        let keys = ["a", "b", "c", "d", "é\"", "long-enough-for-two-words"]
        let values = ["1", "null", #""x""#, "[ 1,2 ]", #"{"a" : 1}"#, "-0.50e1"]
        let blanks = ["", " ", "\n  ", "\t"]
        for _ in 0..<2_000 {
            var expected = [String: String]()
            var text = "{"
            for key in keys.shuffled(using: &random).prefix(Int.random(in: 0...6, using: &random)) {
                let value = values.randomElement(using: &random)!
                expected[key] = value
                if text.utf8.count > 1 { text += blanks.randomElement(using: &random)! + "," }
                text += blanks.randomElement(using: &random)! + String(decoding: JSONWriter.literal(key), as: UTF8.self)
                text += ":" + blanks.randomElement(using: &random)! + value
            }
            text += blanks.randomElement(using: &random)! + "}"
            var changes = Changes()
            for key in keys.shuffled(using: &random).prefix(Int.random(in: 0...4, using: &random)) {
                let value = Bool.random(using: &random) ? values.randomElement(using: &random) : nil
                expected[key] = value
                changes.append((key, value.map { Self.set($0) } ?? .remove))
            }
            let result = try scan(try Self.edited(text, changes))
            var found = [String: String]()
            for key in result.keys { found[key] = result.raw(key).map { String(decoding: $0, as: UTF8.self) } }
            #expect(found == expected)
        }
    }
}
