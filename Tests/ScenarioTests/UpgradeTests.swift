import Foundation
import TestSupport
import Testing
import Vocabulary

/// Ledgers that older versions filled, under this one. Those in Tests/Ledgers are named by their schema; `fill` made
/// each by the binary of a version that has it.
@Suite(.timeLimit(.minutes(30))) struct UpgradeTests {
    private static let directory = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Ledgers")
    static let ledgers = ["schema-1.sql", "schema-4.sql"]
    /// Binaries of older versions, which no checkout has: POSTHOUSE_OLDER_BINARIES names them, separated by colons.
    /// Each writes its ledger into Tests/Ledgers, and then works beside this version.
    static let older = (ProcessInfo.processInfo.environment["POSTHOUSE_OLDER_BINARIES"] ?? "").split(separator: ":")
        .map(String.init)

    private static let settled = [
        Webhook("ACTIVATE", .user("ann"), purchase: "subs_1"),
        Webhook("RENEWAL_DISABLED", .user("ann"), purchase: "subs_1", at: Webhook.epoch + 1_000),
        Webhook("ACTIVATE", .anonymous("a2"), purchase: "subs_2"),
        Webhook("DEACTIVATE", .anonymous("a2"), purchase: "subs_2", at: Webhook.epoch + 9_000),
        Webhook("ACTIVATE", .user("bob"), purchase: "subs_2", at: Webhook.epoch + 9_000),
        Webhook("ACTIVATE", .anonymous("a3"), purchase: "subs_3"),
        Webhook("ACTIVATE", .user("cleo"), purchase: "otp_4"),
    ]
    /// One after another: the first fails, and those behind it are blocked.
    private static let waiting = (0..<3).map {
        Webhook("SUBSCRIPTION_RENEWED", .user("dora"), purchase: "subs_5", at: Webhook.epoch + Int64($0) * 1_000)
    }
    /// What `settled` comes to: each webhook, and the transfer to bob.
    private static let settledMessages = settled.count + 2

    /// Moves all times, so that the ledger is as old as if it had just been dumped: what is old is pruned.
    private static let makeRecent = """
        DO $$ DECLARE c record; age interval := (SELECT now() - max(received_at) FROM events); BEGIN
            FOR c IN SELECT table_name t, column_name n FROM information_schema.columns
                JOIN pg_class ON relname = table_name AND NOT relispartition
                WHERE table_schema = 'public' AND data_type = 'timestamp with time zone'
            LOOP EXECUTE format('UPDATE %I SET %I = %I + $1', c.t, c.n, c.n) USING age; END LOOP;
        END $$
        """

    private static func integrations(_ backend: Receiver, _ doomed: Receiver) -> [Relay.Integration] {
        [
            .init("backend", backend, ["schedule": #"["1h", "1h"]"#, "jitter": "0"]),
            .init("doomed", doomed, ["events": #"["RENEWAL_DISABLED"]"#, "permanent": "[400]"]),
        ]
    }

    @Test(
        "A ledger of an older schema is served: row for row, known, delivered once, and its state goes on",
        arguments: ledgers + older)
    func served(_ ledger: String) throws {
        let file = ledger.hasSuffix(".sql") ? ledger : try fill(by: ledger)
        if file != ledger { try beside(ledger) }
        let (backend, doomed) = (try Receiver(), try Receiver())
        let relay = try Relay(Self.integrations(backend, doomed), storage: .fresh)
        defer { relay.end() }
        let database = try relay.database
        let path = Self.directory.appending(path: file).path
        let loaded = try ChildProcess(
            ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database.connectionString, "-f", path])
        #expect(loaded.waitForEnd(180) == .exited(0), "\(loaded.errors)")
        try database.rows(Self.makeRecent)
        let columns = try Figures.columns(database)
        let before = try Figures(database, columns: columns).tables
        #expect(before.count > 10)
        try relay.start()
        let migrated = try Figures(database, columns: columns).tables
        #expect(migrated == before)
        #expect(
            try database.access() == [
                "subs_1": ["user:ann": true], "subs_2": ["user:bob": true, "anon:a2": false],
                "subs_3": ["anon:a3": true], "otp_4": ["user:cleo": true],
            ])
        for webhook in Self.settled + Self.waiting { #expect(try relay.source().post(webhook) == 200) }
        let after = try Figures(database, columns: columns).tables
        #expect(after == before, "each is a duplicate")
        let repaired = try relay.json("repair", "--all", "--dry-run")
        #expect(repaired["checked"] as? Int == 5 && repaired["repaired"] as? Int == 0, "\(repaired)")
        let answer = try relay.ask("GET", "/v1/entitlements?user_id=bob").text
        #expect(answer.contains("\"active\":true"), "\(answer)")

        // What waited, in its order; what was half known; what was dead; what could not be read.
        try database.rows("UPDATE deliveries SET due_at = now()")
        #expect(backend.waitForAccepted(3, 180))
        #expect(
            backend.accepted.map { $0.json["timestamp"] as? String }
                == Self.waiting.map { Timestamp(milliseconds: $0.at).iso8601 })
        let login = Webhook("ACTIVATE", .user("emma"), purchase: "subs_3", at: Webhook.epoch + 9_000)
        #expect(try relay.source().post(login) == 200)
        #expect(backend.waitForAccepted(6, 180))
        #expect(
            backend.accepted.suffix(3).map(\.type).sorted() == [
                "ACTIVATE", "SUBSCRIPTION_RECEIVED", "SUBSCRIPTION_TRANSFERRED",
            ])
        #expect(try relay.json("replay", "--outcome", "dead")["queued"] as? Int == 1)
        #expect(doomed.waitForAccepted(1, 180))
        #expect(try database.drained())
        #expect(Set(backend.accepted.map(\.id)).count == 6 && backend.accepted.count == 6)
        #expect(try database.count("quarantine") == 1)
    }

    /// Under load, both at work, and then without the older one: nothing is lost, doubled or misread.
    private func beside(_ binary: String) throws {
        let (first, second) = (try Receiver(), try Receiver())
        let integrations: [Relay.Integration] = [.init("first", first), .init("second", second)]
        let old = try Relay(integrations, storage: .fresh, journal: "")
        defer { old.end() }
        try old.start(binary: binary)
        let new = try Relay(integrations, storage: .given(try old.database.connectionString))
        defer { new.end() }
        let alone = FaultLoad("old", on: [old.port])
        #expect(alone.waitForProgress(200))
        try new.start()
        let both = FaultLoad("both", on: [old.port, new.port])
        #expect(both.waitForProgress(300))
        // The older one goes, and comes again no more: the schema is newer now.
        let tallies = [alone.finish(), both.finish()]
        #expect(old.stop(within: 60) == .exited(0))
        let after = FaultLoad("new", on: [new.port])
        #expect(after.waitForProgress(200))
        let database = try old.database
        for tally in tallies + [after.finish()] {
            let load = try #require(tally)
            #expect(try database.drained())
            #expect(try database.notOnce(load) == [] && database.wrongHolders(load) == [])
            for receiver in [first, second] {
                let receipts = FaultReceipts(receiver)
                #expect(receipts.missing(of: load) == [] && receipts.misannounced(of: load) == [])
                #expect(receipts.outOfOrder(of: load) == [] && receipts.duplicates(of: load) == 0)
            }
        }
        #expect(try database.count("quarantine") == 0)
        let repaired = try new.json("repair", "--all", "--dry-run")
        #expect(repaired["repaired"] as? Int == 0, "\(repaired)")
    }

    /// Fills a ledger, and writes its dump; the name of that file.
    private func fill(by binary: String) throws -> String {
        let isDown = Monitor(false)
        let (backend, doomed) = (
            try Receiver { _ in isDown.current ? .status(500) : .ok }, try Receiver { _ in .status(400) }
        )
        let relay = try Relay(Self.integrations(backend, doomed), storage: .fresh, journal: "")
        defer { relay.end() }
        try relay.start(binary: binary)
        for webhook in Self.settled { #expect(try relay.source().post(webhook) == 200) }
        #expect(try relay.source().post(Array("{}".utf8)) == 200)
        #expect(backend.waitForAccepted(Self.settledMessages, 180))
        let database = try relay.database
        #expect(try database.drained())
        isDown.change { $0 = true }
        for webhook in Self.waiting { #expect(try relay.source().post(webhook) == 200) }
        #expect(try eventually { try database.count("attempts", where: "http_status = 500") == 1 })
        #expect(relay.stop(within: 60) == .exited(0))
        let schema = try database.value("SELECT max(version) FROM schema_migrations")
        let file = "schema-\(schema).sql"
        let dumped = try ChildProcess(["pg_dump", "--no-owner", "--no-comments", database.connectionString])
        #expect(dumped.waitForEnd(180) == .exited(0), "\(dumped.errors)")
        // An older psql does not know \restrict.
        let lines = dumped.output.filter { !$0.isEmpty && !$0.contains("restrict ") && !$0.hasPrefix("--") }
        try lines.joined(separator: "\n").appending("\n").write(
            to: Self.directory.appending(path: file), atomically: true, encoding: .utf8)
        return file
    }
}
