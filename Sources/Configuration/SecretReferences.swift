/// A secret that a configuration names.
package struct NamedSecret: Sendable, Hashable {
    package enum Place: Sendable, Hashable {
        case credential(String)
        /// A relative path of the file is resolved as the daemon resolves it.
        case file(String)
    }

    package let place: Place
    /// The table that needs it, by its name: `source NAME`, `integration NAME headers`, `database url`, `server tls`.
    package let user: String
}

/// Finds the secrets that a configuration names, without reading them, whatever errors beyond TOML's it has.
package enum SecretReferences {
    /// All of a file in its order; environment variables are left out, because nothing is stored of them.
    /// - Parameter fileName: the absolute path of the configuration; relative paths in it count from its directory.
    /// - Returns: nil for what is no TOML.
    package static func named(in bytes: [UInt8], fileName: String) -> [NamedSecret]? {
        guard let root = try? TomlReader.read(bytes) else { return nil }
        let directory = fileName.lastIndex(of: "/").map { String(fileName[..<$0]) }
        var found: [NamedSecret] = []
        for entry in root.entries ?? [] {
            guard let table = Schema.table(entry.key) else { continue }
            var members = [entry.node]
            if case .array(let several) = entry.node.value { members = several }
            for member in members { found += secrets(of: member, table, directory) }
        }
        return found
    }

    private static func secrets(of node: TomlNode, _ table: Schema.Table, _ directory: String?) -> [NamedSecret] {
        let entries = node.entries ?? []
        var user = table.name
        if table.isRepeated, case .string(let name)? = entries.first(where: { $0.key == "name" })?.node.value {
            user += " " + name
        }
        var found: [NamedSecret] = []
        for entry in entries {
            let isPlain = ["secret", "secrets", "token"].contains(entry.key)
            let place = isPlain ? user : user + " " + entry.key
            if table.key(entry.key)?.mayHoldSecret == true {
                found += references(entry.node, directory).map { NamedSecret(place: $0, user: place) }
            } else if table.name == Schema.server.name, entry.key == "tls",
                case .string(let path)? = entry.node.entries?.first(where: { $0.key == "key" })?.node.value
            {
                found.append(NamedSecret(place: file(path, directory), user: place))
            }
        }
        return found
    }

    /// The references in a value: itself, the members of an array, the fields of `headers`.
    private static func references(_ node: TomlNode, _ directory: String?) -> [NamedSecret.Place] {
        switch node.value {
        case .array(let members): return members.flatMap { references($0, directory) }
        case .table(let entries):
            if entries.count == 1, case .string(let text) = entries[0].node.value {
                switch entries[0].key {
                case "credential": return [.credential(text)]
                case "file": return [file(text, directory)]
                default: return []
                }
            }
            return entries.flatMap { references($0.node, directory) }
        case .string, .integer, .real, .boolean, .dateTime: return []
        }
    }

    /// A path below /run/credentials is a credential of the unit: so a TLS key is named, which the daemon opens itself.
    private static func file(_ path: String, _ directory: String?) -> NamedSecret.Place {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        if parts.count == 5, path.hasPrefix("/run/credentials/") { return .credential(String(parts[4])) }
        guard let directory, !path.hasPrefix("/") else { return .file(path) }
        return .file(SecretLocation.absolute(path, from: directory))
    }
}
