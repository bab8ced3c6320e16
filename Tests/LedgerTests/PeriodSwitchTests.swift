import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, and a ledger that was never switched.
@Suite("The switch to periods", .serialized, .timeLimit(.minutes(30)))
struct PeriodSwitchTests {
    /// With the indexes of this version built, and those of versions before gone.
    private func plain(_ body: (TestLedger) async throws -> Void) async throws {
        try await TestLedger.run { ledger in
            try ledger.writePlain()
            try ledger.psql("UPDATE schema_migrations SET applied_at = now() - interval '2 hours'")
            #expect(try await ledger.migrateIndexes() == .left(["messages_key_key"]), "the indexes")
            try await body(ledger)
        }
    }

    private func upkeep(_ daemon: Daemon) -> Upkeep {
        let day = Duration.seconds(86_400)
        return Upkeep(pool: daemon.pool, retention: Retention(attempts: day, events: day * 30, duplicates: day * 30))
    }

    /// Rows, indexes and rights of the two tables, whatever they are called.
    private static let indexes = """
        SELECT regexp_replace(regexp_replace(pg_get_indexdef(indexrelid), '(INDEX|ON( ONLY)?) \\S+ ', '\\1 ', 'g'),
                              'ON( ONLY)? \\S+ ', '', 'g')
        FROM pg_index WHERE indrelid = to_regclass('%') AND indisvalid ORDER BY 1
        """

