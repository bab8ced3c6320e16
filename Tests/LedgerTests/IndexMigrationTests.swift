import Postgres
import TestSupport
import Testing

@testable import Ledger

/// Oracle: what psql finds in the catalogue.
@Suite("Indexes that are built beside the service", .serialized)
struct IndexMigrationTests {
    private static let new = [
        "deliveries_of_purchase", "deliveries_without_purchase", "events_stray", "events_without_purchase",
        "holder_changes_aged", "identities_key", "messages_own_key", "purchases_hash",
    ]
    private static let old = [
        "events_holder", "events_transaction", "holder_changes_source", "deliveries_order", "identities_pkey",
        "messages_key_key",
    ]

    /// A ledger as the version before left it, its migrations done.
    private func migrated() async throws -> TestLedger {
        let ledger = try await TestLedger(isMigrated: false)
        let connection = try await ledger.connect()
        _ = try await connection.withSession { session throws(DatabaseError) in try Migrator.migrate(on: session) }
            .get()
        await connection.close()
        try ledger.writePlain()
        try ledger.psql(
            """
            DROP INDEX identities_key, purchases_hash, holder_changes_aged,
                deliveries_of_purchase, deliveries_without_purchase;
            CREATE INDEX holder_changes_source ON holder_changes (source);
            CREATE INDEX deliveries_order ON deliveries (purchase, integration, id);
            ALTER TABLE identities ADD PRIMARY KEY (key), REPLICA IDENTITY DEFAULT;
            UPDATE schema_migrations SET applied_at = now() - interval '2 hours';
            CREATE INDEX events_holder ON events (holder, id);
            CREATE INDEX events_transaction ON events (store_transaction_id, id)
            """)
        return ledger
    }

    private func indexes(_ ledger: TestLedger) throws -> [String] {
        try ledger.psql(
            """
            SELECT relname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid AND i.indisvalid
            WHERE i.indrelid IN (
                    'events'::regclass, 'messages'::regclass, 'purchases'::regclass, 'identities'::regclass,
                    'holder_changes'::regclass, 'deliveries'::regclass)
                AND relname = ANY ('{\((Self.new + Self.old).joined(separator: ","))}') ORDER BY 1
            """
        ).split(separator: "\n").map(String.init)
    }

    @Test("The new ones are built, the old ones go with the next run; then there is nothing to do")
    func thrice() async throws {
        let ledger = try await migrated()
        #expect(try indexes(ledger) == Self.old.sorted())
        #expect(try await ledger.migrateIndexes() == .left(Self.old))
        #expect(try indexes(ledger) == (Self.new + Self.old).sorted())
        for _ in 0..<2 {
            #expect(try await ledger.migrateIndexes() == .done)
            #expect(try indexes(ledger) == Self.new)
        }
    }

    @Test("One that went missing since is built again")
    func missing() async throws {
        let ledger = try await TestLedger()
        for name in Self.new {
            try ledger.psql("DROP INDEX \(name)")
            #expect(try await ledger.migrateIndexes() == .done)
            #expect(try indexes(ledger) == Self.new)
        }
    }

    @Test("An empty ledger has them from the beginning, beside tables of others in a schema whose name needs quotes")
    func empty() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        try ledger.psql(
            #"""
            CREATE TABLE identities (key uuid PRIMARY KEY); CREATE SCHEMA "My-App";
            ALTER DATABASE \#(ledger.database) SET search_path = "My-App", public
            """#)
        let connection = try await ledger.connect()
        let (outcome, form) = try await connection.withSession { session throws(DatabaseError) in
            _ = try Migrator.migrate(on: session)
            return (try IndexMigration.run(on: session), try LedgerForm.readByAll(on: session))
        }
        await connection.close()
        #expect(outcome == .done && form == .current)
        #expect(try indexes(ledger) == Self.new)
    }

    @Test("The old ones stay while a daemon lives that needs them")
    func olderDaemon() async throws {
        let ledger = try await migrated()
        try ledger.psql("INSERT INTO daemons (version, expires_at, state_form) VALUES ('old', now(), 2)")
        for _ in 0..<2 {
            #expect(try await ledger.migrateIndexes() == .left(Self.old))
            #expect(try indexes(ledger) == (Self.new + Self.old).sorted())
        }
        try ledger.psql("UPDATE daemons SET state_form = 3")
        #expect(try await ledger.migrateIndexes() == .left(["identities_pkey", "messages_key_key"]))
        try ledger.psql("DELETE FROM daemons")
        #expect(try await ledger.migrateIndexes() == .done)
        #expect(try indexes(ledger) == Self.new)
    }

    @Test("What a build that was cut short left is dropped and built anew")
    func cutShort() async throws {
        let ledger = try await migrated()
        try ledger.psql("CREATE INDEX events_stray ON events (id)")
        try ledger.psql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'events_stray'::regclass")
        #expect(try await ledger.migrateIndexes() == .left(Self.old))
        #expect(try await ledger.migrateIndexes() == .done)
        #expect(try indexes(ledger) == Self.new)
        let definition = try ledger.psql("SELECT indexdef FROM pg_indexes WHERE indexname = 'events_stray'")
        #expect(definition.contains("WHERE stray"))
    }

    @Test("The switch is put off while somebody holds what it would wait for, and while the migration is young")
    func putOff() async throws {
        let ledger = try await migrated()
        _ = try await ledger.migrateIndexes()
        try await ledger.during("LOCK TABLE identities IN ROW EXCLUSIVE MODE") {
            // At first it waits for half a second; then the lock is old enough to be seen from outside.
            for _ in 0..<2 {
                #expect(try await ledger.migrateIndexes() == .left(["identities_pkey", "messages_key_key"]))
                try ledger.psql("SELECT pg_sleep(1.1)")
            }
            let connection = try await ledger.connect()
            let isFree = try await connection.withSession { session throws(DatabaseError) in
                try SwitchGate.isFree(["identities"], on: session)
            }
            await connection.close()
            #expect(!isFree, "a table without partitions is seen, too")
        }
        try ledger.psql("UPDATE schema_migrations SET applied_at = now() - interval '59 min' WHERE version = 9")
        #expect(try await ledger.migrateIndexes() == .left(["identities_pkey", "messages_key_key"]))
        try ledger.psql("UPDATE schema_migrations SET applied_at = now() - interval '61 min' WHERE version = 9")
        #expect(try await ledger.migrateIndexes() == .done)
        #expect(try indexes(ledger) == Self.new)
        let replicated = "SELECT relreplident FROM pg_class WHERE relname = 'identities'"
        #expect(try ledger.psql(replicated) == "f")
    }

    @Test("Of two that do it at once one goes on, and nobody waits")
    func atOnce() async throws {
        let ledger = try await migrated()
        let outcome = try await ledger.holding { session throws(DatabaseError) in
            try session.script("LOCK TABLE events IN SHARE UPDATE EXCLUSIVE MODE")
        } _: {
            try await ledger.migrateIndexes()
        } meanwhile: {
            let second = try await ledger.migrateIndexes()
            #expect(second == .taken)
        }
        #expect(outcome == .left(Self.old))
    }
}
