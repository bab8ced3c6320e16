import Foundation
import TestSupport
import Testing
import Vocabulary

/// `[database] pooling = "transaction"`: PgBouncer in transaction mode with four server connections, as a role that
/// owns only its schema, beside an app's tables of the same names. Oracles: PostgreSQL itself, past the pooler; what
/// sources were answered, and what receivers got.
@Suite(.serialized) struct PoolerTransactionTests {
    private static let role = "app_posthouse"

    private final class Bed: Sendable {
        let cluster: TestCluster
        let pooler: TestPooler
        let superuser: Database
        /// As the role, past the pooler.
        let direct: String
        let directory: ScratchDirectory
        var url: String { pooler.connectionString(for: direct) }
        var ledger: Database { Database(connectionString: direct + " options='-c search_path=posthouse'") }

        init() throws {
            cluster = try TestCluster(durable: true)
            let database = try cluster.createDatabase()
            superuser = Database(connectionString: database)
            // The tables of an app, as Rails makes them.
            try superuser.rows(
                """
                CREATE ROLE \(role) LOGIN; CREATE SCHEMA posthouse AUTHORIZATION \(role);
                CREATE TABLE schema_migrations (version varchar PRIMARY KEY);
                CREATE TABLE events (id bigserial PRIMARY KEY, name text);
                CREATE TABLE messages (id bigserial PRIMARY KEY, event bigint);
                CREATE TABLE purchases (id bigserial PRIMARY KEY);
                GRANT ALL ON ALL TABLES IN SCHEMA public TO \(role);
                INSERT INTO events (name) VALUES ('of the app')
                """)
            direct = database.replacing(/user=\w+/, with: "user=\(role)")
            pooler = try TestPooler(
                before: cluster, mode: "transaction", connections: 4, roles: [role],
                settings: "server_round_robin = 1\nserver_login_retry = 1")
            directory = try ScratchDirectory()
            try name(direct)
        }

        deinit { directory.remove() }

        /// Lets `direct_url` be another one.
        func name(_ direct: String) throws { try directory.write("direct-url", direct + "\n") }

        /// - Parameter tables: further tables of the configuration.
        func relay(
            _ integrations: [Relay.Integration], hasDirect: Bool, tables: String = ""
        ) throws -> Relay {
            var settings = ["schema": "\"posthouse\"", "pooling": "\"transaction\""]
            if hasDirect { settings["direct_url"] = "{ file = \"\(directory.path)/direct-url\" }" }
            return try Relay(
                integrations, storage: .given(url), settings: tables, databaseSettings: settings)
        }

        /// Daemons that listen for notifications.
        func listening() throws -> Int { try superuser.count("pg_stat_activity", where: "query LIKE 'LISTEN %'") }

        func isAppUntouched() throws -> Bool {
            try superuser.rows("SELECT name FROM events") == [["of the app"]]
                && superuser.count("pg_class", where: "relnamespace = 'public'::regnamespace AND relkind = 'r'") == 4
        }
    }

    /// Another program of the same role that leaves in the sessions whatever could harm the next client of them.
    private final class HostileClient: Sendable {
        private struct State: Sendable {
            var rounds = 0
            var failures: [String] = []
            var isStopping = false
            var hasEnded = false
        }

        private let state = Monitor(State())
        private static let sql = """
            BEGIN READ WRITE; CREATE TEMP TABLE IF NOT EXISTS events (id bigint);
            CREATE TEMP TABLE IF NOT EXISTS deliveries (id bigint); COMMIT; SET search_path = public;
            SET default_transaction_isolation = 'serializable'; SET synchronous_commit = off; SET lock_timeout = 1;
            SET idle_in_transaction_session_timeout = 1; SET client_min_messages = error;
            SET default_transaction_read_only = on
            """

        /// Begins at once.
        init(_ bed: Bed) {
            let (url, state) = (bed.url, state)
            Thread.detachNewThread {
                let database = Database(connectionString: url)
                while !state.read(\.isStopping) {
                    do {
                        try database.rows(Self.sql)
                        state.change { $0.rounds += 1 }
                    } catch {
                        state.change { $0.failures.append("\(error)") }
                    }
                }
                state.change { $0.hasEnded = true }
            }
        }

        func waitForRounds(_ count: Int) -> Bool { state.wait(180) { $0.rounds >= count } }

