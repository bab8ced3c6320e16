import Testing

@Suite("Source rules")
struct SourceRulesTests {
    private static let everything = SourceTree.sources + SourceTree.tests

    /// Most files have 60 to 250 lines; one state machine or one suite may have more, and is not cut to please a count.
    @Test("Files of 500 lines at most; lines of 120 characters, of 140 where a text cannot be broken")
    func size() {
        for file in Self.everything {
            #expect(file.lines.count <= 501, "\(file.path) has \(file.lines.count) lines")
            var isInText = false
            for (index, line) in file.lines.enumerated() {
                // Bytes first: counting characters is slow.
                if line.utf8.count > 120 {
                    let isText =
                        isInText || ["\"", "#\"", "+ \"", ": \""].contains(where: line.drop { $0 == " " }.hasPrefix)
                    let limit = isText ? 140 : 120
                    #expect(line.count <= limit, "\(file.path):\(index + 1) has \(line.count) characters")
                }
                if line.contains("\"\"\"") { isInText.toggle() }
            }
        }
    }

    /// A kind of source is files of its name in Inbound, an entry of the table of kinds, the settings that only it has,
    /// and nothing else: the rest of the tree never asks which vendor it has before it.
    @Test("No vendor's name in code outside its own place")
    func vendors() {
        let places = [
            "Sources/Inbound/Verify/", "Sources/Inbound/Normalise/", "Sources/Vocabulary/Source.swift",
            "Sources/Vocabulary/KindSettings.swift", "Sources/Configuration/Schema.swift",
            "Sources/Configuration/CheckKindSettings.swift",
        ]
        // Of the stores only the kinds: their names are words that purchases and receipts have, too.
        let vendors = [
            "purchasely", "qonversion", "apphud", "revenuecat", "adapty", ".apple", ".googleplay", ".stripe",
        ]
        for file in SourceTree.sources where !places.contains(where: file.path.hasPrefix) {
            for (index, line) in file.code.enumerated() where vendors.contains(where: line.lowercased().contains) {
                Issue.record("\(file.path):\(index + 1) names a vendor: \(line)")
            }
        }
    }

    @Test("Nothing decides by which source it has before it")
    func sourceComparisons() {
        let comparison = /\bsource(?:\.name|\.kind)?\s*[!=]=\s*["\.]/
        for file in SourceTree.sources {
            for (index, line) in file.code.enumerated()
            where line.contains("source") && line.firstMatch(of: comparison) != nil {
                Issue.record("\(file.path):\(index + 1): \(line)")
            }
        }
    }

    @Test("Whoever steps around the compiler says why, right above")
    func unchecked() {
        // Split, so that this file does not find itself.
        let escapes = ["@unchecked " + "Sendable", "nonisolated" + "(unsafe)"]
        for file in Self.everything {
            for (index, line) in file.code.enumerated() where escapes.contains(where: line.contains) {
                let above = index == 0 ? "" : file.lines[index - 1].drop { $0 == " " }
                #expect(above.hasPrefix("//"), "\(file.path):\(index + 1) has no reason on the line above")
            }
        }
    }

    @Test("Nothing that ends the process, nothing left for later")
    func leftovers() {
        let forbidden = /\btry!|\bfatalError\(|\bas! |\bprint\(/
        // Split, so that this file does not find itself.
        let later = ["TO" + "DO", "FIX" + "ME"]
        let words = ["try!", "fatalError(", "as!", "print("]
        for file in SourceTree.sources {
            for (index, line) in file.code.enumerated()
            where words.contains(where: line.contains) && line.firstMatch(of: forbidden) != nil {
                let isOutput = file.target == "posthouse" && line.contains("print(")
                #expect(isOutput, "\(file.path):\(index + 1): \(line)")
            }
        }
        for file in Self.everything {
            for (index, line) in file.lines.enumerated() where later.contains(where: line.contains) {
                Issue.record("\(file.path):\(index + 1): \(line)")
            }
        }
    }

    @Test("A limit that nobody holds is none")
    func limits() throws {
        let limits = try #require(SourceTree.sources.first { $0.path == "Sources/Vocabulary/Limits.swift" })
        let names = limits.text.matches(of: /static let (\w+)/).map { String($0.1) }
        #expect(names.count > 40)
        let uses = SourceTree.sources.flatMap(\.code).filter { $0.contains("Limits.") }
            .flatMap { $0.matches(of: /Limits\.(\w+)/) }
        let used = Set(uses.map { String($0.1) })
        for name in names { #expect(used.contains(name), "Limits.\(name) is used nowhere") }
    }

    @Test("A release differs from a debug build by its failpoints alone, and each step is reached at one place")
    func failpoints() throws {
        let file = try #require(SourceTree.sources.first { $0.path == SourceTree.failpoints })
        let steps = file.code.compactMap { $0.wholeMatch(of: #/    case (\w+)/#).map { ".\($0.1)" } }
        #expect(steps.count > 10)
        var calls: [String] = []
        var conditional: Set<String> = []
        for file in SourceTree.sources {
            var isDebug = false
            for (index, line) in file.code.enumerated() {
                let word = line.drop { $0 == " " }
                if word.hasPrefix("#if") || word.hasPrefix("#e") { isDebug = word == "#if DEBUG" }
                if isDebug { conditional.insert(file.path) }
                if line.contains("POSTHOUSE_FAILPOINT") {
                    #expect(isDebug && file.path == SourceTree.failpoints, "\(file.path):\(index + 1): \(line)")
                }
                calls += steps.filter { line.contains("Failpoint.reach(\($0))") }
            }
        }
        #expect(
            conditional == [
                SourceTree.failpoints, "Sources/posthouse/Commands/ServeCommand.swift",
                "Sources/posthouse/SignalledFailpoints.swift",
            ])
        #expect(calls.sorted() == steps.sorted(), "each step is reached at one place")
    }

    @Test("A comment is distinguished from code")
    func comments() {
        #expect(SourceTree.withoutComment("let a = 1 // b") == "let a = 1 ")
        #expect(SourceTree.withoutComment(#"let a = "http://b" // c"#) == #"let a = "http://b" "#)
        #expect(SourceTree.withoutComment("/// a") == "")
        #expect(SourceTree.withoutComment(#"let a = "\"//""#) == #"let a = "\"//""#)
    }
}
