import Foundation
import TestSupport
import Testing
import Vocabulary

/// A reload takes over another `[database] url` of the same ledger. Oracle: PostgreSQL, which lets nobody in with a
/// wrong password.
@Suite struct ReloadDatabaseTests {
    @Test("A rotated password is taken over without a restart; a wrong one is refused, and the one before holds on")
    func rotatedPassword() throws {
        let cluster = try TestCluster(durable: true)
        let superuser = Database(connectionString: try cluster.createDatabase())
        try superuser.rows("CREATE ROLE with_password LOGIN PASSWORD 'first-password'")
        try superuser.rows(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO with_password', current_database()); END $$")
        func url(_ password: String) -> String {
            superuser.connectionString.replacing(/user=\w+/, with: "user=with_password") + " password=\(password)"
        }
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)], storage: .given(url("first-password")))
        defer { relay.end() }
        let process = relay.processIdentifier

        try superuser.rows("ALTER ROLE with_password PASSWORD 'second-password'")
        try relay.directory.write("database-url", url("third-password") + "\n")
        let refused = try relay.reload()
        #expect(refused.contains("cannot be used; the previous one stays in effect"), "\(refused)")
        #expect(refused.contains("[database] url") && !refused.contains("third-password"), "\(refused)")
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)

        try relay.directory.write("database-url", url("second-password") + "\n")
        let reported = try relay.reload()
        #expect(reported.contains("changed [database] url"), "\(reported)")
        #expect(!reported.contains("due at the next restart"), "\(reported)")
        // The connections that are open are ended: the password of before opens no other.
        try superuser.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'with_password'")
        #expect(
            try eventually {
                try relay.source().post(Webhook("ACTIVATE", .user("v"), purchase: "subs_2")) == 200
            })
        #expect(receiver.waitForAccepted(2))
        #expect(relay.processIdentifier == process)
        #expect(try relay.reload().contains("nothing differs from the one before"))
        #expect(!relay.lines.contains { $0.contains("-password") })
    }

    @Test("A password that is rotated while no connection is left is taken over, too")
    func rotatedWhileAway() throws {
        let cluster = try TestCluster(durable: true)
        let superuser = Database(connectionString: try cluster.createDatabase())
        try superuser.rows("CREATE ROLE with_password LOGIN PASSWORD 'first-password'")
        try superuser.rows(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO with_password', current_database()); END $$")
        func url(_ password: String) -> String {
            superuser.connectionString.replacing(/user=\w+/, with: "user=with_password") + " password=\(password)"
        }
        let relay = try Relay.running([], storage: .given(url("first-password")))
        defer { relay.end() }
        try superuser.rows("ALTER ROLE with_password PASSWORD 'second-password'")
        try superuser.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'with_password'")
        #expect(try eventually { try relay.get("/readyz").status == 503 })
        try relay.directory.write("database-url", url("second-password") + "\n")
        let reported = try relay.reload()
        #expect(reported.contains("changed [database] url"), "\(reported)")
        #expect(try eventually { try relay.get("/readyz").status == 200 })
    }

    @Test("A url that is refused is not used later, either: the one before opens connections once it can again")
    func refusedWhileAway() throws {
        let cluster = try TestCluster(durable: true)
        let superuser = Database(connectionString: try cluster.createDatabase())
        try superuser.rows("CREATE ROLE with_password LOGIN PASSWORD 'first-password'")
        try superuser.rows(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO with_password', current_database()); END $$")
        func url(_ password: String) -> String {
            superuser.connectionString.replacing(/user=\w+/, with: "user=with_password") + " password=\(password)"
        }
        let relay = try Relay.running([], storage: .given(url("first-password")))
        defer { relay.end() }
        let ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'with_password'"
        try superuser.rows("ALTER ROLE with_password PASSWORD 'second-password'")
        try superuser.rows(ending)
        #expect(try eventually(within: 180) { try relay.get("/readyz").status == 503 })
        // Connections can be opened by the new url, and yet the configuration cannot be prepared.
        try superuser.rows("ALTER TABLE source_names RENAME TO kept_away")
        try relay.directory.write("database-url", url("second-password") + "\n")
        let refused = try relay.reload()
        #expect(refused.contains("cannot be used; the previous one stays in effect"), "\(refused)")
        try superuser.rows("ALTER TABLE kept_away RENAME TO source_names")
        try superuser.rows("ALTER ROLE with_password PASSWORD 'first-password'")
        #expect(try eventually(within: 180) { try relay.get("/readyz").status == 200 })
        try relay.directory.write("database-url", url("first-password") + "\n")
        #expect(try relay.reload().contains("nothing differs from the one before"))
        try superuser.rows(ending)
        #expect(
            try eventually(within: 180) {
                try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200
            })
    }

    @Test("A url that takes no changes, or whose role lacks a privilege, is refused; webhooks go where they went")
    func unfit() throws {
        let cluster = try TestCluster(durable: true)
        let superuser = Database(connectionString: try cluster.createDatabase())
        let relay = try Relay.running([], storage: .given(superuser.connectionString))
        defer { relay.end() }
        try superuser.rows(
            """
            CREATE ROLE lesser LOGIN;
            GRANT USAGE, CREATE ON SCHEMA public TO lesser;
            GRANT SELECT ON ALL TABLES IN SCHEMA public TO lesser
            """)
        // As a standby is.
        let readOnly = superuser.connectionString + " options='-c default_transaction_read_only=on'"
        try relay.directory.write("database-url", readOnly + "\n")
        let refused = try relay.reload()
        #expect(refused.contains("takes no changes"), "\(refused)")
        let lesser = superuser.connectionString.replacing(/user=\w+/, with: "user=lesser")
        try relay.directory.write("database-url", lesser + "\n")
        let refusedRole = try relay.reload()
        #expect(refusedRole.contains("lacks the privilege"), "\(refusedRole)")
        try superuser.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        #expect(
            try eventually(within: 180) {
                try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200
            })
    }

    @Test("A url of another database is refused, whether or not it holds a ledger; webhooks go where they went")
    func otherLedger() throws {
        let relay = try Relay.running([])
        defer { relay.end() }
        let other = try Relay.running([], storage: .fresh)
        let otherURL = try other.database.connectionString
        #expect(other.stop() == .exited(0))
        defer { other.end() }
        let empty = otherURL.replacing(/dbname=\w+/, with: "dbname=postgres")
        for url in [otherURL, empty] {
            try relay.directory.write("database-url", url + "\n")
            let refused = try relay.reload()
            #expect(refused.contains("it leads to another ledger, which takes a restart"), "\(refused)")
        }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try relay.database.count("events") == 1)
        #expect(try other.database.count("events") == 0)
    }

    @Test("A server without fsync is refused unless it is declared durable, which each start says in the journal")
    func declaredDurability() throws {
        let url = try TestCluster.shared.createDatabase()
        let refused = try Relay([], storage: .given(url))
        defer { refused.end() }
        let child = try refused.launch()
        #expect(child.waitForEnd(180) != nil)
        #expect(refused.lines.contains { $0.contains("fsync = off") && $0.contains("durability") })

        let relay = try Relay([], storage: .given(url), databaseSettings: ["durability": "\"declared\""])
        defer { relay.end() }
        for _ in 1...2 {
            try relay.restart()
            #expect(relay.waitForLine("is declared, not checked") != nil)
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        }
        #expect(try relay.command("migrate", "--config", relay.configuration).end == .exited(0))
    }
}
