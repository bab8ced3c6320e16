import Glibc
import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// A ledger moves from one database to another; how a command goes about it is in the scenarios. Oracle: SQL.
@Suite("Move", .timeLimit(.minutes(30)))
struct MoveTests {
    /// A target must keep what it acknowledges.
    private static let durable = Result { try TestCluster(durable: true) }

    private func move(_ source: TestLedger, _ target: TestLedger) throws -> LedgerMove {
        LedgerMove(
            from: try TestLedger.settings(source.connectionString), to: try TestLedger.settings(target.connectionString)
        )
    }

    private func run(_ move: LedgerMove, isMarked: Bool = false) async throws -> LedgerMove.Outcome {
        try await move.run(isMarked: isMarked, beforeCommit: { nil }, goesOn: { _ in true })
    }

    /// The source is marked on a disk that takes its time.
    private func runSlowly(_ move: LedgerMove) async throws -> LedgerMove.Outcome {
        try await move.run(
            isMarked: false,
            beforeCommit: {
                usleep(1_500_000)
                return nil
            }, goesOn: { _ in true })
    }

    private func failure(_ move: LedgerMove) async throws -> MoveFailure? {
        do throws(MoveFailure) {
            _ = try await move.run(isMarked: false, beforeCommit: { nil }, goesOn: { _ in true })
            return nil
        } catch {
            return error
        }
    }

    /// What `look` finds against it; nil: nothing.
    private func problem(with move: LedgerMove) async -> MoveFailure? {
        do throws(MoveFailure) {
            _ = try await move.look(isMarked: false)
            return nil
        } catch {
            return error
        }
    }

