import Foundation
import TestSupport
import Testing

/// PostgreSQL that answers and commits nothing. Oracle: the journal, and what the service manager is told.
@Suite(.timeLimit(.minutes(30))) struct StandstillTests {
    @Test("It commits nothing any more under a running daemon: the journal and STATUS say so, and its end, too")
    func running() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try SpoolTests.relay(cluster, try Receiver(), databaseSettings: ["statement_timeout": "\"6s\""])
        defer { relay.end() }
        let manager = try NotifySocket(relay.directory.path + "/notify")
        try relay.launch(environment: ["NOTIFY_SOCKET": manager.path])
        #expect(relay.waitForLine("ready on") != nil)
        try cluster.holdCommits()
        let text = "the database has not committed lately: nothing is delivered, and webhooks may be answered 503"
        #expect(try manager.waits { $0.contains("; \(text), or spooled") })
        #expect(relay.waitForLine("the database has not committed lately, so nothing is delivered") != nil)
        try cluster.releaseCommits()
        // Read meanwhile: a full socket would stop the daemon's thread that writes to it.
        #expect(try manager.waits { $0.hasPrefix("STATUS=") && !$0.contains("database") })
        #expect(relay.waitForLine("the database commits again") != nil)
    }
}

extension TestCluster {
    /// Lets every COMMIT wait for a standby that is never there.
    func holdCommits() throws {
        let database = Database(connectionString: connectionString(database: "postgres"))
        try database.rows("CREATE TABLE probe (number integer)")
        let committing = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c",
            "DO $$ BEGIN LOOP INSERT INTO probe VALUES (1); COMMIT; PERFORM pg_sleep(0.05); END LOOP; END $$",
        ])
        defer { committing.signal(SIGKILL) }
        try database.rows("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        try database.rows("SELECT pg_reload_conf()")
        // The server heeds it some time later.
        let held = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        #expect(try eventually { try database.value("SELECT count(*) \(held)") != "0" })
        try database.rows("SELECT pg_terminate_backend(pid) \(held)")
    }

    func releaseCommits() throws {
        try psql("ALTER SYSTEM RESET synchronous_standby_names")
        try psql("SELECT pg_reload_conf()")
    }
}
