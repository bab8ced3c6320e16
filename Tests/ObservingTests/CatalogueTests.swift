import Foundation
import Testing
import Vocabulary

@testable import Observing

@Suite struct CatalogueTests {
    @Test func everyKindHasAnIDOfItsOwn() {
        let ids = Happening.allCases.map(\.messageID)
        #expect(Set(ids).count == ids.count)
        for id in ids {
            #expect(id.count == 32 && Identifier(hex: id)?.hex == id)
        }
    }

    @Test func everyObservationIsOfAnotherKind() {
        let kinds = everyObservation.map { Happening($0) }
        #expect(kinds.count == Set(kinds).count)
        #expect(Set(kinds) == Set(Happening.allCases))
    }

    /// The catalogue explains exactly the ids of the table, each with a subject and something to do.
    @Test func theCatalogueExplainsEveryKind() throws {
        let file = URL(filePath: #filePath).appending(path: "../../../deploy/posthouse.catalog").standardized
        let text = try String(contentsOf: file, encoding: .utf8)
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
        #expect(Set(entries.keys) == Set(Happening.allCases.map(\.messageID)))
        for (id, lines) in entries {
            #expect(lines.contains { $0.hasPrefix("Subject: ") }, "\(id) has no subject")
            #expect(lines.contains { $0.hasPrefix("What to do: ") }, "\(id) does not say what to do")
            #expect(lines.allSatisfy { $0.count <= 80 }, "\(id) is wider than a terminal")
        }
    }

    /// `@FIELD@` is replaced by the entry's field, and systemd leaves the bare name of one that is missing: each must
    /// be one that every entry of this kind has.
    @Test func theCatalogueOnlyUsesFieldsThatTheEntryHas() throws {
        let file = URL(filePath: #filePath).appending(path: "../../../deploy/posthouse.catalog").standardized
        let text = try String(contentsOf: file, encoding: .utf8)
        let fields = Dictionary(
            (everyObservation + bareObservations).map {
                (Happening($0).messageID, Set(JournalEntry($0).fields.map { "POSTHOUSE_" + $0.name }))
            }, uniquingKeysWith: { $0.intersection($1) })
        for entry in text.components(separatedBy: "\n-- ").dropFirst() {
            let id = String(entry.prefix(32))
            for match in entry.matches(of: /@([A-Z0-9_]+)@/) {
                #expect(fields[id]?.contains(String(match.1)) == true, "\(id): \(match.1)")
            }
        }
    }
}
