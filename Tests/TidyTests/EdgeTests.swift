import Testing

/// The edges between the targets, held over the imports themselves: a dependency that Package.swift allows is still no
/// leave to use it everywhere.
@Suite("The edges between the targets")
struct EdgeTests {
    private struct Import: Sendable, Hashable {
        let target: String
        let module: String
        let path: String
    }

    /// A release imports nothing in the file of the failpoints (SourceRulesTests), so what that imports is no edge.
    private static let released = SourceTree.sources.filter { $0.path != SourceTree.failpoints }

    private static let imports: [Import] = released.flatMap { file in
        // Words first: a regular expression on every line takes seconds.
        file.code.filter { $0.contains("import ") }.compactMap { line in
            line.firstMatch(
                of: /^\s*(?:@\w+\s+)*(?:(?:package|public|internal|private|fileprivate)\s+)?import\s+(?:\w+\s+)?(\w+)/
            )
            .map { Import(target: file.target, module: String($0.1), path: file.path) }
        }
    }

    /// What each target of ours may import of the others. A target that is not in here fails.
    private static let allowed: [String: Set<String>] = [
        "Vocabulary": [], "JSONText": [], "CToml": [], "CLibpq": [], "CLinux": [], "CSystemd": [],
        "Linux": ["CLinux"],
        "Postgres": ["CLibpq", "Linux"],
        "Systemd": ["CSystemd", "Linux"],
        "HTTPServer": ["Linux", "Vocabulary"],
        "HTTPClient": ["Linux", "Vocabulary"],
        "Cluster": ["Linux", "Vocabulary"],
        "Configuration": ["CToml", "Vocabulary"],
        "Ledger": ["JSONText", "Postgres", "Vocabulary"],
        "Spool": ["Linux", "Vocabulary"],
        "Inbound": ["HTTPServer", "JSONText", "Ledger", "Spool", "Vocabulary"],
        "Outbound": ["HTTPClient", "Ledger", "Vocabulary"],
        "API": ["HTTPServer", "JSONText", "Ledger", "Vocabulary"],
        "Doctor": ["Configuration", "Ledger", "Linux", "Vocabulary"],
        "Observing": ["Linux", "Systemd", "Vocabulary"],
        "posthouse": [
            "API", "Cluster", "Configuration", "Doctor", "HTTPClient", "HTTPServer", "Inbound", "JSONText", "Ledger",
            "Linux", "Observing", "Outbound", "Postgres", "Spool", "Systemd", "Vocabulary",
        ],
    ]

    /// What comes from outside, and who may use it.
    private static let outside: [String: Set<String>] = [
        "ArgumentParser": ["posthouse"],
        "Crypto": ["API", "Configuration", "Inbound", "Ledger", "Outbound"],
        "CryptoExtras": ["Inbound"],
        "SwiftASN1": ["Inbound"],
        "X509": ["Inbound"],
        "NIOCore": ["HTTPClient", "HTTPServer", "Outbound", "posthouse"],
        "NIOPosix": ["HTTPClient", "HTTPServer", "posthouse"],
        "NIOHTTP1": ["HTTPClient", "HTTPServer"],
        "NIOSSL": ["HTTPClient", "HTTPServer"],
        "NIOTLS": ["HTTPClient"],
        "Subprocess": ["Cluster", "Systemd"],
        "SystemPackage": ["Cluster", "Systemd"],
    ]

    /// Part of the language and the system.
    private static let system: [String: Set<String>] = [
        "Glibc": [
            "Cluster", "Configuration", "HTTPClient", "HTTPServer", "Linux", "Observing", "Outbound", "Postgres",
            "Systemd", "posthouse",
        ],
        // Times and bytes of certificates and RSA keys.
        "FoundationEssentials": ["Inbound"],
        "Synchronization": [
            "API", "HTTPClient", "HTTPServer", "Inbound", "Ledger", "Linux", "Observing", "Outbound", "Postgres",
            "Spool",
            "Systemd", "Vocabulary", "posthouse",
        ],
    ]

    @Test("The sources were found")
    func found() {
        #expect(SourceTree.sources.count > 100 && Self.imports.count > 200)
        #expect(Set(SourceTree.sources.map(\.target)).isSubset(of: Set(Self.allowed.keys)))
        #expect(Set(SourceTree.sources.map(\.target)).isSuperset(of: ["Inbound", "Ledger", "Outbound", "posthouse"]))
    }

    @Test("Every import is an allowed edge; full Foundation is none")
    func edges() {
        for edge in Self.imports {
            let isAllowed =
                if Self.allowed[edge.module] != nil {
                    Self.allowed[edge.target]?.contains(edge.module) ?? false
                } else {
                    (Self.outside[edge.module] ?? Self.system[edge.module])?.contains(edge.target) ?? false
                }
            #expect(isAllowed, "\(edge.path) imports \(edge.module)")
        }
    }

    @Test("Inbound and Outbound never meet but in the database, and Vocabulary imports nothing but locks")
    func walls() {
        let edges = Set(Self.imports.map { "\($0.target) \($0.module)" })
        #expect(!edges.contains("Inbound Outbound") && !edges.contains("Outbound Inbound"))
        #expect(edges.filter { $0.hasPrefix("Vocabulary ") } == ["Vocabulary Synchronization"])
        #expect(edges.contains("Inbound Ledger") && edges.contains("Outbound Ledger"))
    }

    @Test("Only HTTPServer has the server side of HTTP, only HTTPClient the client side, and only Ledger SQL")
    func sides() {
        for file in SourceTree.sources {
            var foreign = file.target == "HTTPClient" ? ["Delivery", "Integration"] : ["ClientBootstrap"]
            if file.target != "HTTPServer" { foreign += ["configureHTTPServerPipeline", "ServerBootstrap"] }
            // The roles of a private cluster are made before there is anything to connect to.
            let mayHaveSQL =
                ["Ledger", "Postgres"].contains(file.target) || file.path == "Sources/Cluster/Roles.swift"
            let code = file.code.joined(separator: "\n")
            for word in foreign where code.contains(word) { Issue.record("\(file.path) says \(word)") }
            // Words first: a regular expression on every line takes seconds.
            guard !mayHaveSQL, ["SELECT", "INSERT", "UPDATE", "DELETE"].contains(where: code.contains) else { continue }
            let sql = code.firstMatch(of: /\b(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM)\s/)
            #expect(sql == nil, "\(file.path): \(sql?.0 ?? "")")
        }
    }
}