    @Test("No row is copied or read, the indexes stay, and all is found as before; what comes next has ids of a period")
    func whole() async throws {
        try await plain { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .purchase)])
            daemon.open("all")
            await daemon.record((0..<20).map { .sample("E\($0)", purchase: "p\($0 % 5)", transaction: "t\($0)") })
            let files = "SELECT pg_relation_filenode('%'), pg_relation_filenode('%_pkey')"
            let before = try PeriodTables.names.map { try ledger.psql(files.replacing("%", with: $0)) }
            let defined = try PeriodTables.names.map { try ledger.psql(Self.indexes.replacing("%", with: $0)) }
            let role = "watcher_\(ledger.database)"
            try ledger.psql(
                """
                CREATE ROLE \(role);
                GRANT SELECT ON events TO PUBLIC; GRANT SELECT, INSERT ON messages TO \(role)
                """)
            let grants = """
                SELECT relacl::text FROM pg_class
                WHERE oid IN ('events'::regclass, 'messages'::regclass) ORDER BY relname
                """
            let granted = try ledger.psql(grants)

            #expect(try await ledger.migrateIndexes() == .done)
            #expect(try await ledger.migrateIndexes() == .done)
            let parts = PeriodTables.names.map { "\($0)_before" }
            #expect(try parts.map { try ledger.psql(files.replacing("%", with: $0)) } == before)
            #expect(try ledger.psql(grants) == granted)
            for tables in [PeriodTables.names, parts, ["events_1", "messages_1"]] {
                let now = try tables.map { try ledger.psql(Self.indexes.replacing("%", with: $0)) }
                // All but the unique index over the keys of messages.
                let expected = defined.map { text in
                    text.split(separator: "\n").filter { !($0.contains("UNIQUE") && $0.contains("(key)")) }
                        .joined(separator: "\n")
                }
                #expect(now == expected, "\(tables)")
            }
            // Nobody told the daemon, and its ids are still below.
            await daemon.record([.sample("E7", purchase: "p2", transaction: "t7"), .sample("X", purchase: "x")])
            #expect(daemon.log.recorded(duplicate: true).count == 1)
            #expect(try ledger.psql("SELECT count(*), max(id) >> 32 FROM events") == "21|0")
            try await upkeep(daemon).beginPeriod()
            await daemon.record([.sample("Y", purchase: "p2"), .sample("E8", purchase: "p3", transaction: "t8")])
            #expect(try ledger.psql("SELECT count(*), max(id) >> 32 FROM events") == "22|1")
            #expect(daemon.log.recorded(duplicate: true).count == 2)
            let newest = """
                SELECT name FROM events WHERE purchase = (SELECT id FROM purchases WHERE key = 'p2')
                ORDER BY id DESC LIMIT 1
                """
            #expect(try ledger.psql(newest) == "Y")
            try await upkeep(daemon).pruneInTheEnd()
            #expect(try ledger.psql("SELECT count(*) FROM events") == "22")
            #expect(try await daemon.registration.renew() && daemon.registration.ledgerForm == .current)
        }
    }

    @Test("Webhooks that come all the while are stored once each, and none is refused")
    func underLoad() async throws {
        try await plain { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let isOver = Mutex(false)
            async let posted: (sent: Int, stored: Int) = {
                var (sent, stored) = (0, 0)
                while !isOver.withLock({ $0 }) || sent % 10 != 0 {
                    let events = (sent..<(sent + 5)).map {
                        Event.sample("E", purchase: "p\($0)", transaction: "t\($0)")
                    }
                    sent += events.count
                    stored += await daemon.record(events, writers: 2).count { $0 == .stored }
                }
                return (sent, stored)
            }()
            while try ledger.psql("SELECT count(*) > 50 FROM events") == "f" {}
            // It gives way to a transaction that lasts, as each may on a busy machine.
            var outcome = try await ledger.migrateIndexes()
            for _ in 0..<3_000 where outcome != .done { outcome = try await ledger.migrateIndexes() }
            // Otherwise those who post would go on for ever.
            if outcome != .done { isOver.withLock { $0 = true } }
            try #require(outcome == .done)
            let count = try #require(Int(try ledger.psql("SELECT count(*) FROM events")))
            while try ledger.psql("SELECT count(*) > \(count + 50) FROM events") == "f" {}
            try await upkeep(daemon).beginPeriod()
            while try ledger.psql("SELECT count(*) > 50 FROM events_1") == "f" {}
            isOver.withLock { $0 = true }
            let (sent, stored) = await posted
            #expect(stored == sent)
            #expect(try ledger.psql("SELECT count(*), count(DISTINCT id) FROM events") == "\(sent)|\(sent)")
            #expect(try ledger.psql("SELECT count(*) FROM messages") == "\(sent)")
        }
    }

    @Test("It is put off while an older daemon lives, while the migration is young, and while somebody holds a table")
    func putOff() async throws {
        try await plain { ledger in
            let left = IndexMigration.Outcome.left(["messages_key_key"])
            try ledger.psql("INSERT INTO daemons (version, expires_at, state_form) VALUES ('old', now(), 4)")
            #expect(try await ledger.migrateIndexes() == left)
            try ledger.psql("DELETE FROM daemons")
            try ledger.psql("UPDATE schema_migrations SET applied_at = now() - interval '59 min' WHERE version = 11")
            #expect(try await ledger.migrateIndexes() == left)
            try ledger.psql("UPDATE schema_migrations SET applied_at = now() - interval '61 min' WHERE version = 11")
            try await ledger.during("SELECT count(*) FROM messages") {
                // At first it waits for half a second; then the lock is old enough to be seen from outside.
                for _ in 0..<2 {
                    #expect(try await ledger.migrateIndexes() == left)
                    try ledger.psql("SELECT pg_sleep(1.1)")
                }
            }
            #expect(try await ledger.migrateIndexes() == .done)
        }
    }

    @Test("After it no older daemon registers, and whoever switches leaves all to the owner of the tables")
    func ownedAndFenced() async throws {
        try await plain { ledger in
            let role = "owner_\(ledger.database)"
            try ledger.psql(
                "CREATE ROLE \(role); ALTER TABLE events OWNER TO \(role); ALTER TABLE messages OWNER TO \(role)")
            #expect(try await ledger.migrateIndexes() == .done)
            let owners = """
                SELECT string_agg(DISTINCT pg_get_userbyid(relowner), ' ') FROM pg_class
                WHERE relname ~ '^(events|messages)(_[a-z0-9]+)?$' AND relkind IN ('r', 'p')
                """
            #expect(try ledger.psql(owners) == role)
            #expect(throws: (any Error).self) {
                try ledger.psql("INSERT INTO daemons (version, expires_at, state_form) VALUES ('old', now(), 4)")
            }
            try ledger.psql("INSERT INTO daemons (version, expires_at, state_form) VALUES ('new', now(), 5)")
        }
    }

    @Test("What was cut short before the switch is gone on with, even if ids have been given out meanwhile")
    func cutShort() async throws {
        try await plain { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            try ledger.psql("ALTER TABLE events ADD CONSTRAINT below_periods CHECK (id < 4294967296) NOT VALID")
            await daemon.record([.sample("A", purchase: "a")])
            #expect(try await ledger.migrateIndexes() == .done)
            #expect(try ledger.psql("SELECT string_agg(name, ' ') FROM events_before") == "A")
            #expect(try ledger.psql("SELECT count(*) FROM pg_constraint WHERE conname = 'below_periods'") == "0")
        }
    }

    @Test("A version before cannot write a message that it would not know to be there already")
    func fence() async throws {
        try await TestLedger.run { ledger in
            let before = """
                INSERT INTO messages (id, key, event, type, envelope) VALUES (4294967297, gen_random_uuid(), 1, 'X', '')
                ON CONFLICT (key) DO NOTHING
                """
            let refusal = #expect(throws: (any Error).self) { try ledger.psql(before) }
            #expect("\(refusal as Any)".contains("no unique or exclusion constraint matching the ON CONFLICT"))
        }
    }

    @Test("An index of the partitioned tables that went missing is built anew, and goes on where it was cut short")
    func missingIndex() async throws {
        try await plain { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([.sample("A", purchase: "a")])
            #expect(try await ledger.migrateIndexes() == .done)
            // Statistics are made, for example: nobody who records waits behind who waits for that.
            try ledger.psql("DROP INDEX events_stray")
            try await ledger.during("LOCK TABLE events IN SHARE UPDATE EXCLUSIVE MODE") {
                let left = try await ledger.migrateIndexes()
                #expect(left == .left(["events_stray"]))
                #expect(await daemon.record([.sample("B", purchase: "b")]) == [.stored])
            }
            try ledger.psql(
                """
                CREATE INDEX events_stray ON ONLY events (holder, id) WHERE stray;
                CREATE INDEX events_stray_1 ON events_1 (id)
                """)
            #expect(try await ledger.migrateIndexes() == .done)
            let valid = """
                SELECT count(*), bool_and(indisvalid) FROM pg_index
                WHERE pg_get_indexdef(indexrelid) LIKE '%(holder, id) WHERE stray'
                """
            #expect(try ledger.psql(valid) == "3|t")
            // The last one without a part is dropped meanwhile: nothing is left to attach.
            try ledger.psql(
                """
                DROP INDEX events_stray;
                CREATE INDEX events_stray ON ONLY events (holder, id) WHERE stray;
                CREATE INDEX events_stray_before ON events_before (holder, id) WHERE stray;
                ALTER INDEX events_stray ATTACH PARTITION events_stray_before;
                DROP TABLE events_1
                """)
            let part = try ledger.psql("SELECT 'events_stray_before'::regclass::oid")
            #expect(try await ledger.migrateIndexes() == .done)
            #expect(try await IndexMigration.unfinished(in: daemon.pool).isEmpty)
            #expect(try ledger.psql("SELECT 'events_stray_before'::regclass::oid") == part)
        }
    }
}