        /// What failed.
        func stop() -> [String] {
            state.change { $0.isStopping = true }
            _ = state.wait(180) { $0.hasEnded }
            return state.read(\.failures)
        }
    }

    private static func pair(_ receivers: [Receiver]) -> [Relay.Integration] {
        receivers.enumerated().map { number, receiver in
            .init("receiver-\(number)", receiver, ["schedule": FaultTests.manyGaps])
        }
    }

    @Test("The schema is made by direct_url alone: without it a start and migrate are refused, and say what to do")
    func schema() throws {
        let bed = try Bed()
        let receiver = try Receiver()
        let without = try bed.relay([.init("backend", receiver)], hasDirect: false)
        defer { without.end() }
        #expect(try without.launch().waitForEnd(180) == .exited(1))
        #expect(without.lines.contains { $0.contains("direct_url") && $0.contains("posthouse migrate") })
        let refused = try without.command("migrate", "--config", without.configuration)
        #expect(refused.end == .exited(1) && refused.errors.contains("direct_url"), "\(refused)")
        let before = try without.command("doctor", "--config", without.configuration)
        #expect(before.output.contains("no tables of Posthouse yet in the schema posthouse"), "\(before)")

        let with = try bed.relay([.init("backend", receiver)], hasDirect: true)
        defer { with.end() }
        let migrated = try with.json("migrate")
        #expect(migrated["from"] as? Int == 0 && migrated["indexes"] as? String == "done", "\(migrated)")
        // From here on it serves.
        try without.start()
        #expect(without.waitForLine("without direct_url", "found by a poll") != nil)
        #expect(try without.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.waitForAccepted(1))
        #expect(try bed.listening() == 0)
        // What a command leaves to do is found by the poll.
        #expect(try eventually { try bed.ledger.count("attempts") == 1 })
        let replayed = try without.command("replay", "--outcome", "delivered", "--config", without.configuration)
        #expect(replayed.end == .exited(0), "\(replayed)")
        #expect(receiver.waitForAccepted(2))
        let doctor = try without.command("doctor", "--config", without.configuration)
        #expect(doctor.output.contains("without direct_url"), "\(doctor)")
        #expect(try bed.isAppUntouched())
    }

