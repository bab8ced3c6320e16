import Foundation
import TestSupport
import Testing
import Vocabulary

/// PgBouncer between the daemon and PostgreSQL. Oracle: its own setting, `pool_mode`.
@Suite struct PoolerTests {
    /// Runs PgBouncer before a database of a cluster of its own.
    private static func through(
        _ mode: String, settings: String = "", _ body: (_ url: String) throws -> Void
    ) throws {
        let cluster = try TestCluster(durable: true)
        let database = try cluster.createDatabase().split(separator: "dbname=").last ?? ""
        let directory = cluster.directory
        let file = directory + "/pgbouncer.ini"
        try """
        [databases]
        \(database) = host=\(directory) user=postgres dbname=\(database)
        [pgbouncer]
        listen_addr =
        unix_socket_dir = \(directory)
        listen_port = 6432
        auth_type = any
        pool_mode = \(mode)
        default_pool_size = 30
        \(settings)
        """.write(toFile: file, atomically: false, encoding: .utf8)
        let asOther = getuid() == 0 ? ["runuser", "-u", "postgres", "--"] : []
        let pooler = try ChildProcess(asOther + ["/usr/sbin/pgbouncer", file])
        defer {
            pooler.signal(SIGTERM)
            _ = pooler.waitForEnd(30)
        }
        let isUp = eventually { FileManager.default.fileExists(atPath: directory + "/.s.PGSQL.6432") }
        #expect(isUp, "\(pooler.errors)")
        try body("host=\(directory) port=6432 user=postgres dbname=\(database)")
    }

    @Test(
        "A pooler that shares a session among clients is refused, with the way out, whatever it has to spare",
        arguments: ["", "default_pool_size = 1", "min_pool_size = 4\nserver_round_robin = 1"])
    func transactions(settings: String) throws {
        try Self.through("transaction", settings: settings) { url in
            let relay = try Relay([], storage: .given(url))
            defer { relay.end() }
            for _ in 1...3 {
                let child = try relay.launch()
                #expect(child.waitForEnd(60) == .exited(1))
                #expect(relay.lines.contains { $0.contains("use session pooling") }, "\(relay.lines)")
            }
            let migrated = try relay.command("migrate", "--config", relay.configuration)
            #expect(migrated.end == .exited(1) && migrated.errors.contains("use session pooling"), "\(migrated)")
            let doctor = try relay.command("doctor", "--config", relay.configuration)
            #expect(doctor.output.contains("use session pooling"), "\(doctor)")
        }
    }

    @Test("Behind a pooler that keeps a session for each client, webhooks are recorded and delivered")
    func sessions() throws {
        try Self.through("session") { url in
            let receiver = try Receiver()
            let relay = try Relay.running([.init("backend", receiver)], storage: .given(url))
            defer { relay.end() }
            for _ in 1...2 {
                #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
                #expect(receiver.waitForAccepted(1))
                try relay.restart()
            }
        }
    }
}
