import Foundation

/// The sources of this package, as text.
enum SourceTree {
    struct File: Sendable {
        /// From the package's root: `Sources/Ledger/Queue/Claim.swift`.
        let path: String
        let text: String
        let lines: [String]
        /// The lines without what follows `//` outside a literal. Texts over several lines count as code.
        let code: [String]

        init(path: String, text: String) {
            self.path = path
            self.text = text
            lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
            code = lines.map(SourceTree.withoutComment)
        }

        /// The target: the second part of the path.
        var target: String { path.split(separator: "/").dropFirst().first.map(String.init) ?? "" }
    }

    static let root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    static let sources = files(in: "Sources")
    static let tests = files(in: "Tests")

    /// What it imports is for debug builds only.
    static let failpoints = "Sources/Vocabulary/Failpoint.swift"

    private static func files(in folder: String) -> [File] {
        let base = root.appendingPathComponent(folder)
        guard let found = FileManager.default.enumerator(atPath: base.path)?.allObjects as? [String] else { return [] }
        return found.filter { $0.hasSuffix(".swift") }.sorted().compactMap { name in
            guard let text = try? String(contentsOf: base.appendingPathComponent(name), encoding: .utf8) else {
                return nil
            }
            return File(path: "\(folder)/\(name)", text: text)
        }
    }

    static func withoutComment(_ line: String) -> String {
        guard line.contains("//") else { return line }
        var isInLiteral = false
        var previous = UInt8(ascii: " ")
        for index in line.utf8.indices {
            let byte = line.utf8[index]
            if byte == UInt8(ascii: "\""), previous != UInt8(ascii: "\\") { isInLiteral.toggle() }
            if !isInLiteral, byte == UInt8(ascii: "/"), previous == byte {
                return String(line[..<line.utf8.index(before: index)])
            }
            previous = byte
        }
        return line
    }
}
