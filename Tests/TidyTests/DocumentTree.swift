import Foundation

/// The documents of this package, and every text that may cite one.
extension SourceTree {
    struct Document: Sendable {
        /// From the package's root.
        let path: String
        let text: String

        var name: String { path.split(separator: "/").last.map(String.init) ?? path }

        /// Without the lines of code blocks, where # begins a comment.
        var headings: Set<String> {
            var isCode = false
            var headings: Set<String> = []
            for line in text.split(separator: "\n") {
                if line.hasPrefix("```") { isCode.toggle() }
                if !isCode, let match = line.wholeMatch(of: /#+ (.+)/) { headings.insert(String(match.1)) }
            }
            return headings
        }

        /// What is written for people, each run of it on one line: of Swift the comments, of all else everything.
        var prose: String {
            var lines = text.split(separator: "\n").map { $0.drop { $0 == " " } }
            if path.hasSuffix(".swift") { lines = lines.filter { $0.hasPrefix("//") } }
            return lines.map { $0.drop { "/#- ".contains($0) } }.joined(separator: " ")
        }
    }

    static let texts: [Document] = ["Sources", "Tests", "deploy", "config"].flatMap(texts) + readme
    static let documents = texts.filter { $0.path.hasSuffix(".md") }

    static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appendingPathComponent(path).path)
    }

    private static let readme: [Document] =
        (try? String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8))
        .map { [Document(path: "README.md", text: $0)] } ?? []

    private static func texts(in folder: String) -> [Document] {
        let base = root.appendingPathComponent(folder)
        guard let found = FileManager.default.enumerator(atPath: base.path)?.allObjects as? [String] else { return [] }
        return found.sorted().compactMap { name in
            // Generated, pictures, or bytes to be fed to a parser.
            let isWritten = !["__pycache__", "Fuzz/corpus", ".svg", ".json"].contains(where: name.contains)
            guard isWritten else { return nil }
            return (try? String(contentsOf: base.appendingPathComponent(name), encoding: .utf8))
                .map { Document(path: "\(folder)/\(name)", text: $0) }
        }
    }
}
