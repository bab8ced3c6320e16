internal import Vocabulary

/// Goes through a document once, from top to bottom, and collects all that is wrong. The parts are extensions, one
/// file for each group of tables.
struct Check {
    var report: Report
    let secrets: SecretResolver
    let libraries: LibraryChecks
    let isRoot: Bool
    /// Names of integrations of which a secret could not be read.
    var incompleteIntegrations: Set<String> = []
    var outside = OutsideReferences()

    /// Nil where there is an error; what is wrong is in `report` either way.
    mutating func configuration(from root: TomlNode) -> Configuration? {
        SecretLines.withhold(in: root, from: &report.source)
        let tables = topLevel(root.entries ?? [])
        let server = server(tables.single[Schema.server.name])
        let database = database(tables.single[Schema.database.name])
        let embedded = embedded(tables.single[Schema.embedded.name])
        let spool = spool(tables.single[Schema.spool.name])
        let sources = sources(tables.repeated[Schema.source.name] ?? [])
        let integrations = integrations(
            tables.repeated[Schema.integration.name] ?? [], sourceNames: sources.names)
        let groups = subscriptionGroups(tables.repeated[Schema.subscriptionGroup.name] ?? [])
        let tokens = apiTokens(tables.repeated[Schema.apiToken.name] ?? [], sourceNames: sources.names)
        let journal = journal(tables.single[Schema.journal.name])
        let retention = retention(tables.single[Schema.retention.name])
        guard !report.hasErrors else { return nil }
        return Configuration(
            server: server, database: database, embedded: embedded, spool: spool, sources: sources.sources,
            integrations: integrations, incompleteIntegrations: incompleteIntegrations, subscriptionGroups: groups,
            apiTokens: tokens, journal: journal, retention: retention)
    }

    private struct Tables {
        var single: [String: TableView] = [:]
        var repeated: [String: [TableView]] = [:]
    }

    private mutating func topLevel(_ entries: [TomlEntry]) -> Tables {
        var tables = Tables()
        for entry in entries {
            guard let table = Schema.table(entry.key) else {
                unknownAtTop(entry)
                continue
            }
            let views = members(of: entry, table).compactMap { view(of: $0, table) }
            if table.isRepeated { tables.repeated[table.name] = views } else { tables.single[table.name] = views.first }
        }
        return tables
    }

    /// The tables under a name, with the number of brackets checked.
    private mutating func members(of entry: TomlEntry, _ table: Schema.Table) -> [TomlNode] {
        switch entry.node.value {
        case .table where !table.isRepeated: return [entry.node]
        case .array(let members) where table.isRepeated && members.allSatisfy({ $0.entries != nil }): return members
        case .table:
            report.error("`\(entry.key)` may be given more than once: write `\(table.header)`", at: entry.node.span)
        case .array(let members) where members.allSatisfy({ $0.entries != nil }):
            report.error("`\(entry.key)` is given once: write `\(table.header)`", at: entry.node.span)
        default:
            report.error("`\(entry.key)` must be a table: write `\(table.header)`", at: entry.keySpan)
        }
        return []
    }

    private mutating func unknownAtTop(_ entry: TomlEntry) {
        let quoted = Quote.value(entry.key)
        switch entry.node.value {
        case .table, .array:
            let near = NearMiss.find(entry.key, among: Schema.tables.map(\.name)).flatMap(Schema.table)
            let hint = near.map { "; did you mean `\($0.header)`?" } ?? ""
            report.error("unknown table \(quoted)\(hint)", at: entry.keySpan)
        default:
            report.error("unknown key \(quoted)\(home(of: entry.key, besides: nil))", at: entry.keySpan)
        }
    }

    /// Names the tables that have `key`, for a key that is in another one.
    private func home(of key: String, besides table: Schema.Table?) -> String {
        let homes = Schema.tables.filter { $0.name != table?.name && $0.key(key) != nil }.map { "`\($0.header)`" }
        return homes.isEmpty ? "" : "; it belongs in \(homes.joined(separator: " or "))"
    }

    /// The keys of a table; unknown and missing ones are reported. Nil where the node is no table.
    mutating func view(of node: TomlNode, _ table: Schema.Table) -> TableView? {
        guard let entries = node.entries else { return nil }
        var known: [String: TomlEntry] = [:]
        for entry in entries {
            guard table.key(entry.key) != nil else {
                let near = NearMiss.suffix(entry.key, among: table.keys.map(\.name))
                let hint = near.isEmpty ? home(of: entry.key, besides: table) : near
                report.error("unknown key \(Quote.value(entry.key))\(hint)", at: entry.keySpan)
                continue
            }
            known[entry.key] = entry
        }
        for key in table.keys where key.requirement == .required && known[key.name] == nil {
            report.error("`\(table.header)` needs `\(key.name)`: \(key.expected)", at: node.span)
        }
        return TableView(table: table, span: node.span, entries: known)
    }
}

/// One table of the file with the keys that its schema knows.
struct TableView {
    let table: Schema.Table
    /// Its header.
    let span: Span
    fileprivate let entries: [String: TomlEntry]

    subscript(key: String) -> TomlEntry? { entries[key] }

    /// What the value of `key` must be.
    func expected(_ key: String) -> String { table.key(key)?.expected ?? "left out" }
}
