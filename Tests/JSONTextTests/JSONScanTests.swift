import Testing

@testable import JSONText

func scan(_ text: String, depthMax: Int = 16) throws(JSONError) -> JSONObject {
    try JSONScan.topObject(Array(text.utf8), depthMax: depthMax)
}

/// What the scan takes and what it refuses. Oracle: RFC 8259's grammar, and the stricter rules in JSONScan's comment.
@Suite struct JSONScanTests {
    @Test(arguments: [
        #"{}"#, " \t\r\n{ } \n", #"{"a":1}"#, #"{"a":-0,"b":0.5,"c":1e9,"d":1E+2,"e":-12.34e-05}"#,
        #"{"a":[],"b":[[],{}],"c":{"d":{}},"e":[1 , "x" ,null,true,false]}"#, #"{"":""}"#,
        #"{"a":"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"}"#, #"{"a":"é😀","é":"\u007f"}"#,
        #"{"a":{"a":{"a":1}},"b":{"a":2}}"#,
        "{\"a\":\"\u{7f}\u{2028}\u{FEFF}\"}", #"{"a":12345678901234567890123456789012345678901234567890}"#,
    ])
    func takes(_ text: String) throws {
        _ = try scan(text)
    }

    @Test(arguments: [
        ("", JSONError(.notAnObject, at: 0)),
        ("   ", JSONError(.notAnObject, at: 3)),
        ("[]", JSONError(.notAnObject, at: 0)),
        ("null", JSONError(.notAnObject, at: 0)),
        ("\u{FEFF}{}", JSONError(.notAnObject, at: 0)),
        ("{", JSONError(.unexpectedEnd, at: 1)),
        (#"{"a"#, JSONError(.unexpectedEnd, at: 3)),
        (#"{"a""#, JSONError(.unexpectedEnd, at: 4)),
        (#"{"a":"#, JSONError(.unexpectedEnd, at: 5)),
        (#"{"a":1"#, JSONError(.unexpectedEnd, at: 6)),
        (#"{"a":1,"#, JSONError(.unexpectedEnd, at: 7)),
        (#"{"a":-"#, JSONError(.unexpectedEnd, at: 6)),
        (#"{"a":tru"#, JSONError(.unexpectedEnd, at: 8)),
        (#"{"a":"\u12"#, JSONError(.malformedEscape, at: 6)),
        (#"{"a":"\"#, JSONError(.unexpectedEnd, at: 7)),
        (#"{"a":1,}"#, JSONError(.unexpectedByte, at: 7)),
        (#"{,"a":1}"#, JSONError(.unexpectedByte, at: 1)),
        (#"{"a" 1}"#, JSONError(.unexpectedByte, at: 5)),
        (#"{"a":1 "b":2}"#, JSONError(.unexpectedByte, at: 7)),
        (#"{a:1}"#, JSONError(.unexpectedByte, at: 1)),
        (#"{'a':1}"#, JSONError(.unexpectedByte, at: 1)),
        (#"{"a":[1,]}"#, JSONError(.unexpectedByte, at: 8)),
        (#"{"a":[1}"#, JSONError(.unexpectedByte, at: 7)),
        (#"{"a":{]}"#, JSONError(.unexpectedByte, at: 6)),
        (#"{"a":1]"#, JSONError(.unexpectedByte, at: 6)),
        (#"{"a":nul0}"#, JSONError(.unexpectedByte, at: 5)),
        (#"{"a":NaN}"#, JSONError(.unexpectedByte, at: 5)),
        (#"{"a":+1}"#, JSONError(.unexpectedByte, at: 5)),
        (#"{"a":.5}"#, JSONError(.unexpectedByte, at: 5)),
        (#"{"a":01}"#, JSONError(.malformedNumber, at: 5)),
        (#"{"a":-}"#, JSONError(.malformedNumber, at: 6)),
        (#"{"a":1.}"#, JSONError(.malformedNumber, at: 7)),
        (#"{"a":1e}"#, JSONError(.malformedNumber, at: 7)),
        (#"{"a":1e+}"#, JSONError(.malformedNumber, at: 8)),
        (#"{"a":0x1}"#, JSONError(.unexpectedByte, at: 6)),
        (#"{"a":"\x"}"#, JSONError(.malformedEscape, at: 6)),
        (#"{"a":"\u12g4"}"#, JSONError(.malformedEscape, at: 6)),
        ("{\"a\":\"\n\"}", JSONError(.controlCharacter, at: 6)),
        ("{\"a\":\"12345678\u{1f}\"}", JSONError(.controlCharacter, at: 14)),
        ("{}x", JSONError(.bytesAfterTheObject, at: 2)),
        ("{} {}", JSONError(.bytesAfterTheObject, at: 3)),
        ("/**/{}", JSONError(.notAnObject, at: 0)),
    ])
    func refuses(_ text: String, _ error: JSONError) {
        #expect(throws: error) { _ = try scan(text) }
    }

    @Test(arguments: [
        ("\0{}", 0), ("{\0}", 1), ("{}\0", 2), ("{\"a\0\":1}", 3), ("{\"a\":\0}", 5), ("{\"a\":\"\0\"}", 6),
        (#"{"a":"\u0000"}"#, 6), (#"{"\u0000":1}"#, 2), (#"{"a":[["x\u0000"]]}"#, 9),
    ])
    func refusesNULAnywhere(_ text: String, _ offset: Int) {
        #expect(throws: JSONError(.nul, at: offset)) { _ = try scan(text) }
    }

    @Test(arguments: [
        #"{"a":"\ud800"}"#, #"{"a":"\udc00"}"#, #"{"a":"\ud800\ud800"}"#, #"{"a":"\ud800x"}"#, #"{"a":"\udc00\ud800"}"#,
        #"{"a":"\ud800\n"}"#, #"{"a":"\uDBFF\uE000"}"#,
    ])
    func refusesLoneSurrogates(_ text: String) {
        #expect(throws: JSONError(.loneSurrogate, at: 6)) { _ = try scan(text) }
    }

    @Test(
        arguments: [
            [0x80], [0xC0, 0xAF], [0xC3], [0xE2, 0x82], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xFF],
        ] as [[UInt8]])
    func refusesWhatIsNotUTF8(_ bad: [UInt8]) {
        let bytes = Array(#"{"a":"xé"#.utf8) + bad + Array(#""}"#.utf8)
        #expect(throws: JSONError(.notUTF8, at: 9)) { _ = try JSONScan.topObject(bytes, depthMax: 4) }
    }

    @Test(arguments: [
        (#"{"a":1,"a":1}"#, 8), (#"{"a":1,"b":2,"a":3}"#, 14), (#"{"a":1,"\u0061":2}"#, 8),
        (#"{"\u0061":1,"a":2}"#, 13),
        (#"{"a":{"b":1,"b":2}}"#, 13), (#"{"a":[{"b":1},{"c":1,"c":2}]}"#, 22), (#"{"":1,"":2}"#, 7),
        (#"{"é":1,"\u00e9":2}"#, 9), (#"{"a":{"x":{}},"a":1}"#, 15),
    ])
    func refusesAKeyTwice(_ text: String, _ offset: Int) {
        #expect(throws: JSONError(.duplicateKey, at: offset)) { _ = try scan(text) }
    }

    @Test func findsTheOneDuplicateAmongManyKeys() throws {
        var members = (0..<20_000).map { "\"key-number-\($0)\":\($0)" }
        let object = try scan("{" + members.joined(separator: ",") + "}")
        #expect(object.count == 20_000)
        #expect(try object.integer("key-number-19999") == 19_999)
        #expect(object.keys.prefix(3) == ["key-number-0", "key-number-1", "key-number-2"])

        members.insert(#""key\u002dnumber-7":0"#, at: 15_000)
        let text = "{" + members.joined(separator: ",") + "}"
        let offset = try #require(text.utf8.firstRange(of: Array(#"key\u002d"#.utf8))).lowerBound
        let expected = JSONError(.duplicateKey, at: text.utf8.distance(from: text.utf8.startIndex, to: offset))
        #expect(throws: expected) { _ = try scan(text) }
    }

    /// A stack frame for each bracket would overflow here.
    @Test(arguments: ["[", #"{"a":"#])
    func endsCleanlyHoweverDeep(_ opener: String) throws {
        let bytes = Array((#"{"a":"# + String(repeating: opener, count: 100_000)).utf8)
        let tooDeep = JSONError(.tooDeep, at: 5 + 15 * opener.utf8.count)
        #expect(throws: tooDeep) { _ = try JSONScan.topObject(bytes, depthMax: 16) }
        #expect(throws: JSONError(.unexpectedEnd, at: bytes.count)) {
            _ = try JSONScan.topObject(bytes, depthMax: .max)
        }
    }

    @Test func countsTheOutermostObjectInTheDepth() throws {
        _ = try scan(#"{"a":[{}]}"#, depthMax: 3)
        #expect(throws: JSONError(.tooDeep, at: 6)) { _ = try scan(#"{"a":[{}]}"#, depthMax: 2) }
        #expect(throws: JSONError(.tooDeep, at: 0)) { _ = try scan("{}", depthMax: 0) }
    }

    @Test func anErrorNamesThePlaceAndNothingOfTheText() {
        #expect(JSONError(.duplicateKey, at: 12).description == "duplicate key at byte 12")
    }
}
