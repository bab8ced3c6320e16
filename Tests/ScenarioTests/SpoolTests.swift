import Foundation
import TestSupport
import Testing
import Vocabulary

/// The spool with the real daemon, a real disk and PostgreSQL. Oracle: what the source was answered 200 for, against
/// what the ledger says, and the files on the disk.
@Suite(.serialized, .timeLimit(.minutes(30))) struct SpoolTests {
    static func relay(
        _ cluster: TestCluster, _ receiver: Receiver, databaseSettings: [String: String] = [:]
    ) throws -> Relay {
        try Relay(
            [.init("backend", receiver, ["schedule": FaultTests.manyGaps])], sources: [.init(name: "apphud")],
            storage: .given(try cluster.createDatabase()), databaseSettings: databaseSettings)
    }

    /// Files that wait, of all daemons.
    static func waiting(_ relay: Relay) -> Int {
        let root = relay.directory.path + "/spool"
        let folders = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        return folders.reduce(0) { sum, folder in
            let names = (try? FileManager.default.contentsOfDirectory(atPath: root + "/" + folder)) ?? []
            return sum + names.count { $0.hasSuffix(".apphud") }
        }
    }

    /// Starts it with its database: on a busy machine it serves from the spool before that is prepared.
    static func start(_ relay: Relay) throws {
        try relay.start()
        guard try eventually({ try relay.get("/readyz").text == "ready\n" }) else {
            throw HarnessFailure("the database was not prepared: \(relay.lines)")
        }
    }

    private func post(_ relay: Relay, _ number: Int) throws -> [Int] {
        try SpoolLoad.webhooks(number).map { try relay.post("apphud", SpoolLoad.header, $0.body) }
    }

    /// Everything that was answered 200 is in the ledger once, its transfers are right, and nothing is left.
    private func expectRecorded(
        _ relay: Relay, _ tally: SpoolLoad.Tally, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let isEmpty = eventually(within: 600) { Self.waiting(relay) == 0 }
        #expect(isEmpty, "\(relay.lines.suffix(20))", sourceLocation: sourceLocation)
        let database = try relay.database
        var counts: [String: Int] = [:]
        for row in try database.rows("SELECT vendor_event_id, count(*) FROM events GROUP BY 1") {
            counts[row[0]] = Int(row[1])
        }
        let wrong = tally.acknowledged.filter { counts[$0] != 1 }.sorted()
        #expect(wrong == [], "in the ledger another number of times than once", sourceLocation: sourceLocation)
        let transfers = try database.rows(
            "SELECT p.key, count(*) FROM transfers t JOIN purchases p ON p.id = t.purchase GROUP BY 1")
        let once = Set(transfers.filter { $0[1] == "1" }.map { $0[0] })
        #expect(tally.transferred.subtracting(once) == [], sourceLocation: sourceLocation)
        #expect(transfers.count == once.count, "no transfer twice", sourceLocation: sourceLocation)
        #expect(try database.drained(within: 600), sourceLocation: sourceLocation)
        #expect(try database.count("quarantine") == 0, sourceLocation: sourceLocation)
    }

    @Test("PostgreSQL away under load that never repeats, kill -9 meanwhile: each 200 is recorded, once")
    func databaseStopped() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver)
        defer { relay.end() }
        try Self.start(relay)
        let load = SpoolLoad(on: relay.port)
        #expect(load.waitForProgress(60))
        // On a busy machine it may stand still for the five seconds that a webhook waits for it.
        let isQuiet = Self.waiting(relay) == 0 || relay.waitForLine("does not answer in time", within: 60) != nil
        #expect(isQuiet, "the database answers: nothing is written to the disk")

        try cluster.stop(mode: "immediate")
        #expect(load.waitForProgress(150))
        #expect(try relay.get("/readyz").status == 200)
        #expect(relay.waitForLine("webhooks are kept in the spool") != nil)
        #expect(Self.waiting(relay) > 0)
        let page = try relay.get("/metrics").text
        #expect(page.contains("posthouse_spool_webhooks") && !page.contains("posthouse_spool_webhooks 0\n"), "\(page)")

        relay.kill()
        let left = Self.waiting(relay)
        // Without the database, the next daemon serves all the same.
        try relay.start()
        #expect(relay.waitForLine("without the database") != nil)
        #expect(relay.waitForLine("\(left) webhook", "of an earlier daemon") != nil)
        #expect(load.waitForProgress(100))
        relay.kill()
        try relay.start()
        #expect(load.waitForProgress(20))

        try cluster.start()
        #expect(relay.waitForLine("ready on", within: 180) != nil)
        #expect(load.waitForProgress(60))
        let tally = try #require(load.finish())
        // On a busy machine a write to the disk may take longer than a webhook has.
        #expect(Set(tally.refusals.keys).isSubset(of: [503]) && tally.refusals[503] ?? 0 < 20, "\(tally.refusals)")
        try expectRecorded(relay, tally)
        #expect(relay.waitForLine("the spool is empty again") != nil)
        #expect(try eventually { try relay.get("/metrics").text.contains("posthouse_spool_webhooks 0\n") })
        #expect(tally.unanswered > 0, "no kill met a request: the scenario has shown nothing")
    }

    /// The relay runs once before, so that nothing but its registration is left to be written.
    private func prepare(_ relay: Relay, andHoldCommitsOf cluster: TestCluster) throws {
        try Self.start(relay)
        #expect(relay.stop() == .exited(0))
        try cluster.holdCommits()
    }

    @Test("Started while PostgreSQL answers and commits nothing: it serves from the spool, until that is over")
    func startedWhileNothingIsCommitted() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver, databaseSettings: ["statement_timeout": "\"6s\""])
        defer { relay.end() }
        try prepare(relay, andHoldCommitsOf: cluster)
        try relay.start()
        let process = relay.processIdentifier
        #expect(relay.waitForLine("out of reach", "whether the transaction was committed") != nil)
        #expect(relay.waitForLine("without the database") != nil)
        let load = SpoolLoad(on: relay.port)
        // The next attempt waits for what the first one left behind, and is refused for that.
        #expect(relay.waitForLine("still out of reach") != nil)
        #expect(load.waitForProgress(60))
        #expect(Self.waiting(relay) > 0)

        try cluster.releaseCommits()
        #expect(relay.waitForLine("ready on") != nil)
        #expect(load.waitForProgress(40))
        let tally = try #require(load.finish())
        #expect(Set(tally.refusals.keys).isSubset(of: [503]) && tally.refusals[503] ?? 0 < 20, "\(tally.refusals)")
        #expect(tally.unanswered == 0)
        try expectRecorded(relay, tally)
        #expect(relay.processIdentifier == process && process != nil, "the same daemon, without a restart")
    }

    @Test(
        "Started while others keep the schema from being changed: it serves from the spool, until they have ended",
        arguments: [
            // A backup's lock, which the migration does not wait behind.
            ("SELECT FROM messages", "the new version's tables are not made yet"),
            // A lock that the start waits behind, as behind another daemon's migration.
            ("LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE", "the database is not prepared after"),
        ])
    func startedWhileTheSchemaIsHeld(statement: String, reason: String) throws {
        let cluster = try TestCluster(durable: true)
        let relay = try Self.relay(cluster, try Receiver())
        defer { relay.end() }
        #expect(try relay.command("migrate", "--config", relay.configuration).end == .exited(0))
        let database = try relay.database
        // As version 16 left it: `messages` is still to be changed.
        try database.rows(
            """
            ALTER TABLE messages DROP COLUMN access; DROP SEQUENCE access_versions;
            DELETE FROM schema_migrations WHERE version = 17
            """)
        let holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c",
            "BEGIN; \(statement); SELECT pg_sleep(6000)",
        ])
        defer { holder.signal(SIGKILL) }
        let holding =
            "FROM pg_stat_activity WHERE query LIKE '%pg_sleep(6000)' AND pid <> pg_backend_pid() "
            + "AND wait_event = 'PgSleep'"
        #expect(try eventually { try database.value("SELECT count(*) \(holding)") == "1" })

        try relay.start()
        let process = relay.processIdentifier
        #expect(relay.waitForLine("without the database") != nil)
        // A busy machine may take so long for the first that the second is said before it.
        #expect(relay.waitForLine(reason) != nil)
        #expect(try post(relay, 1) == [200, 200])
        #expect(Self.waiting(relay) == 2)
        #expect(!relay.lines.contains { $0.contains("ready on") })

        try database.rows("SELECT pg_terminate_backend(pid) \(holding)")
        #expect(relay.waitForLine("ready on") != nil)
        #expect(relay.processIdentifier == process && process != nil, "the same daemon, without a restart")
        #expect(eventually { Self.waiting(relay) == 0 })
        let counts = try database.rows("SELECT vendor_event_id, count(*) FROM events GROUP BY 1").map { $0[1] }
        #expect(counts == ["1", "1"])
    }

    @Test("A daemon that spools outlasts a primary that is back before its standby, and a standby that is back alone")
    func backButOfNoUse() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver, databaseSettings: ["statement_timeout": "\"6s\""])
        defer { relay.end() }
        try prepare(relay, andHoldCommitsOf: cluster)
        try cluster.stop()
        try relay.start()
        let process = relay.processIdentifier
        #expect(relay.waitForLine("without the database") != nil)
        #expect(try post(relay, 1) == [200, 200])
        try cluster.start()
        #expect(relay.waitForLine("still out of reach", "whether the transaction was committed") != nil)
        #expect(try post(relay, 2) == [200, 200])

        try cluster.stop()
        try cluster.becomeStandby()
        try cluster.start()
        #expect(relay.waitForLine("still out of reach", "takes no changes") != nil)
        #expect(try post(relay, 3) == [200, 200])
        #expect(Self.waiting(relay) == 6)

        try cluster.psql("SELECT pg_promote(true, 600)")
        try cluster.releaseCommits()
        #expect(relay.waitForLine("ready on") != nil)
        #expect(relay.processIdentifier == process && process != nil, "the same daemon, without a restart")
        #expect(eventually { Self.waiting(relay) == 0 })
        #expect(try relay.database.count("events") == 6)
    }

    @Test("Started while PostgreSQL was away, and refused once it is back: the journal says so, and what a reload does")
    func refusedOnceItIsBack() throws {
        let cluster = try TestCluster(durable: true)
        let superuser = Database(connectionString: try cluster.createDatabase())
        try superuser.rows("CREATE ROLE with_password LOGIN PASSWORD 'rotated'")
        let url =
            superuser.connectionString.replacing(/user=\w+/, with: "user=with_password") + " password=one-before"
        let api = try Socket.freePort()
        let relay = try Relay(
            [], sources: [.init(name: "apphud"), .init()], storage: .given(url),
            settings: "api_listen = \"127.0.0.1:\(api)\"")
        defer { relay.end() }
        try cluster.stop()
        try relay.start()
        #expect(relay.waitForLine("without the database") != nil)
        #expect(try post(relay, 1) == [200, 200])
        #expect(try relay.source().postOnce(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 503)
        #expect(relay.waitForLine("waits for its database") != nil)
        let path = "/v1/entitlements?user_id=u"
        let entitlements = try HTTPClient(port: api).request("GET", path)
        #expect(entitlements.status == 503 && entitlements.text.hasPrefix(#"{"error":"#), "\(entitlements.text)")
        #expect(try relay.get(path).status == 404)
        #expect(try relay.get("/nothing").status == 404)
        try cluster.start()
        #expect(relay.waitForLine("password authentication failed") != nil)
        #expect(Glibc.kill(try #require(relay.processIdentifier), SIGHUP) == 0)
        #expect(relay.waitForLine("is read again once this daemon has started", "restart it") != nil)
        #expect(!relay.lines.contains { $0.contains("one-before") })
        #expect(Self.waiting(relay) == 2)
    }

    @Test("PostgreSQL frozen: a webhook is spooled within its time, those behind it at once, and all are recorded")
    func databaseFrozen() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver)
        defer { relay.end() }
        try Self.start(relay)
        let load = SpoolLoad(on: relay.port)
        #expect(load.waitForProgress(40))
        let frozen = try FrozenCluster(cluster)
        #expect(load.waitForProgress(60))
        #expect(relay.waitForLine("the database does not answer in time") != nil)
        frozen.thaw()
        #expect(load.waitForProgress(40))
        let tally = try #require(load.finish())
        #expect(Set(tally.refusals.keys).isSubset(of: [503]) && tally.refusals[503] ?? 0 < 20, "\(tally.refusals)")
        #expect(tally.unanswered == 0)
        try expectRecorded(relay, tally)
    }

    @Test("A full spool answers 503, /readyz too, and what it holds is recorded")
    func full() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver)
        defer { relay.end() }
        try relay.configure(
            [.init("backend", receiver)], sources: [.init(name: "apphud")], settings: "[spool]\nmax = \"1MiB\"")
        try Self.start(relay)
        try cluster.stop()
        var taken: [String] = []
        var number = 0
        var refused = 0
        while refused == 0, number < 1_000 {
            number += 1
            for (id, body) in SpoolLoad.webhooks(number) {
                let status = try relay.postOnce("apphud", SpoolLoad.header, body)
                #expect([200, 503].contains(status))
                // Not for want of time, on a busy machine.
                if status == 200 { taken.append(id) } else if try relay.get("/readyz").status == 503 { refused += 1 }
            }
        }
        #expect(refused > 0 && taken.count > 100)
        #expect(try relay.get("/readyz").status == 503)
        #expect(relay.waitForLine("the spool takes no webhooks", "the spool is full") != nil)
        try cluster.start()
        #expect(eventually(within: 180) { Self.waiting(relay) == 0 })
        let ids = try Set(relay.database.rows("SELECT vendor_event_id FROM events").map { $0[0] })
        #expect(ids.isSuperset(of: taken))
        #expect(try eventually { try relay.get("/readyz").text == "ready\n" })
        #expect(try post(relay, 5_000) == [200, 200])
    }

    @Test("The commands say what waits, without the database, and record it where no daemon runs")
    func commands() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver)
        defer { relay.end() }
        let settings = "[spool]\ndirectory = \"\(relay.directory.path)/spool\""
        try relay.configure([.init("backend", receiver)], sources: [.init(name: "apphud")], settings: settings)
        try Self.start(relay)
        #expect(try relay.command("spool", "--config", relay.configuration).errors == "nothing waits in the spool")
        try cluster.stop()
        #expect(try post(relay, 1) == [200, 200])
        #expect(try relay.post("apphud", SpoolLoad.header, "{\"no\": \"event\"}") == 200)

        let list = try relay.json("spool", "list")
        let waiting = try #require(list["spool"] as? [[String: Any]])
        #expect(waiting.compactMap { $0["source"] as? String } == ["apphud", "apphud", "apphud"])
        let name = try #require(waiting.first?["file"] as? String)
        let shown = try relay.command("spool", "show", name, "--config", relay.configuration)
        #expect(shown.end == .exited(0) && shown.output == SpoolLoad.webhooks(1)[0].body)
        let outside = try relay.command("spool", "show", "../posthouse.toml", "--config", relay.configuration)
        #expect(outside.end == .exited(1))
        // The secret is nowhere in it.
        let folder = relay.directory.path + "/spool/" + (name.split(separator: "/").first.map(String.init) ?? "")
        let file = try String(contentsOfFile: relay.directory.path + "/spool/" + name, encoding: .utf8)
        #expect(!file.contains("source-secret") && !file.lowercased().contains("token"))

        relay.kill()
        try cluster.start()
        let recorded = try relay.command("spool", "record", "--config", relay.configuration)
        #expect(recorded.end == .exited(0), "\(recorded.errors)")
        let lines = recorded.output.split(separator: "\n")
        #expect(lines.count == 3 && lines.count { $0.contains(" recorded: ") } == 2, "\(recorded.output)")
        #expect(lines.last?.contains(" quarantined: ") == true, "\(recorded.output)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).sorted() == ["lock", "tmp"])
        #expect(try relay.database.count("events") == 2 && relay.database.count("quarantine") == 1)
    }

    @Test("What another user's folder hides is logged, and hides nothing else", .enabled(if: getuid() == 0))
    func ofAnotherUser() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try Self.relay(cluster, try Receiver())
        defer { relay.end() }
        let root = relay.directory.path + "/spool"
        let settings = "[spool]\ndirectory = \"\(root)\""
        try relay.configure([], sources: [.init(name: "apphud")], settings: settings)
        try Self.start(relay)
        try cluster.stop()
        #expect(try post(relay, 1) == [200, 200])
        relay.kill()
        // As root's `spool record` once left one.
        let hidden = root + "/" + String(repeating: "0", count: 16)
        #expect(mkdir(hidden, 0o700) == 0)
        let binary = relay.directory.path + "/posthouse"
        #expect(try ChildProcess(["cp", try Relay.binary.get(), binary]).waitForEnd(180) == .exited(0))
        for path in [relay.directory.path, relay.configuration] { #expect(chmod(path, 0o755) == 0) }
        #expect(try ChildProcess(["chown", "-R", "65534", root]).waitForEnd(180) == .exited(0))
        #expect(chown(hidden, 0, 0) == 0)
        let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", binary]
        let list = try ChildProcess(user + ["spool", "list", "--config", relay.configuration])
        #expect(list.waitForEnd(180) == .exited(0), "\(list.errors)")
        #expect(list.errors.contains { $0.contains("0000000000000000 cannot be read by this user") }, "\(list.errors)")
        #expect(list.output.count { $0.contains("apphud") } == 2, "\(list.output)")
        try cluster.start()
        // Root would make a folder there that the daemon's user cannot enter.
        let record = try relay.command("spool", "record", "--config", relay.configuration)
        #expect(record.end == .exited(1) && record.errors.contains("is of user nobody"), "\(record.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: root).count { $0 != "ledger" } == 2)
    }

    @Test("Webhooks of a source that is not configured wait, status says so, and they are recorded once it is back")
    func sourceGone() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver)
        defer { relay.end() }
        let settings = "[spool]\ndirectory = \"\(relay.directory.path)/spool\""
        let backend = Relay.Integration("backend", receiver)
        try relay.configure([backend], sources: [.init(name: "apphud")], settings: settings)
        try Self.start(relay)
        try cluster.stop()
        #expect(try post(relay, 1) == [200, 200])
        relay.kill()
        try relay.configure([backend], sources: [.init()], settings: settings)
        try cluster.start()
        try Self.start(relay)
        #expect(relay.waitForLine("2 webhooks of an earlier daemon") != nil)
        let status = try relay.json("status")
        let spool = try #require(status["spool"] as? [String: Any])
        #expect(spool["webhooks"] as? Int == 2)
        let others = try #require(spool["unconfigured"] as? [[String: Any]])
        #expect(others.first?["source"] as? String == "apphud" && others.first?["count"] as? Int == 2)
        let text = try relay.command("status", "--config", relay.configuration).output
        #expect(text.contains("2 webhooks wait in the spool of this machine"), "\(text)")
        #expect(text.contains("not in the"), "\(text)")
        #expect(try relay.database.count("events") == 0)

        try relay.configure([backend], sources: [.init(), .init(name: "apphud")], settings: settings)
        _ = try relay.reload()
        #expect(try eventually(within: 180) { try relay.database.count("events") == 2 })
        #expect(eventually { Self.waiting(relay) == 0 })
    }

    @Test("A damaged file is set aside and reported, and the others are recorded")
    func damaged() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver)
        defer { relay.end() }
        try Self.start(relay)
        try cluster.stop()
        #expect(try post(relay, 1) == [200, 200])
        relay.kill()
        let root = relay.directory.path + "/spool"
        let names = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        let first = try #require(names.filter { $0.hasSuffix(".apphud") }.sorted().first)
        var bytes = try Data(contentsOf: URL(fileURLWithPath: root + "/" + first))
        bytes[bytes.count / 2] ^= 4
        try bytes.write(to: URL(fileURLWithPath: root + "/" + first))
        try cluster.start()
        try relay.start()
        #expect(relay.waitForLine("cannot be read and is not recorded", "/damaged/") != nil)
        #expect(try eventually(within: 180) { try relay.database.count("events") == 1 })
        #expect(try FileManager.default.contentsOfDirectory(atPath: root + "/damaged").count == 1)
        #expect(try relay.get("/readyz").status == 200)
    }

    /// Oracle: the system calls of the daemon, in their order, as the kernel has them.
    @Test(
        "The answer goes out behind two fsyncs: of the file and of its folder",
        .enabled(if: mayTrace, "ptrace or strace(1) is not there: 1 test is left out"))
    func fsyncs() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver)
        defer { relay.end() }
        try Self.start(relay)
        try cluster.stop()
        // The pool finds out by the first webhook.
        #expect(try post(relay, 1) == [200, 200])
        let process = try #require(relay.processIdentifier)
        let log = relay.directory.path + "/strace"
        let strace = try ChildProcess([
            "strace", "-f", "-y", "-p", "\(process)", "-o", log, "-e",
            "trace=fsync,rename,renameat,renameat2,write,writev,sendto,sendmsg",
        ])
        defer { strace.signal(SIGTERM) }
        #expect(strace.waitForError(180) { $0.contains("attached") } != nil)
        #expect(try relay.post("apphud", SpoolLoad.header, SpoolLoad.webhooks(2)[0].body) == 200)
        strace.signal(SIGINT)
        _ = strace.waitForEnd(180)
        let calls = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n").map(String.init)
        let file = try #require(calls.firstIndex { $0.contains("fsync(") && $0.contains("/tmp/0") })
        let rename = try #require(calls.firstIndex { $0.contains("rename") && $0.contains(".apphud") })
        let folder = try #require(
            calls.firstIndex { $0.contains("fsync(") && $0.contains("/spool/") && !$0.contains("/tmp/0") })
        let answer = try #require(calls.firstIndex { $0.contains("HTTP/1.1 200") })
        #expect(
            Self.end(file, calls) < rename && Self.end(rename, calls) < folder && Self.end(folder, calls) < answer,
            "\(calls)")
    }

    /// The line of strace(1) at which a call is over: its own, unless other threads came between.
    private static func end(_ start: Int, _ calls: [String]) -> Int {
        guard calls[start].contains("<unfinished ...>") else { return start }
        let thread = calls[start].prefix { $0 != " " }
        return calls.indices.first { $0 > start && calls[$0].hasPrefix(thread + " ") && calls[$0].contains("resumed>") }
            ?? .max
    }

    /// Whether this process may trace another, tried on one of its own.
    private static let mayTrace: Bool = {
        guard let child = try? ChildProcess(["strace", "-o", "/dev/null", "true"]) else { return false }
        return child.waitForEnd(180) == .exited(0)
    }()
}
