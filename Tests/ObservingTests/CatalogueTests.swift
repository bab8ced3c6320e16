import Foundation
import Testing
import Vocabulary

@testable import Observing

@Suite struct CatalogueTests {
    @Test func everyKindHasAnIDOfItsOwn() {
        let ids = JournalEntryKind.allCases.map(\.messageID)
        #expect(Set(ids).count == ids.count)
        for id in ids {
            #expect(id.count == 32 && Identifier(hex: id)?.hex == id)
        }
    }

    @Test func everyObservationIsOfAnotherKind() {
        let kinds = everyObservation.map { JournalEntryKind($0) }
        #expect(kinds.count == Set(kinds).count)
        #expect(Set(kinds) == Set(JournalEntryKind.allCases))
    }

    private static func catalogue() throws -> String {
        let file = URL(filePath: #filePath).appending(path: "../../../deploy/posthouse.catalog").standardized
        return try String(contentsOf: file, encoding: .utf8)
    }

    /// The explanations, each on one line that begins with its id.
    private static func explanations() throws -> [String] {
        try catalogue().components(separatedBy: "\n-- ").dropFirst().map {
            $0.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
    }

    /// The catalogue explains exactly the ids of the table, each with a subject and something to do.
    @Test func theCatalogueExplainsEveryKind() throws {
        let text = try Self.catalogue()
        var entries: [String: [String]] = [:]
        var current: String?
        for line in text.components(separatedBy: "\n") where !line.hasPrefix("#") {
            if line.hasPrefix("-- ") {
                let id = String(line.dropFirst(3))
                #expect(entries[id] == nil, "\(id) is explained twice")
                entries[id] = []
                current = id
            } else if let current {
                entries[current]?.append(line)
            }
        }
        #expect(Set(entries.keys) == Set(JournalEntryKind.allCases.map(\.messageID)))
        for (id, lines) in entries {
            #expect(lines.contains { $0.hasPrefix("Subject: ") }, "\(id) has no subject")
            #expect(lines.contains { $0.hasPrefix("What to do: ") }, "\(id) does not say what to do")
            #expect(lines.allSatisfy { $0.count <= 80 }, "\(id) is wider than a terminal")
        }
    }

    /// `@FIELD@` is replaced by the entry's field, and systemd leaves the bare name of one that is missing: each must
    /// be one that every entry of this kind has.
    @Test func theCatalogueOnlyUsesFieldsThatTheEntryHas() throws {
        let text = try Self.catalogue()
        let fields = Dictionary(
            (everyObservation + bareObservations).map {
                (JournalEntryKind($0).messageID, Set(JournalEntry($0).fields.map { "POSTHOUSE_" + $0.name }))
            }, uniquingKeysWith: { $0.intersection($1) })
        for entry in text.components(separatedBy: "\n-- ").dropFirst() {
            let id = String(entry.prefix(32))
            for match in entry.matches(of: /@([A-Z0-9_]+)@/) {
                #expect(fields[id]?.contains(String(match.1)) == true, "\(id): \(match.1)")
            }
        }
    }

    /// A webhook of a source that spools is acknowledged on this machine's disk.
    @Test func whereAnAcknowledgedWebhookIsIncludesTheSpool() throws {
        let entries = try Self.explanations().filter {
            $0.contains("acknowledged") && $0.contains("in the database")
        }
        #expect(!entries.isEmpty)
        for entry in entries { #expect(entry.contains("spool"), "\(entry)") }
    }

    /// Not every source sends again what was answered 503: Apphud never does.
    @Test func whoSendsAgainWhatWasAnswered503IsNamed() throws {
        let entries = try Self.explanations().filter {
            $0.contains("503") && $0.contains(/sends? (?:it |them )?again|comes? again|[Nn]othing is lost|sources keep/)
        }
        #expect(!entries.isEmpty)
        for entry in entries { #expect(entry.contains("Apphud") || entry.contains("Google"), "\(entry)") }
    }
}
