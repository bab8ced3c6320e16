/// The schema that a connection's tables are in, by its name. All of Posthouse's SQL names tables without a schema, so
/// the search path alone decides which are meant.
enum SchemaName {
    /// A name as SQL has it: quoted, whatever is in it.
    static func quoted(_ name: String) -> String { "\"\(name.replacing("\"", with: "\"\""))\"" }

    /// What an advisory lock's key is mixed with, because those keys are of the whole database: two ledgers in two
    /// schemas must not wait for each other. Zero for `public`, as for a role's own search path, which is mostly that.
    static func lockSalt(_ name: String?) -> Int64 {
        guard let name, name != "public" else { return 0 }
        // FNV-1a: the same in every process and version.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0100_0000_01B3 }
        return Int64(bitPattern: hash)
    }
}

extension Session {
    /// The schema that the connection's settings name; nil: the role's own search path decides.
    package var schema: String? { wire.settings.schema }

    /// The same, quoted for SQL.
    package var quotedSchema: String? { wire.settings.schema.map(SchemaName.quoted) }

    /// What the keys of advisory locks are mixed with.
    package var lockSalt: Int64 { wire.settings.lockSalt }

    /// The key of an advisory lock, made one of this ledger's own among those of the database.
    package func lockKey(_ key: Int64) -> Int64 { key ^ lockSalt }

    /// The same for half of a key.
    package func halfLockKey(_ key: Int32) -> Int32 { key ^ Int32(truncatingIfNeeded: lockSalt) }
}
