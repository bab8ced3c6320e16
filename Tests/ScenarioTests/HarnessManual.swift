import Foundation
import Testing

/// A page of the manual, to compare its examples with what the program says.
struct ManualPage: Sendable {
    /// A command that is broken with a backslash is one line.
    let lines: [String]

    /// - Parameter name: with the section: `posthouse-operate.7`.
    init(_ name: String) throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "deploy/manual/\(name).md")
        let text = try String(contentsOf: file, encoding: .utf8).replacing(#/ \\\n +/#, with: " ")
        lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    static var operate: ManualPage { get throws { try ManualPage("posthouse-operate.7") } }

    /// The lines that the manual shows below a command, of the `number`th time that it stands there.
    func shown(_ command: String, _ number: Int = 0) throws -> [String] {
        let starts = lines.indices.filter { lines[$0] == "$ " + command }
        let start = try #require(starts.indices.contains(number) ? starts[number] : nil, "\(command)")
        return lines[(start + 1)...].prefix { !$0.hasPrefix("$ ") && $0 != "```" && !$0.isEmpty }.map { $0 }
    }

    /// The lines of a code block, from the first that begins so.
    func block(_ beginning: String) throws -> [String] {
        let start = try #require(lines.firstIndex { $0.hasPrefix(beginning) }, "\(beginning)")
        return lines[start...].prefix { $0 != "```" }.map { $0 }
    }

    /// Without what differs from day to day: numbers, ids, addresses, the width of columns.
    static func shape(_ line: String) -> String {
        let named = line.replacing(#/http://[^ ,)]+/#, with: "URL")
            .replacing(#/(?:msg|evt|trf)_[0-9a-f]+/#, with: "ID")
            .replacing(#/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/#, with: "ID")
        return named.replacing(#/[0-9]+[smhd]?/#, with: "0").replacing(#/0 messages?\b/#, with: "0 messages")
            .replacing(#/0 deliver(?:y|ies)\b/#, with: "0 deliveries").split(separator: " ").joined(separator: " ")
    }

    /// What a command says on both streams.
    static func answer(of relay: Relay, _ words: [String]) throws -> String {
        let (child, end) = try Relay.run(words + ["--config", relay.configuration])
        #expect(end != nil, "\(words)")
        return (child.output + child.errors).joined(separator: "\n")
    }

    /// Runs a command and expects each line that the page shows below it.
    /// - Parameter command: as the page has it; nil: as it is run.
    func expect(
        _ relay: Relay, _ words: [String], as command: String? = nil, _ number: Int = 0,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let said = try Self.answer(of: relay, words).split(separator: "\n").map { Self.shape(String($0)) }
        let expected = try shown("posthouse " + (command ?? words.joined(separator: " ")), number)
        #expect(!expected.isEmpty, "\(words)", sourceLocation: sourceLocation)
        for line in expected.map(Self.shape) {
            #expect(said.contains(line), "\(words): \(line), not \(said)", sourceLocation: sourceLocation)
        }
    }
}
