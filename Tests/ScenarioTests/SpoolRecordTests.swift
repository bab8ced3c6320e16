import Foundation
import TestSupport
import Testing

/// `posthouse spool record` where no daemon runs and secrets are credentials. Oracle: the files on the disk, and the
/// ledger.
@Suite(.timeLimit(.minutes(30))) struct SpoolRecordTests {
    private static func configure(_ relay: Relay, _ sources: [Relay.SourceTable]) throws {
        let settings = "[spool]\ndirectory = \"\(relay.directory.path)/spool\""
        try relay.configure([], sources: sources, settings: settings)
    }

    /// Kills a daemon that has two webhooks of Apphud in its spool.
    private static func leaveTwo(in relay: Relay, _ cluster: TestCluster) throws {
        try configure(relay, [.init(name: "apphud")])
        try SpoolTests.start(relay)
        try cluster.stop()
        for (_, body) in SpoolLoad.webhooks(1) { #expect(try relay.post("apphud", SpoolLoad.header, body) == 200) }
        relay.kill()
        try cluster.start()
        #expect(SpoolTests.waiting(relay) == 2)
    }

    @Test("With the url's credential alone it records; what it lacks itself is refused, and everything stays")
    func credentials() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try SpoolTests.relay(cluster, try Receiver())
        defer { relay.end() }
        let directory = relay.directory
        try Self.leaveTwo(in: relay, cluster)

        let credentials = directory.path + "/credentials"
        try FileManager.default.createDirectory(atPath: credentials, withIntermediateDirectories: false)
        func record() throws -> (end: ChildProcess.End?, errors: String) {
            let (child, end) = try Relay.run(
                ["spool", "record", "--config", relay.configuration],
                environment: ["CREDENTIALS_DIRECTORY": credentials])
            return (end, child.errors.joined(separator: "\n"))
        }
        func expectRefusal(of secret: String) throws {
            let refused = try record()
            #expect(refused.end == .exited(78), "\(refused)")
            #expect(refused.errors.contains("the secret of \(secret) cannot be read here"), "\(refused)")
            let line =
                "systemd-run -Pq --collect -p User=posthouse -p StateDirectory=posthouse -p StateDirectoryMode=0700 "
                + "-p LoadCredential=NAME:/etc/posthouse/credentials/NAME posthouse spool record --config "
            #expect(refused.errors.contains(line + relay.configuration), "\(refused)")
            #expect(SpoolTests.waiting(relay) == 2)
        }
        try relay.nameCredentials()
        try expectRefusal(of: "[database] url")
        try directory.write(
            "credentials/database-url", try String(contentsOfFile: directory.path + "/database-url", encoding: .utf8))
        // Its webhooks would have to be asked about.
        try Self.configure(relay, [Self.googlePlay("apphud")])
        try relay.nameCredentials()
        try expectRefusal(of: "api of source apphud")
        #expect(try relay.database.count("events") == 0 && relay.database.count("quarantine") == 0)

        try Self.configure(relay, [.init(name: "apphud")])
        try relay.nameCredentials()
        let recorded = try record()
        #expect(recorded.end == .exited(0), "\(recorded)")
        #expect(SpoolTests.waiting(relay) == 0)
        #expect(try relay.database.count("events") == 2)
    }

    @Test("A Google Play webhook in a running daemon's folder does not keep it from recording what a dead one has left")
    func besideRunningDaemon() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try SpoolTests.relay(cluster, try Receiver())
        defer { relay.end() }
        let directory = relay.directory
        try Self.leaveTwo(in: relay, cluster)

        // A running daemon is who has the lock of its folder.
        let folder = directory.path + "/spool/00000000000000aa"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        try Data("{}".utf8).write(to: URL(fileURLWithPath: folder + "/0000000000000001.play"))
        let lock = open(folder + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        try #require(lock >= 0)
        defer { close(lock) }
        let isLocked = flock(lock, LOCK_EX | LOCK_NB) == 0
        try #require(isLocked)
        let credentials = directory.path + "/credentials"
        try FileManager.default.createDirectory(atPath: credentials, withIntermediateDirectories: false)
        try Self.configure(relay, [.init(name: "apphud"), Self.googlePlay("play")])
        let (child, end) = try Relay.run(
            ["spool", "record", "--config", relay.configuration], environment: ["CREDENTIALS_DIRECTORY": credentials])
        #expect(end == .exited(0), "\(child.errors)")
        #expect(child.errors.contains { $0.contains("1 wait in folders of running daemons") }, "\(child.errors)")
        #expect(SpoolTests.waiting(relay) == 0)
        #expect(try relay.database.count("events") == 2)
        #expect(FileManager.default.fileExists(atPath: folder + "/0000000000000001.play"))
    }

    @Test("While webhooks wait in a spool of an earlier start it exits 1, and the list has it as JSON, too")
    func formerSpool() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try SpoolTests.relay(cluster, try Receiver())
        defer { relay.end() }
        try Self.leaveTwo(in: relay, cluster)
        let settings = "[spool]\ndirectory = \"\(relay.directory.path)/elsewhere\""
        try relay.configure([], sources: [.init(name: "apphud")], settings: settings)
        let environment = ["STATE_DIRECTORY": relay.directory.path]
        let (child, end) = try Relay.run(
            ["spool", "record", "--config", relay.configuration], environment: environment)
        #expect(end == .exited(1), "\(child.errors)")
        let (list, _) = try Relay.run(
            ["spool", "list", "--json", "--config", relay.configuration], environment: environment)
        let json = try JSONSerialization.jsonObject(with: Data(list.output.joined(separator: "\n").utf8))
        let former = (json as? [String: Any])?["former_spools"] as? [[String: Any]]
        #expect(former?.first?["webhooks"] as? Int == 2, "\(list.output)")
        #expect(SpoolTests.waiting(relay) == 2)
    }

    @Test("Into a database that may forget what it commits nothing is recorded, and every file stays")
    func unsafeServer() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try SpoolTests.relay(cluster, try Receiver())
        defer { relay.end() }
        try Self.leaveTwo(in: relay, cluster)
        func alter(_ what: String) throws {
            try relay.database.rows(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I \(what)', current_database()); END $$")
        }
        try alter("SET synchronous_commit = off")
        let refused = try relay.command("spool", "record", "--config", relay.configuration)
        #expect(refused.end == .exited(1), "\(refused)")
        #expect(refused.errors.contains("synchronous_commit = off"), "\(refused)")
        #expect(!refused.errors.contains("see that PostgreSQL runs"), "\(refused)")
        #expect(SpoolTests.waiting(relay) == 2)
        #expect(try relay.database.count("events") == 0 && relay.database.count("quarantine") == 0)

        try alter("RESET synchronous_commit")
        let recorded = try relay.command("spool", "record", "--config", relay.configuration)
        #expect(recorded.end == .exited(0), "\(recorded)")
        #expect(SpoolTests.waiting(relay) == 0)
        #expect(try relay.database.count("events") == 2)
    }

    /// A source of kind google-play whose `api` is the credential `play`.
    private static func googlePlay(_ name: String) -> Relay.SourceTable {
        .init(
            name: name, kind: "google-play", secrets: [],
            settings: [
                "packages": #"["com.example.app"]"#, "audience": #""https://example.com/ingest/play""#,
                "sender": #""push@p.iam.gserviceaccount.com""#, "api": #"{ credential = "play" }"#,
            ])
    }
}
