internal import Vocabulary

/// The names that a configuration gives to its sources and integrations, for the completion of command lines.
package struct ConfiguredNames: Sendable, Hashable {
    /// In the order of the file; names that no configuration may have are left out.
    package let sources: [String]
    package let integrations: [String]

    /// Reads the names and nothing else: the file is not checked, and no secret is looked at. A file that cannot be
    /// read, or that is no TOML, has no names.
    package static func read(path: String, reader: SecretReader = .system) -> ConfiguredNames {
        var root: TomlNode?
        if case .success(let file) = reader.readFile(path, ConfigurationLimits.fileBytesMax) {
            root = try? TomlReader.read(file.bytes)
        }
        let entries = root?.entries ?? []
        return ConfiguredNames(
            sources: names(of: Schema.source, in: entries), integrations: names(of: Schema.integration, in: entries))
    }

    private static func names(of table: Schema.Table, in entries: [TomlEntry]) -> [String] {
        entries.filter { $0.key == table.name }.flatMap { entry -> [String] in
            guard case .array(let members) = entry.node.value else { return [] }
            return members.compactMap { member -> String? in
                guard case .string(let name)? = member.entries?.first(where: { $0.key == "name" })?.node.value,
                    isName(name)
                else { return nil }
                return name
            }
        }
    }

    /// Whether a source or an integration may have this name. Names are part of journal fields; a source's is also
    /// part of its path (`/ingest/NAME`), so "." and ".." are none: clients and proxies take them out of a path
    /// (RFC 3986 §5.2.4).
    static func isName(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_.-".utf8.contains($0) }
            && (1...ConfigurationLimits.nameCharactersMax).contains(text.utf8.count)
            && ![".", ".."].contains(text)
    }
}