    @Test("Two daemons over four sessions that another client poisons: each message once, and transfers are right")
    func load() throws {
        let bed = try Bed()
        let receivers = [try Receiver(), try Receiver(script: FaultTests.oneInFive)]
        let first = try bed.relay(Self.pair(receivers), hasDirect: true)
        defer { first.end() }
        try first.start()
        #expect(first.waitForLine("no session is relied on", "direct_url is used") != nil)
        let second = try bed.relay(Self.pair(receivers), hasDirect: false)
        defer { second.end() }
        try second.start()
        #expect(try eventually { try bed.listening() == 1 })
        let hostile = HostileClient(bed)
        #expect(hostile.waitForRounds(8))
        let load = FaultLoad("p", on: [first.port, second.port])
        #expect(load.waitForProgress(300, within: 180))
        #expect(hostile.waitForRounds(16))
        let tally = try #require(load.finish(within: 180))
        #expect(try bed.ledger.drained())
        // Commands find their own settings, too.
        for command in ["status", "audit"] {
            let outcome = try first.command(command, "--config", first.configuration, within: 120)
            #expect(outcome.end == .exited(0), "\(command): \(outcome)")
        }
        #expect(hostile.stop() == [])

        for receiver in receivers { #expect(FaultTests.expectComplete(receiver, of: tally).duplicates == 0) }
        try FaultTests.expectSound(bed.ledger, of: tally)
        #expect(tally.isServed(by: [first, second]), "\(tally.refusals) \(tally.unanswered)")
        #expect(try bed.ledger.count("daemons") == 2)
        #expect(try bed.isAppUntouched())
        // Nothing was prepared, and no lock of a session is left.
        #expect(try eventually { try bed.superuser.count("pg_locks", where: "locktype = 'advisory'") == 0 })
        for relay in [first, second] { #expect(relay.stop() == .exited(0)) }
        #expect(try bed.ledger.leftBehind() == 0)
    }

    @Test("PostgreSQL restarts behind the pooler, under load: nothing acknowledged is missing, and the daemons go on")
    func restarted() throws {
        let bed = try Bed()
        let receiver = try Receiver()
        let relay = try bed.relay(Self.pair([receiver]), hasDirect: true)
        defer { relay.end() }
        try relay.start()
        let load = FaultLoad("r", on: [relay.port])
        for mode in ["fast", "immediate"] {
            #expect(load.waitForProgress(40, within: 180))
            try bed.cluster.restart(mode: mode)
        }
        #expect(load.waitForProgress(40, within: 180))
        let tally = try #require(load.finish(within: 180))
        #expect(try bed.ledger.drained())
        _ = FaultTests.expectComplete(receiver, of: tally)
        try FaultTests.expectSound(bed.ledger, of: tally)
        #expect(try eventually { try bed.listening() == 1 })
        #expect(relay.stop() == .exited(0))
    }

    @Test("A direct_url of another database, or through the pooler, is refused: at the start, by a reload, by doctor")
    func wrongDirect() throws {
        let bed = try Bed()
        let relay = try bed.relay([], hasDirect: true)
        defer { relay.end() }
        // With a schema of its own, so that a migration there would succeed.
        let other = try bed.cluster.createDatabase()
        try Database(connectionString: other).rows("CREATE SCHEMA posthouse AUTHORIZATION \(Self.role)")
        let elsewhere = other.replacing(/user=\w+/, with: "user=\(Self.role)")
        try bed.name(elsewhere)
        #expect(try relay.launch().waitForEnd(180) == .exited(1))
        #expect(relay.lines.contains { $0.contains("direct_url leads to another database") }, "\(relay.lines)")
        try bed.name(bed.url)
        #expect(try relay.launch().waitForEnd(180) == .exited(1))
        #expect(relay.lines.contains { $0.contains("direct_url leads through a pooler") }, "\(relay.lines)")
        try bed.name(bed.direct)
        try relay.start()
        #expect(try eventually { try bed.listening() == 1 })
        for (direct, reason) in [(elsewhere, "it leads to another ledger"), (bed.url, "goes through a proxy")] {
            try bed.name(direct)
            let refused = try relay.reload()
            #expect(refused.contains("direct_url") && refused.contains(reason), "\(refused)")
            let doctor = try relay.command("doctor", "--config", relay.configuration)
            #expect(doctor.output.contains(reason), "\(doctor)")
        }
        // A start finds it, too, where both have the schema.
        #expect(relay.stop() == .exited(0))
        try bed.name(elsewhere)
        #expect(try relay.launch().waitForEnd(180) == .exited(1))
        #expect(relay.lines.contains { $0.contains("it leads to another ledger") }, "\(relay.lines)")
        // One that is right is taken over.
        try bed.name(bed.direct)
        try relay.start()
        try bed.name(bed.direct + " application_name=another")
        let reported = try relay.reload()
        #expect(reported.contains("changed [database] direct_url"), "\(reported)")
    }

    @Test("A private cluster does not move by a direct_url of another database; by one of the same it does")
    func move() throws {
        let bed = try Bed()
        let old = try Relay([], storage: .privateCluster)
        defer { old.end() }
        try old.start()
        #expect(try old.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(old.stop() == .exited(0))
        let new = try bed.relay([], hasDirect: true, tables: Move.embedded(in: old))
        defer { new.end() }
        let other = Database(connectionString: try bed.cluster.createDatabase())
        try other.rows("CREATE SCHEMA posthouse AUTHORIZATION \(Self.role)")
        try bed.name(other.connectionString.replacing(/user=\w+/, with: "user=\(Self.role)"))
        let (c, mark) = (new.configuration, old.directory.path + "/state/cluster.moved")
        for refused in [
            try new.command("migrate", "--from-embedded", "--dry-run", "--config", c),
            try new.command("migrate", "--from-embedded", "--config", c),
        ] {
            #expect(refused.end == .exited(1), "\(refused)")
            #expect(refused.errors.contains("direct_url leads to another database than url"), "\(refused)")
            #expect(!FileManager.default.fileExists(atPath: mark))
        }
        #expect(try other.value("SELECT to_regclass('posthouse.events') IS NULL") == "t")
        try bed.name(bed.direct)
        let moved = try new.command("migrate", "--from-embedded", "--config", c)
        #expect(moved.end == .exited(0), "\(moved)")
        try new.start()
        #expect(try bed.ledger.count("events") == 1)
        #expect(try bed.isAppUntouched())
    }
}
