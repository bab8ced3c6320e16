import Foundation

/// The documents of this package, and every text that may cite one.
extension SourceTree {
    struct Document: Sendable {
        /// From the package's root.
        let path: String
        let name: String
        let text: String
        /// Of a document, without the lines of code blocks, where # begins a comment.
        let headings: Set<String>
        /// What is written for people, on one line: of Swift the comments, of all else everything.
        let prose: String

        init(path: String, text: String) {
            self.path = path
            self.text = text
            name = path.split(separator: "/").last.map(String.init) ?? path
            let lines = text.utf8.split(separator: UInt8(ascii: "\n"))
            var isCode = false
            var headings: Set<String> = []
            for line in lines where path.hasSuffix(".md") {
                if line.starts(with: "```".utf8) { isCode.toggle() }
                let words = line.drop { $0 == UInt8(ascii: "#") }
                if !isCode, words.count < line.count, words.first == UInt8(ascii: " ") {
                    headings.insert(String(Substring(words.dropFirst())))
                }
            }
            self.headings = headings
            let isSwift = path.hasSuffix(".swift")
            prose = lines.compactMap { line in
                let words = line.drop { $0 == UInt8(ascii: " ") }
                if isSwift, !words.starts(with: "//".utf8) { return nil }
                return String(Substring(words.drop { "/#- ".utf8.contains($0) }))
            }.joined(separator: " ")
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
