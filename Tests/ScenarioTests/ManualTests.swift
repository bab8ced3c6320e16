import Foundation
import Testing
import Vocabulary

/// The examples of README and the manual. Oracle: the program itself.
@Suite struct ManualTests {
    private struct Example: Sendable, CustomStringConvertible {
        let page: String
        /// Without the program's name.
        let words: [String]
        /// What the page shows below a line that begins with `$`.
        let shown: [String]

        var description: String { "\(page): posthouse \(words.joined(separator: " "))" }
        /// The titles, where a table is shown.
        var titles: [String]? {
            guard let first = shown.first, first.wholeMatch(of: /[A-Z]+(?: +[A-Z]+)+/) != nil else { return nil }
            return ManualTests.cells(first)
        }
    }

    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func examples() throws -> [Example] {
        let folder = root.appending(path: "deploy/manual")
        let pages = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "md" }
        return try (pages + [root.appending(path: "README.md")]).flatMap { page in
            read(try String(contentsOf: page, encoding: .utf8), page.lastPathComponent)
        }
    }

    /// Every line of a code block that runs the program, without its comment.
    private static func read(_ text: String, _ page: String) -> [Example] {
        var examples: [Example] = []
        var command: [String]?
        var shown: [String] = []
        func end() {
            if let words = command { examples.append(Example(page: page, words: words, shown: shown)) }
            (command, shown) = (nil, [])
        }
        var isCode = false
        let lines = text.replacing(#/ \\\n +/#, with: " ").split(separator: "\n", omittingEmptySubsequences: false)
        for line in lines.map(String.init) {
            if line.hasPrefix("```") {
                end()
                isCode.toggle()
            } else if isCode, let match = line.prefixMatch(of: #/(?:\$ )?posthouse /#) {
                end()
                let rest = line[match.range.upperBound...]
                let comment = rest.firstRange(of: " #")?.lowerBound ?? rest.endIndex
                command = rest[..<comment].split(separator: " ").map(String.init)
            } else if command != nil, !line.isEmpty {
                shown.append(line)
            }
        }
        return examples
    }

    private static func cells(_ line: String) -> [String] { line.split(separator: " ").map(String.init) }

    /// Every number as 0, so that times and counts are alike.
    private func shape(_ line: String) -> String { line.replacing(/[0-9]+/, with: "0") }

    @Test("Every command line of README and the manual is one")
    func lines() throws {
        let examples = try Self.examples()
        #expect(examples.count > 30 && Set(examples.map(\.page)).count > 1)
        for example in examples {
            // It fails behind the parser: by a configuration, or a secret, that is not there.
            let (option, code): ([String], Int32) =
                switch example.words.prefix(2) {
                case ["secret", "add"]: (["--directory", "/dev/null/nowhere"], 1)
                case let words where ["send", "listen"].contains(words[0]): ([], 1)
                case ["doctor"]: (["--config", "/nowhere/posthouse.toml"], 1)
                default: (["--config", "/nowhere/posthouse.toml"], 78)
                }
            #expect(try Relay.run(example.words + option).end == .exited(code), "\(example)")
        }
    }

    @Test("The tables have the titles that the manual shows, and plain answers read as it says")
    func answers() throws {
        let (backend, analytics) = (try Receiver(), try Receiver())
        let relay = try Relay.running([.init("backend", backend), .init("analytics", analytics)])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_1")) == 200)
        #expect(try relay.source().post(Array(#"{"hello": "world"}"#.utf8)) == 200)
        #expect(backend.waitForAccepted(1) && analytics.waitForAccepted(1))
        #expect(try relay.database.drained())
        let examples = try Self.examples()
        let config = ["--config", relay.configuration]

        // A terminal of the manual's width has no room for all columns.
        let tables = examples.filter { $0.titles != nil && $0.words != ["status"] }
        #expect(Set(tables.map(\.words[0])) == ["deliveries", "events", "quarantine"])
        for example in tables {
            let titles = Self.cells(try Relay.run(example.words + config).child.output.first ?? "")
            let shown = example.titles ?? []
            let common = titles.filter { shown.contains($0) }
            #expect(common == shown, "\(example): \(shown), not \(titles)")
        }

        let plain = [
            ["check"], ["pause", "backend"], ["resume", "backend"], ["quarantine", "show", "1"],
            ["quarantine", "retry", "1"], ["quarantine", "discard", "1"],
        ]
        for words in plain {
            let example = try #require(examples.first { $0.words == words && !$0.shown.isEmpty }, "\(words)")
            let child = try Relay.run(words + config).child
            let said = (child.errors + child.output).map {
                shape($0.replacingOccurrences(of: relay.configuration, with: "/etc/posthouse/posthouse.toml"))
            }
            for line in example.shown { #expect(said.contains(shape(line)), "\(example): \(line), not \(said)") }
        }
    }
}
