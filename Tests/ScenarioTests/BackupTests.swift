import Foundation
import TestSupport
import Testing
import Vocabulary

/// What a backup holds (posthouse-operate(7), "Backup"), served again. Oracle: each row by psql, the API, the receiver.
@Suite(.timeLimit(.minutes(30))) struct BackupTests {
    private static let questions = [
        "/v1/entitlements?user_id=ann", "/v1/entitlements?user_id=bob", "/v1/transfers?user_id=bob",
        "/v1/history?anonymous_user_id=a1",
    ]

    @Test("A dump and a copy: row for row, known webhooks known, what came since comes again under the same ids")
    func served() throws {
        let isDown = Monitor(false)
        let backend = try Receiver { _ in isDown.current ? .status(500) : .ok }
        let doomed = try Receiver { _ in .status(400) }
        let integrations: [Relay.Integration] = [
            .init("backend", backend, ["schedule": #"["1h", "1h"]"#, "jitter": "0"]),
            .init("doomed", doomed, ["events": #"["RENEWAL_DISABLED"]"#, "permanent": "[400]"]),
        ]
        let original = try Relay.running(integrations, storage: .privateCluster)
        defer { original.end() }
        let settled = [
            Webhook("ACTIVATE", .user("ann"), purchase: "subs_1"),
            Webhook("RENEWAL_DISABLED", .user("ann"), purchase: "subs_1", at: Webhook.epoch + 1_000),
            Webhook("ACTIVATE", .anonymous("a1"), purchase: "subs_2"),
            Webhook("ACTIVATE", .user("bob"), purchase: "subs_2", at: Webhook.epoch + 1_000),
        ]
        for webhook in settled { #expect(try original.source().post(webhook) == 200) }
        #expect(try original.source().post(Array("{}".utf8)) == 200)
        #expect(try original.database.drained())
        isDown.change { $0 = true }
        let waiting = (0..<3).map {
            Webhook("SUBSCRIPTION_RENEWED", .user("cleo"), purchase: "subs_3", at: Webhook.epoch + Int64($0) * 1_000)
        }
        for webhook in waiting { #expect(try original.source().post(webhook) == 200) }
        #expect(
            try eventually {
                try original.database.count("attempts", where: "http_status = 500") == 1
                    && original.database.count("deliveries", where: "leased_by IS NOT NULL") == 0
            })
        // Not the sequences: a daemon that starts takes numbers.
        let rows = try Figures(original.database).tables
        let answers = try Self.questions.map { try original.ask("GET", $0).text }
        let state = original.directory.path + "/state"
        try run(["pg_dump", "-Fc", "-f", original.directory.path + "/dump", original.database.connectionString])
        #expect(original.stop() == .exited(0))
        try run(["cp", "-a", state, state + ".backup"])

        // It goes on for a while, and is lost.
        let late = Webhook("DEACTIVATE", .user("bob"), purchase: "subs_2", at: Webhook.epoch + 9_000)
        let known = settled + waiting
        func goOn(_ relay: Relay) throws -> Set<String> {
            let before = backend.accepted.count
            isDown.change { $0 = false }
            #expect(try relay.source().post(late) == 200)
            try relay.database.rows("UPDATE deliveries SET due_at = now()")
            #expect(backend.waitForAccepted(before + waiting.count + 1, 180))
            #expect(try relay.database.drained())
            let since = backend.accepted.dropFirst(before).map(\.id)
            #expect(since.count == waiting.count + 1)
            isDown.change { $0 = true }
            return Set(since)
        }
        try original.start()
        let since = try goOn(original)
        #expect(original.stop() == .exited(0))
        try FileManager.default.removeItem(atPath: state)
        try FileManager.default.moveItem(atPath: state + ".backup", toPath: state)
        let other = try Relay(integrations, storage: .fresh)
        defer { other.end() }
        // All or nothing: one table is there already.
        let restoring = try Self.restoring(original.directory.path + "/dump", into: other.database)
        try other.database.rows("CREATE TABLE transfers ()")
        #expect(try ChildProcess(restoring).waitForEnd(180) == .exited(1))
        #expect(try other.database.count("pg_class", where: "relnamespace = 'public'::regnamespace") == 1)
        try other.database.rows("DROP TABLE transfers")
        try run(restoring)
        for restored in [original, other] {
            try restored.start()
            let found = try Figures(restored.database).tables
            #expect(found == rows)
            #expect(try Self.questions.map { try restored.ask("GET", $0).text } == answers)
            for webhook in known { #expect(try restored.source().post(webhook) == 200) }
            let after = try Figures(restored.database).tables
            #expect(after == rows, "each is a duplicate")
            #expect(try goOn(restored) == since)
            #expect(try restored.json("replay", "--outcome", "dead")["queued"] as? Int == 1)
        }
    }

    @Test("A copy of the private cluster is put back beside the spool: what was answered in between is recorded")
    func spooled() throws {
        let relay = try Relay([], storage: .privateCluster)
        defer { relay.end() }
        // Beside the private cluster, as by default for the service.
        let state = relay.directory.path + "/state"
        try relay.configure(
            [], sources: [.init(name: "apphud")], settings: "[spool]\ndirectory = \"\(state)/spool\"")
        try relay.start()
        let bodies = SpoolLoad.webhooks(1).map(\.body)
        #expect(try relay.post("apphud", SpoolLoad.header, bodies[0]) == 200)
        #expect(try eventually { try relay.database.count("events") == 1 })
        #expect(relay.stop() == .exited(0))
        try run(["cp", "-a", state, state + ".backup"])

        // Its disk is lost. What is answered now is in the spool alone.
        try relay.start()
        let file = try String(contentsOfFile: state + "/cluster/postmaster.pid", encoding: .utf8)
        let postmaster = try #require(file.split(separator: "\n").first.flatMap { pid_t($0) })
        try run(["mv", state + "/cluster", state + "/cluster.lost"])
        Foundation.kill(postmaster, SIGQUIT)
        #expect(relay.waitForLine("(process \(postmaster)) died") != nil)
        #expect(try relay.post("apphud", SpoolLoad.header, bodies[1]) == 200)
        #expect(relay.stop() == .exited(0))
        try run(["cp", "-a", state + ".backup/cluster", state + "/cluster"])
        try relay.start()
        #expect(try eventually { try relay.database.count("events") == 2 })
        #expect(try relay.database.count("transfers") == 1)
    }

    @Test(
        "People erased since the backup: nothing of theirs is sent, and what comes once all is paused has data.access",
        arguments: [false, true])
    func erasedAgain(isPrivate: Bool) throws {
        let backend = try Receiver { _ in .status(500) }
        let integrations: [Relay.Integration] = [
            .init("backend", backend, ["include": #"["access"]"#, "schedule": FaultTests.manyGaps])
        ]
        let relay = try Relay.running(integrations, storage: isPrivate ? .privateCluster : .shared)
        defer { relay.end() }
        func post(_ user: String, _ purchase: String) throws {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user(user), purchase: purchase)) == 200)
        }
        func command(_ words: String...) throws {
            let (child, end) = try Relay.run(words + ["--config", relay.configuration])
            #expect(end == .exited(0), "\(words): \(child.errors)")
        }
        func sent(_ user: String) -> [Received] { backend.received.filter { Self.names(user, $0) } }
        // What a restored ledger has: something of the person's waits.
        try post("user-ann", "subs_1")
        #expect(backend.wait { !$0.isEmpty })
        #expect(relay.stop() == .exited(0))
        let before = sent("user-ann").count
        backend.answer { _ in .ok }

        // As the manual says, "Backup".
        if isPrivate {
            try relay.configure([])
            try relay.start()
            try post("user-bob", "subs_2")
            try command("pause", "backend")
            try relay.configure(integrations)
            #expect(try relay.reload().contains("paused until posthouse resume: backend"))
        } else {
            try command("pause", "backend")
            try relay.start()
        }
        try post("user-cleo", "subs_3")
        try command("erase", "--user", "user-ann")
        #expect(backend.count == before, "nothing is sent before the erasure")
        try command("resume", "backend")
        #expect(backend.wait { $0.contains { Self.names("user-cleo", $0) } })
        #expect(try relay.database.drained())
        #expect(sent("user-cleo").allSatisfy { $0.data["access"] is [[String: Any]] })
        if isPrivate {
            #expect(sent("user-bob").isEmpty)
            try command("backfill", "backend", "--since", "1h")
            #expect(backend.wait { $0.contains { Self.names("user-bob", $0) } })
            #expect(sent("user-bob").allSatisfy { $0.data["access"] is NSNull })
        }
        #expect(try relay.database.drained())
        #expect(sent("user-ann").count == before)
    }

    private static func names(_ user: String, _ request: Received) -> Bool {
        request.body.firstRange(of: Array(user.utf8)) != nil
    }

    /// The manual's command, for another file and database.
    private static func restoring(_ dump: String, into database: Database) throws -> [String] {
        let lines = try ManualPage.operate.lines
        let line = try #require(lines.first { $0.contains("pg_restore ") })
        let words = line.split(separator: " ").map(String.init)
        let start = try #require(words.firstIndex(of: "pg_restore"))
        let end = try #require(words.firstIndex(of: "-d"))
        return Array(words[start..<end]) + ["-d", database.connectionString, dump]
    }

    private func run(_ command: [String]) throws {
        let child = try ChildProcess(command)
        #expect(child.waitForEnd(180) == .exited(0), "\(command): \(child.errors)")
    }
}
