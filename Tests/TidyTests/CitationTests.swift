import Foundation
import Testing

/// The repository stands alone: what a comment or a document cites is in it.
///
/// A citation is a document's file name (`Domain.md`) or the name of a page of the manual (`posthouse-messages(7)`). A
/// heading may follow: `(Domain.md, "Transfers")`.
@Suite("Citations")
struct CitationTests {
    private static let documents = SourceTree.documents
    private static let texts = SourceTree.texts

    @Test("The documents and the texts that cite them were found")
    func found() {
        let paths = Set(Self.documents.map(\.path))
        #expect(
            paths.isSuperset(of: [
                "README.md", "Sources/Vocabulary/Vocabulary.docc/Domain.md",
                "Sources/posthouse/posthouse.docc/Architecture.md", "deploy/manual/posthouse-operate.7.md",
            ]))
        #expect(Set(Self.documents.map(\.name)).count == Self.documents.count - 1, "two files are named README.md")
        #expect(Self.texts.count > 400 && Self.citations.count > 20)
    }

    @Test("A cited document is in the repository, and a cited heading is in the document")
    func citations() {
        for citation in Self.citations {
            let named = Self.documents.filter { $0.name == citation.document }
            #expect(!named.isEmpty, "\(citation.path) cites \(citation.document), which is not in the repository")
            guard let heading = citation.heading, !named.isEmpty else { continue }
            #expect(
                named.contains { $0.headings.contains(heading) },
                "\(citation.path) cites \(citation.document), \"\(heading)\": there is no such heading")
        }
    }

    @Test("No comment cites a design, a contract or a fact file: they are not in the repository")
    func absentDocuments() {
        // Split, so that this file does not find itself.
        let absent = [
            "the " + "design", "design " + "\"", "contract " + "\"", "contract, " + "\"", "fact " + "file",
            "facts" + "/",
        ]
        for text in Self.texts {
            let prose = text.prose.lowercased()
            for words in absent where prose.contains(words) {
                Issue.record("\(text.path) cites \(words): a comment names Domain.md, Architecture.md or the manual")
            }
        }
    }

    @Test("The links of a document lead to a file, and to a heading of it")
    func links() {
        let paths = Set(Self.documents.map(\.path))
        for document in Self.documents {
            let folder = document.path.split(separator: "/").dropLast().joined(separator: "/")
            for link in document.text.matches(of: /\]\(([^)\s]+)\)/).map({ String($0.1) }) where !link.hasPrefix("http")
            {
                let parts = link.split(separator: "#", omittingEmptySubsequences: false).map(String.init)
                let target = parts[0].isEmpty ? document.path : Self.resolve(parts[0], from: folder)
                #expect(SourceTree.exists(target), "\(document.path) links to \(link)")
                guard parts.count > 1, paths.contains(target) else { continue }
                let anchors = Self.documents.first { $0.path == target }?.headings.map(Self.anchor) ?? []
                #expect(anchors.contains(parts[1]), "\(document.path) links to \(link): no heading has this anchor")
            }
        }
    }

    @Test("A file that a document names is there")
    func files() {
        for document in Self.documents {
            for match in document.text.matches(of: /(?:Sources|Tests|deploy|config)\/[\w\/.+-]*\w/) {
                let path = String(match.0)
                #expect(SourceTree.exists(path), "\(document.path) names \(path)")
            }
        }
    }

    @Test("README has 250 lines at most, and no document a path of somebody's machine")
    func readme() throws {
        let readme = try #require(Self.documents.first { $0.path == "README.md" })
        #expect(readme.text.split(separator: "\n", omittingEmptySubsequences: false).count <= 251)
        for document in Self.documents {
            #expect(document.text.firstMatch(of: /\/(?:work|home|Users)\//) == nil, "\(document.path)")
        }
    }

    @Test("The manual has every kind of journal entry and every field")
    func journal() throws {
        let page = try #require(Self.documents.first { $0.name == "posthouse-journal.7.md" })
        let catalogue = try #require(Self.texts.first { $0.path == "deploy/posthouse.catalog" })
        let ids = catalogue.text.matches(of: /-- ([0-9a-f]{32})/).map { String($0.1) }
        #expect(ids.count > 30)
        for id in ids { #expect(page.text.contains("`\(id)`"), "no line for \(id) under \"Kinds of entries\"") }
        let fields = try #require(Self.texts.first { $0.path == "Sources/Observing/JournalEntry+Fields.swift" })
        let names = Set(fields.text.matches(of: /\.add\("([A-Z0-9_]+)"/).map { String($0.1) })
        #expect(names.count > 15)
        for name in names { #expect(page.text.contains("`POSTHOUSE_\(name)`"), "no line for \(name) under \"Fields\"") }
    }

    @Test("A section of the manual is cited by its heading: the next one may be another tomorrow")
    func sections() {
        let pages = Self.documents.filter { $0.path.hasPrefix("deploy/manual/") }
        #expect(pages.count == 5)
        for page in pages {
            let prose = page.prose.lowercased()
            for words in ["next section", "previous section", "following section", "section above", "section below"] {
                #expect(!prose.contains(words), "\(page.path) says \"\(words)\"")
            }
            // Behind another page's name it is a heading there: `citations`.
            for heading in page.prose.matches(of: /\("([A-Z][^"]+)"\)/).map({ String($0.1) }) {
                #expect(page.headings.contains(heading), "\(page.path) cites \"\(heading)\": there is no such heading")
            }
        }
    }

    @Test("The first section of posthouse-operate(7) names all others")
    func contents() throws {
        let page = try #require(Self.documents.first { $0.name == "posthouse-operate.7.md" })
        let sections = page.text.components(separatedBy: "\n## ").dropFirst()
        let first = try #require(sections.first)
        #expect(first.hasPrefix("Where to begin\n"))
        let named = Set(first.matches(of: /"([^"]+)"/).map { String($0.1) })
        let headings = Set(sections.compactMap { $0.split(separator: "\n").first.map(String.init) })
        #expect(named == headings.subtracting(["Where to begin", "Words", "See also"]))
    }

    @Test("All that name the Swift to build with name the same version")
    func swiftVersion() throws {
        let paths = ["README.md", "deploy/common.sh", "deploy/manual/posthouse-operate.7.md"]
        let versions = try paths.map { path in
            let text = try #require(Self.texts.first { $0.path == path })
            return text.text.matches(of: /Swift(?:\]\([^)]*\))? (\d+\.\d+)/).map { String($0.1) }
        }
        #expect(versions.allSatisfy { !$0.isEmpty } && Set(versions.joined()).count == 1, "\(versions)")
    }

    @Test("A daemon that crashes leaves no core: its memory holds secrets and webhooks")
    func noCore() throws {
        let unit = try #require(Self.texts.first { $0.path == "deploy/posthouse.service" })
        #expect(unit.text.split(separator: "\n").contains("LimitCORE=0"))
    }

    // MARK: Reading

    private struct Citation {
        let path: String
        let document: String
        let heading: String?
    }

    /// In comments and in documents: what is in code is a name, not a citation.
    private static let citations: [Citation] = texts.flatMap { text in
        let files = /(\b[A-Za-z][\w\/.-]*\.md)\b(?:, "([^"]+)")?/
        let named = text.prose.matches(of: files).compactMap { match -> Citation? in
            let name = String(match.1.split(separator: "/").last ?? "")
            // A document of a vendor's, cited as such.
            guard name != "BackendEntitlementsSecurity.md" else { return nil }
            return Citation(path: text.path, document: name, heading: match.2.map(String.init))
        }
        let pages = text.prose.matches(of: /(posthouse-\w+)\(7\)(?:, "([^"]+)")?/).map { match in
            Citation(path: text.path, document: "\(match.1).7.md", heading: match.2.map(String.init))
        }
        return named + pages
    }

    private static func resolve(_ link: String, from folder: String) -> String {
        var parts = folder.split(separator: "/").map(String.init)
        for part in link.split(separator: "/") {
            if part == ".." { _ = parts.popLast() } else if part != "." { parts.append(String(part)) }
        }
        return parts.joined(separator: "/")
    }

    /// As forges make it: lower case, blanks as hyphens, without other marks.
    private static func anchor(_ heading: String) -> String {
        String(heading.lowercased().map { $0 == " " ? "-" : $0 }.filter { $0.isLetter || $0.isNumber || $0 == "-" })
    }
}
