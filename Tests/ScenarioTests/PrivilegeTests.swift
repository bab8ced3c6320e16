import Foundation
import TestSupport
import Testing
import Vocabulary

/// The least privileges in the database: deploy/least-privileges.sql, run as it is there. Oracle: PostgreSQL.
@Suite struct PrivilegeTests {
    private static let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "deploy/least-privileges.sql").path

    private func takePrivileges(_ superuser: Database, _ variables: [String: String] = [:]) throws {
        let child = try ChildProcess(
            [TestCluster.psql, "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-d", superuser.connectionString]
                + variables.flatMap { ["-v", "\($0.key)=\($0.value)"] } + ["-f", Self.file])
        #expect(child.waitForEnd(180) == .exited(0), "\(child.errors)")
        // A warning would make an operator look for a mistake.
        #expect(child.errors == [], "\(child.errors)")
    }

    @Test(
        "The daemon's role serves, delivers and keeps up without owning the schema, and cannot change or drop a table")
    func leastRole() throws {
        // Roles are the cluster's: one of this test's own.
        let cluster = try TestCluster(durable: true)
        let superuser = Database(connectionString: try cluster.createDatabase())
        try superuser.rows("CREATE ROLE posthouse LOGIN")
        try superuser.rows(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO posthouse', current_database()); END $$")
        let url = superuser.connectionString.replacing(/user=\w+/, with: "user=posthouse")
        let database = Database(connectionString: url)
        let receiver = try Receiver()
        let relay = try Relay([.init("backend", receiver)], storage: .given(url))
        defer { relay.end() }
        let c = relay.configuration
        #expect(try relay.command("migrate", "--config", c).end == .exited(0))
        try database.rows(
            "CREATE TABLE attempts_20200101 PARTITION OF attempts FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')")
        // An app's.
        try superuser.rows(
            """
            CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app; SET ROLE app;
            CREATE TABLE users (id bigserial PRIMARY KEY);
            CREATE TABLE measurements (at timestamptz NOT NULL) PARTITION BY RANGE (at);
            CREATE TABLE measurements_old PARTITION OF measurements DEFAULT
            """)
        // As often as one likes.
        for _ in 1...2 { try takePrivileges(superuser) }
        #expect(
            try superuser.rows(
                """
                SELECT DISTINCT pg_get_userbyid(relowner), relname ~ '^(attempts|events|messages)(_|$)' FROM pg_class
                WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'S') ORDER BY 1
                """) == [["app", "f"], ["posthouse", "t"], ["posthouse_owner", "f"]])

        try relay.start()
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try relay.source().post(Array("{}".utf8)) == 200)
        #expect(receiver.waitForAccepted(1))
        #expect(try eventually { try database.count("attempts") == 1 })
        // Upkeep: the partitions of the coming days were made at the start, old days go.
        let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'attempts'::regclass"
        #expect(try Int(database.value(partitions)) ?? 0 >= 6)
        try database.rows("DROP TABLE attempts_20200101")
        // What commands do.
        #expect(try relay.command("migrate", "--config", c).end == .exited(0))
        #expect(try relay.command("replay", "--outcome", "delivered", "--config", c).end == .exited(0))
        #expect(receiver.waitForAccepted(2))
        #expect(try relay.command("pause", "backend", "--config", c).end == .exited(0))
        #expect(try relay.command("status", "--config", c).output.contains("paused"))
        #expect(try relay.json("quarantine", "discard", "--all")["discarded"].map { ($0 as? [Int])?.count } == 1)
        #expect(try relay.command("erase", "--user", "u", "--config", c).output.contains("nothing is left"))
        #expect(!relay.lines.contains { $0.contains("permission denied") || $0.contains("must be owner") })
        #expect(try !relay.command("doctor", "--json", "--config", c).output.contains("measurements"))
        // What nobody does by its role.
        for statement in [
            "SELECT FROM users", "SELECT FROM measurements", "SELECT nextval('users_id_seq')",
            "DROP TABLE purchases", "TRUNCATE identities", "ALTER TABLE deliveries ADD COLUMN x int",
            "UPDATE schema_migrations SET version = 9", "CREATE ROLE x", "SET ROLE posthouse_owner",
        ] {
            #expect(throws: (any Error).self, "\(statement)") { try database.rows(statement) }
        }
        // A later version's migration, as the file says.
        #expect(relay.stop() == .exited(0))
        try superuser.rows("GRANT posthouse_owner TO posthouse")
        try database.rows("ALTER TABLE events ADD COLUMN x int; ALTER TABLE attempts ADD COLUMN x int")
        // As if it were new.
        try database.rows("ALTER TABLE moves OWNER TO posthouse")
        try takePrivileges(superuser)
        #expect(throws: (any Error).self) { try database.rows("DROP TABLE moves") }
        try relay.start()
    }

    @Test("A second ledger of the same role in the same database stays as it is; both take webhooks and can be dumped")
    func twoLedgers() throws {
        let cluster = try TestCluster(durable: true)
        let superuser = Database(connectionString: try cluster.createDatabase())
        try superuser.rows("CREATE ROLE posthouse LOGIN")
        try superuser.rows(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO posthouse', current_database()); END $$")
        let url = superuser.connectionString.replacing(/user=\w+/, with: "user=posthouse")
        let relays = try ["one", "two"].map { schema in
            try Relay([], storage: .given(url), databaseSettings: ["schema": "\"\(schema)\""])
        }
        defer { for relay in relays { relay.end() } }
        for relay in relays {
            #expect(try relay.command("migrate", "--config", relay.configuration).end == .exited(0))
        }
        for _ in 1...2 { try takePrivileges(superuser, ["schema": "one"]) }
        #expect(
            try superuser.rows(
                """
                SELECT DISTINCT n.nspname, pg_get_userbyid(relowner), relname ~ '^(attempts|events|messages)(_|$)'
                FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
                WHERE n.nspname IN ('one', 'two') AND relkind IN ('r', 'p', 'S') ORDER BY 1, 2, 3
                """) == [
                    ["one", "posthouse", "t"], ["one", "posthouse_owner", "f"], ["two", "posthouse", "f"],
                    ["two", "posthouse", "t"],
                ])
        for relay in relays {
            try relay.start()
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        }
        // The role may back up both.
        let dump = try ChildProcess(["pg_dump", "-Fc", "-f", relays[0].directory.path + "/dump", url])
        #expect(dump.waitForEnd(180) == .exited(0), "\(dump.errors)")
    }

    @Test("A role that owns one schema serves from it beside an app's tables of the same names, which stay as they are")
    func ownSchema() throws {
        let cluster = try TestCluster(durable: true)
        // No superuser, as on a managed PostgreSQL.
        try cluster.psql("CREATE ROLE administrator LOGIN CREATEROLE")
        let url = try cluster.createDatabase()
        let superuser = Database(connectionString: url)
        try superuser.rows(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO administrator', current_database()); END $$")
        let administrator = Database(connectionString: url.replacing(/user=\w+/, with: "user=administrator"))
        // An app's, as Rails makes them.
        try administrator.rows(
            """
            CREATE TABLE schema_migrations (version varchar PRIMARY KEY);
            CREATE TABLE events (id bigserial PRIMARY KEY, name text);
            CREATE TABLE messages (id bigserial PRIMARY KEY, event bigint);
            CREATE TABLE purchases (id bigserial PRIMARY KEY);
            CREATE TABLE users (id bigserial PRIMARY KEY);
            INSERT INTO events (name) VALUES ('of the app')
            """)
        let variables = ["role": "app_posthouse", "owned_schema": "posthouse"]
        // As often as one likes.
        for _ in 1...2 { try takePrivileges(administrator, variables) }

        let ownURL = url.replacing(/user=\w+/, with: "user=app_posthouse")
        let receiver = try Receiver()
        let relay = try Relay(
            [.init("backend", receiver)], storage: .given(ownURL), databaseSettings: ["schema": "\"posthouse\""])
        defer { relay.end() }
        let c = relay.configuration
        try relay.start()
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.waitForAccepted(1))
        let ledger = Database(connectionString: ownURL + " options='-c search_path=posthouse'")
        #expect(try eventually { try ledger.count("attempts") == 1 })
        #expect(try ledger.count("events") == 1)
        // What commands do.
        #expect(try relay.command("migrate", "--config", c).end == .exited(0))
        #expect(try relay.command("status", "--config", c).end == .exited(0))
        #expect(try relay.command("replay", "--outcome", "delivered", "--config", c).end == .exited(0))
        #expect(receiver.waitForAccepted(2))
        #expect(try relay.command("doctor", "--json", "--config", c).output.contains("in the schema posthouse"))
        #expect(try relay.command("erase", "--user", "u", "--config", c).output.contains("nothing is left"))
        #expect(!relay.lines.contains { $0.contains("permission denied") || $0.contains("must be owner") })
        // Started again it finds what is there.
        try relay.restart()
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("v"), purchase: "subs_2")) == 200)
        #expect(receiver.waitForAccepted(3))
        // Nothing of it is in public, and the role could not have made it there.
        #expect(try administrator.rows("SELECT name FROM events") == [["of the app"]])
        #expect(
            try superuser.rows(
                "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')")
                == [["5"]])
        #expect(throws: (any Error).self) { try ledger.rows("CREATE TABLE public.x ()") }
        #expect(throws: (any Error).self) { try ledger.rows("CREATE SCHEMA another") }
        // A schema that it may not look into is not taken for one without a ledger.
        #expect(relay.stop() == .exited(0))
        try superuser.rows("REVOKE USAGE ON SCHEMA posthouse FROM app_posthouse")
        let refused = try relay.launch()
        #expect(refused.waitForEnd(180) != nil)
        #expect(
            refused.errors.contains { $0.contains("the role app_posthouse may not use the schema \"posthouse\"") },
            "\(refused.errors)")
    }
}
