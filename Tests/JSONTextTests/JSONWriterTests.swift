import Foundation
import Testing

@testable import JSONText

@Suite struct JSONWriterTests {
    @Test func putsCommasWhereTheyBelong() {
        var writer = JSONWriter()
        writer.object { data in
            data.member("s", "x")
            data.member("none", String?.none)
            data.member("i", Int64.min)
            data.member("b", true)
            data.key("o")
            data.object { _ in }
            data.key("a")
            data.array { list in
                list.integer(1)
                list.array { _ in }
                list.object { inner in
                    inner.key("n")
                    inner.null()
                }
                list.raw(Array("1.50".utf8))
                list.bool(false)
            }
            data.key("z")
            data.raw(Array(#"{"kept":  1e3}"#.utf8))
        }
        let expected =
            #"{"s":"x","none":null,"i":-9223372036854775808,"b":true,"o":{},"# + #""a":[1,[],{"n":null},1.50,false],"#
            + #""z":{"kept":  1e3}}"#
        #expect(String(decoding: writer.bytes, as: UTF8.self) == expected)
    }

    @Test func escapesWhatTheGrammarDemands() {
        let literal = JSONWriter.literal("a\"b\\c\nd\re\tf\u{0}g\u{b}h\u{1f}i\u{7f}/é😀")
        let expected = #""a\"b\\c\nd\re\tf\u0000g\u000bh\u001fi"# + "\u{7f}/é😀\""
        #expect(String(decoding: literal, as: UTF8.self) == expected)
    }

    /// Oracle: Foundation reads back what was written.
    @Test func foundationReadsBackAnyText() throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<2_000 {
            var text = ""
            for _ in 0..<Int.random(in: 0...20, using: &random) {
                let value = UInt32.random(in: 1...(Bool.random(using: &random) ? 0x7F : 0x10FFFF), using: &random)
                text.unicodeScalars.append(Unicode.Scalar(value) ?? "x")
            }
            var writer = JSONWriter()
            writer.object { $0.member("k", text) }
            let read = try JSONSerialization.jsonObject(with: Data(writer.bytes)) as? [String: String]
            #expect(read.map { Array($0["k", default: ""].unicodeScalars) } == Array(text.unicodeScalars))
            #expect(try JSONScan.topObject(writer.bytes, depthMax: 2).string("k") == text)
        }
    }
}