    @Test("A look says what a move would be refused for: the server, its schema, the role; and changes nothing")
    func looked() async throws {
        try await TestLedger.run { source in
            let cluster = try Self.durable.get()
            let target = try await TestLedger(on: cluster, isMigrated: false)
            let move = try move(source, target)
            let none = await problem(with: move)
            #expect(none == nil, "\(none as Any)")
            try target.psql("ALTER DATABASE \(target.database) SET synchronous_commit = off")
            let unfit = await problem(with: move)
            guard case .unfit(.unsafe(setting: "synchronous_commit", _)) = unfit else {
                Issue.record("\(unfit as Any)")
                return
            }
            try target.psql("ALTER DATABASE \(target.database) RESET synchronous_commit")
            // A role that may not make the schema that it is to use.
            try cluster.psql("CREATE ROLE move_guest LOGIN")
            let guest = target.connectionString.replacing("user=postgres", with: "user=move_guest")
            let forbidden = await problem(
                with: LedgerMove(
                    from: try TestLedger.settings(source.connectionString),
                    to: try TestLedger.settings(guest, schema: "relay")))
            guard case .schema(.noSchema(#""relay""#, role: "move_guest")) = forbidden else {
                Issue.record("\(forbidden as Any)")
                return
            }
            #expect(try target.psql("SELECT to_regclass('schema_migrations') IS NULL") == "t")
            try target.psql("CREATE TABLE schema_migrations (version text)")
            let foreign = await problem(with: move)
            guard case .schema(.foreign) = foreign else {
                Issue.record("\(foreign as Any)")
                return
            }
            let newer = try await TestLedger(on: cluster)
            try newer.psql("INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, 'x', '')")
            let tooNew = await problem(with: try self.move(source, newer))
            guard case .schema(.newer(database: 9_999, _)) = tooNew else {
                Issue.record("\(tooNew as Any)")
                return
            }
        }
    }

    @Test("Where a daemon would reach another database than the move, it is refused, before anything is changed")
    func elsewhere() async throws {
        try await TestLedger.run { source in
            let cluster = try Self.durable.get()
            let target = try await TestLedger(on: cluster, isMigrated: false)
            let other = try await TestLedger(on: cluster, isMigrated: false)
            func move(usedBy use: TestLedger) throws -> LedgerMove {
                LedgerMove(
                    from: try TestLedger.settings(source.connectionString),
                    to: try TestLedger.settings(target.connectionString),
                    usedBy: try TestLedger.settings(use.connectionString))
            }
            let refused = [
                await problem(with: try move(usedBy: other)), try await failure(move(usedBy: other)),
            ]
            for failure in refused {
                guard case .elsewhere = failure else {
                    Issue.record("\(failure as Any)")
                    return
                }
            }
            #expect(try target.psql("SELECT to_regclass('schema_migrations') IS NULL") == "t")
            guard case .moved = try await run(move(usedBy: target)) else {
                Issue.record("not moved")
                return
            }
        }
    }

    @Test("A ledger is where one was moved to or has begun: not in a bare database, nor in a schema alone")
    func isLedger() async throws {
        func isLedger(_ ledger: TestLedger) async throws -> Bool {
            let connection = try await ledger.connect()
            let answer = try await connection.withSession { session throws(DatabaseError) in
                try LedgerContents.isLedger(on: session)
            }
            await connection.close()
            return answer
        }
        try await TestLedger.run { ledger in
            #expect(try await !isLedger(TestLedger(isMigrated: false)))
            #expect(try await !isLedger(ledger))
            try ledger.psql("INSERT INTO moves (cluster) VALUES (1)")
            #expect(try await isLedger(ledger))
            try ledger.psql("TRUNCATE moves")
            let daemon = try await ledger.daemon()
            #expect(try await !isLedger(ledger))
            await daemon.record([.sample()])
            #expect(try await isLedger(ledger))
            // Of a version that had no such table.
            try ledger.psql("DROP TABLE moves")
            #expect(try await isLedger(ledger))
            try await daemon.queue.leave()
        }
    }

    @Test("Into a bare database: partitions of days long past, sequences, the salt; new rows find their place")
    func bare() async throws {
        try await TestLedger.run { source in
            let daemon = try await source.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((1...3).map { .sample(purchase: "subs_\($0)", transaction: "tx_\($0)") })
            _ = try await daemon.queue.settle(daemon.inbox.take().map { $0.settled(.accepted) })
            try source.psql(
                """
                CREATE TABLE attempts_20200229 PARTITION OF attempts
                FOR VALUES FROM ('2020-02-29 00:00:00+00') TO ('2020-03-01 00:00:00+00');
                INSERT INTO attempts SELECT '2020-02-29 12:00:00+00', delivery, message, integration, attempt, outcome,
                                            http_status, latency_ms, failure FROM attempts;
                SELECT setval('event_ids', 4295037296)
                """)
            try await daemon.queue.leave()
            let target = try await TestLedger(on: Self.durable.get(), isMigrated: false)
            let move = try move(source, target)
            guard case .moved(let tables) = try await runSlowly(move) else {
                Issue.record("not moved")
                return
            }
            #expect(tables.first { $0.name == "attempts" }?.rows == 6)
            #expect(try target.psql("SELECT count(*) FROM attempts_20200229") == "3")
            // Today's, which no upkeep has given a partition yet.
            #expect(try target.psql("SELECT count(*) FROM attempts_default") == "3")
            #expect(try target.psql("SELECT nextval('event_ids')") == "4295037297")
            for sql in ["SELECT salt FROM erasure_salt", "SELECT last_value FROM daemons_id_seq"] {
                #expect(try target.psql(sql) == source.psql(sql))
            }
            // And it goes on there.
            let heir = try await target.daemon([.named("all"), .named("more")])
            #expect(heir.row("all") == daemon.row("all") && heir.row("more") != daemon.row("all"))
            heir.open("all")
            await heir.record([.sample(purchase: "subs_1", transaction: "tx_1"), .sample(purchase: "subs_9")])
            #expect(try target.psql("SELECT count(*), max(id) > 4295037296 FROM events") == "4|t")
            await heir.pool.close()
        }
    }

    @Test("Into a database that a version before had prepared, it moves with the indexes that its rows need")
    func prepared() async throws {
        try await TestLedger.run { source in
            let daemon = try await source.daemon()
            await daemon.record([.sample()])
            try await daemon.queue.leave()
            let target = try await TestLedger(on: Self.durable.get())
            try target.writeWithoutTimedKeys()
            try target.psql("DROP INDEX purchases_hash")
            // Its daemon was killed.
            try target.psql("INSERT INTO daemons (version, expires_at, state_form) VALUES ('old', now(), 3)")
            // A build that was cut short.
            try target.psql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'identities_key'::regclass")
            guard case .moved = try await run(move(source, target)) else {
                Issue.record("not moved")
                return
            }
            let heir = try await target.daemon()
            #expect(heir.registration.ledgerForm == .current)
            #expect(await heir.record([.sample(), .sample("LATER")]) == [.stored, .stored])
            #expect(try target.psql("SELECT count(*), (SELECT count(*) FROM purchases) FROM events") == "2|1")
            await heir.pool.close()
        }
    }

    @Test("Between ledgers with and without periods, and where the target's daemon has begun some: it goes on there")
    func periods() async throws {
        for isPlain in [true, false] {
            try await TestLedger.run { source in
                if isPlain { try source.writePlain() }
                let daemon = try await source.daemon([.named("all")])
                await daemon.record([.sample("A", purchase: "a"), .sample("B", purchase: "b")])
                try await daemon.queue.leave()
                let target = try await TestLedger(on: Self.durable.get())
                let idle = try await target.daemon()
                let day = Duration.seconds(86_400)
                let upkeep = Upkeep(
                    pool: idle.pool, retention: Retention(attempts: day, events: day * 30, duplicates: day * 30))
                for _ in 0..<3 {
                    try target.psql("UPDATE periods SET began_at = began_at - interval '2 days'")
                    try await upkeep.beginPeriod()
                }
                try await idle.queue.leave()
                guard case .moved = try await run(move(source, target)) else {
                    Issue.record("not moved")
                    return
                }
                let heir = try await target.daemon([.named("all")])
                #expect(await heir.record([.sample("A", purchase: "a"), .sample("C", purchase: "c")]).count == 2)
                #expect(try target.psql("SELECT string_agg(name, '' ORDER BY id) FROM events") == "ABC")
                try target.psql("UPDATE periods SET began_at = now() - interval '2 days'")
                try await upkeep.beginPeriod()
                await heir.record([.sample("D", purchase: "d")])
                let newest =
                    "SELECT name, id >> 32 = (SELECT max(id) FROM periods) FROM events ORDER BY id DESC LIMIT 1"
                #expect(try target.psql(newest) == "D|t")
                await heir.pool.close()
                await idle.pool.close()
            }
        }
    }

    @Test("A target that holds this ledger is the end of a move; one that holds it changed, or another, is refused")
    func examined() async throws {
        try await TestLedger.run { source in
            let daemon = try await source.daemon([.named("all")])
            await daemon.record([.sample()])
            try await daemon.queue.leave()
            let target = try await TestLedger(on: Self.durable.get())
            let move = try move(source, target)
            _ = try await run(move)
            guard case .found(_, let at) = try await run(move) else {
                Issue.record("moved twice")
                return
            }
            #expect(at.milliseconds > 0)
            try source.psql(
                "INSERT INTO quarantine (source, reason, body_digest, body) VALUES ('s', 'r', gen_random_uuid(), '')")
            let diverged = try await failure(move)
            guard case .diverged(table: "quarantine", _) = diverged else {
                Issue.record("\(diverged as Any)")
                return
            }
            // A source that was marked has not changed since; what the daemons did to the target is their work.
            guard case .found = try await run(move, isMarked: true) else {
                Issue.record("not found")
                return
            }
            try target.psql("TRUNCATE moves")
            let occupied = try await failure(move)
            guard case .occupied(let tables) = occupied else {
                Issue.record("\(occupied as Any)")
                return
            }
            #expect(tables.contains("events") && !tables.contains("integrations"))
            #expect(try target.psql("SELECT count(*) FROM quarantine") == "0")
        }
    }

    @Test("A daemon that is just registering with the target is seen")
    func registering() async throws {
        try await TestLedger.run { source in
            let target = try await TestLedger(on: Self.durable.get())
            let move = try move(source, target)
            let registering = try await target.holding { session throws(DatabaseError) in
                try session.script(
                    """
                    INSERT INTO daemons (place, process_id, process_started, version, expires_at, state_form)
                    VALUES ('x', 1, 1, 'x', now() + interval '1 hour', 5)
                    """)
            } _: {
                try await failure(move)
            }
            guard case .inUse(daemons: 1) = registering else {
                Issue.record("\(registering as Any)")
                return
            }
        }
    }

    @Test("A table of somebody else's, a daemon with a lease, a locked table, a mark that fails: nothing changes")
    func refused() async throws {
        try await TestLedger.run { source in
            let target = try await TestLedger(on: Self.durable.get())
            let move = try move(source, target)
            try source.psql("CREATE TABLE \"Notes\" (n integer)")
            let unknown = try await failure(move)
            guard case .unknownTable("\"Notes\"") = unknown else {
                Issue.record("\(unknown as Any)")
                return
            }
            try source.psql("DROP TABLE \"Notes\"")
            try target.psql(
                """
                INSERT INTO daemons (place, process_id, process_started, version, expires_at, state_form)
                VALUES ('x', 1, 1, 'x', now() + interval '1 hour', 5)
                """)
            let inUse = try await failure(move)
            guard case .inUse(daemons: 1) = inUse else {
                Issue.record("\(inUse as Any)")
                return
            }
            try target.psql("UPDATE daemons SET expires_at = now() - interval '1 second'")
            do throws(MoveFailure) {
                _ = try await move.run(isMarked: false, beforeCommit: { "no room" }, goesOn: { _ in true })
                Issue.record("moved without a mark")
            } catch {
                guard case .notMarked(reason: "no room") = error else {
                    Issue.record("\(error)")
                    return
                }
            }
            #expect(try target.psql("SELECT (SELECT count(*) FROM daemons), (SELECT count(*) FROM moves)") == "1|0")
            guard case .moved = try await run(move) else {
                Issue.record("not moved")
                return
            }
        }
    }
}
