/// Decides which lines a diagnostic may show: those on which every text is the value of a key that holds no secret.
/// An unknown key may be a mistyped `secret`, so its text is not shown either.
enum SecretLines {
    static func withhold(in root: TomlNode, from source: inout SourceText) {
        for entry in root.entries ?? [] {
            let keys = Schema.table(entry.key)?.keys ?? []
            switch entry.node.value {
            case .array(let members):
                for member in members { withhold(member, keys, &source) }
            default: withhold(entry.node, keys, &source)
            }
        }
    }

    private static func withhold(_ node: TomlNode, _ keys: [Schema.Key], _ source: inout SourceText) {
        guard let entries = node.entries else { return withholdTexts(node, numbersToo: false, &source) }
        for entry in entries {
            let key = keys.first { $0.name == entry.key }
            if let key, !key.mayHoldSecret {
                withholdStrays(entry.node, key, &source)
            } else {
                withholdTexts(entry.node, numbersToo: key != nil, &source)
            }
        }
    }

    /// Withholds lines of a key that holds no secret: tables that do not belong there, and a URL with a user name
    /// before its host, because it has a password there as well.
    private static func withholdStrays(_ node: TomlNode, _ key: Schema.Key, _ source: inout SourceText) {
        switch node.value {
        case .string(let text): if text.contains("@") { withholdLines(node, &source) }
        case .array(let members): for member in members { withholdStrays(member, key, &source) }
        case .table(let entries) where key.holdsNames: withholdNames(entries, key, &source)
        case .table: withhold(node, key.inner, &source)
        case .integer, .real, .boolean, .dateTime: break
        }
    }

    /// Withholds lines of a table whose keys the file chooses: the values of keys named like a secret, because in TOML
    /// a key that was meant for the table above falls into this one.
    private static func withholdNames(_ entries: [TomlEntry], _ key: Schema.Key, _ source: inout SourceText) {
        let words = Schema.tables.flatMap(\.keys).filter(\.mayHoldSecret).map(\.name)
        for entry in entries {
            let lowered = entry.key.lowercased()
            let isSuspect =
                ["secret", "token", "passw", "auth", "key"].contains(where: lowered.contains)
                || NearMiss.find(entry.key, among: words) != nil
            switch entry.node.value {
            case .string where !isSuspect, .array where !isSuspect: withholdStrays(entry.node, key, &source)
            default: withholdTexts(entry.node, numbersToo: isSuspect, &source)
            }
        }
    }

    /// Withholds texts. A reference to a secret is shown, because only the name is in the file. Numbers are withheld
    /// only where a secret is known to belong: a mistyped `concurrency` is shown.
    private static func withholdTexts(_ node: TomlNode, numbersToo: Bool, _ source: inout SourceText) {
        switch node.value {
        case .string: withholdLines(node, &source)
        case .array(let members): for member in members { withholdTexts(member, numbersToo: numbersToo, &source) }
        case .table(let entries):
            for entry in entries where entries.count > 1 || !Schema.secretForms.contains(entry.key) {
                withholdTexts(entry.node, numbersToo: numbersToo, &source)
            }
        case .integer, .real, .boolean, .dateTime: if numbersToo { withholdLines(node, &source) }
        }
    }

    private static func withholdLines(_ node: TomlNode, _ source: inout SourceText) {
        source.withhold(node.span.line...max(node.span.line, node.span.endLine))
    }
}
