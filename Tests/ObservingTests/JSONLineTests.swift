import Foundation
import Testing
import Vocabulary

@testable import Observing

/// Entries as JSON lines. Oracle: Foundation's JSONSerialization, and the record that the journal would get.
@Suite struct JSONLineTests {
    private static let time = Timestamp(milliseconds: 1_636_307_015_225)

    private func members(_ entry: JournalEntry) throws -> [String: Any] {
        let line = entry.json(at: Self.time)
        #expect(line.hasSuffix("}\n") && line.dropLast().allSatisfy { !$0.isNewline })
        return try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }

    @Test func aLineIsOneObjectInTheOrderOfTheRecord() {
        #expect(
            JournalEntry(.refused(source: "a \"b\"\\", status: 401, reason: "wrong signature")).json(at: Self.time)
                == #"{"time":"2021-11-07T17:43:35.225Z","level":"warning","#
                + #""message":"refused a request to a \"b\"\\ with 401: wrong signature","priority":4,"#
                + #""message_id":"a417266a22c24c4da23dc3be421f276c","syslog_identifier":"posthouse","#
                + #""posthouse_source":"a \"b\"\\","posthouse_outcome":"refused","posthouse_http_status":401}"# + "\n")
    }

    @Test func everyKindHasTheFieldsOfItsRecordInLowerCase() throws {
        for observation in everyObservation + bareObservations {
            let entry = JournalEntry(observation)
            let members = try members(entry)
            let fields = entry.fields.map { "posthouse_" + $0.name.lowercased() }
            #expect(
                Set(members.keys)
                    == Set(["time", "level", "message", "priority", "message_id", "syslog_identifier"] + fields))
            #expect(members.count == fields.count + 6, "no name twice")
            for field in entry.fields {
                let value = members["posthouse_" + field.name.lowercased()]
                #expect((value as? String ?? (value as? Int).map { String($0) }) == field.value, "\(field.name)")
            }
        }
    }

    /// What is counted or measured can be compared; an id is never a number, or a reader would round a long one.
    @Test func countsAreNumbersAndIdsAreStrings() throws {
        let attempt = try members(JournalEntry(.attempt(.sample(transaction: "100000099999999"))))
        for name in ["attempt", "http_status", "latency_ms"] {
            #expect(attempt["posthouse_" + name] as? Int != nil, "\(name)")
        }
        for name in ["transaction", "delivery", "message"] {
            #expect(attempt["posthouse_" + name] as? String != nil, "\(name)")
        }
    }

    /// A body as a receiver gets it: the strings of its JSON may hold these as they are, and line ends may be between.
    @Test func aDocumentForATerminalIsHarmlessAndHasTheSameValues() throws {
        let text = "{\"a\\n\\u001b\":\r\n\t[\"b\u{7F}\u{9B}2J\u{202E}\u{2028}\u{E0001}é\", 1]}"
        let shown = PlainText.harmlessJSON(text)
        let raw = shown.unicodeScalars.filter {
            [.control, .format, .lineSeparator, .paragraphSeparator].contains($0.properties.generalCategory)
        }
        #expect(raw.isEmpty, "\(shown)")
        let found = try #require(try JSONSerialization.jsonObject(with: Data(shown.utf8)) as? NSDictionary)
        let same = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? NSDictionary)
        #expect(found == same)
        #expect(PlainText.harmlessJSON(#"{"a":"b"}"#) == #"{"a":"b"}"#)
    }

    /// Every control and format character of Unicode, and what JSON itself escapes.
    @Test func hostileTextIsHarmlessInTheLineAndExactInTheField() throws {
        var hostile = "\"\\/é€😀{}"
        for number in UInt32(0)...0x10_FFFF {
            guard let scalar = Unicode.Scalar(number) else { continue }
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: hostile.unicodeScalars.append(scalar)
            default: continue
            }
        }
        #expect(hostile.unicodeScalars.count > 200)
        let entry = JournalEntry(.attempt(.sample(transaction: hostile)))
        let found = try #require(try members(entry)["posthouse_transaction"] as? String)
        #expect(found.unicodeScalars.elementsEqual(hostile.unicodeScalars))
        let raw = entry.json(at: Self.time).dropLast().unicodeScalars.filter {
            [.control, .format, .lineSeparator, .paragraphSeparator].contains($0.properties.generalCategory)
        }
        #expect(raw.isEmpty)
    }

    /// A lone byte, half a character, a surrogate: a string of Swift's holds U+FFFD in their place.
    @Test func bytesThatAreNoUTF8AreReplaced() throws {
        let broken = String(decoding: [0x61, 0xFF, 0xE2, 0x82, 0xED, 0xA0, 0x80, 0x62] as [UInt8], as: UTF8.self)
        let members = try members(JournalEntry(.attempt(.sample(transaction: broken))))
        let found = try #require(members["posthouse_transaction"] as? String)
        #expect(found == broken && found.contains("\u{FFFD}") && found.hasPrefix("a") && found.hasSuffix("b"))
    }

    @Test func aLongValueStaysOneWholeLine() throws {
        let long = String(repeating: "0123456789\n\u{1B}\"é😀", count: 50_000)
        let members = try members(JournalEntry(.attempt(.sample(transaction: long))))
        #expect(members["posthouse_transaction"] as? String == long)
    }

    @Test func theJournalGetsFieldsATerminalLogfmtAndAPipeJSON() {
        for format in [nil, LogFormat.json, .logfmt] {
            for isTerminal in [false, true] {
                let choice = Observatory.Destination.choice(isJournal: true, isTerminal: isTerminal, format: format)
                #expect(choice == .journal)
            }
        }
        let lines: [(Bool, LogFormat?, Observatory.Destination)] = [
            (true, nil, .logfmt), (false, nil, .json), (true, .json, .json), (false, .json, .json),
            (true, .logfmt, .logfmt), (false, .logfmt, .logfmt),
        ]
        for (isTerminal, format, expected) in lines {
            let choice = Observatory.Destination.choice(isJournal: false, isTerminal: isTerminal, format: format)
            #expect(choice == expected, "\(isTerminal), \(String(describing: format))")
        }
    }
}
