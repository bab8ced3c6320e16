import Foundation
import TestSupport
import Testing
import Vocabulary

/// The daemon as its host meets it: health, metrics, signals, the private cluster.
@Suite struct CommandServiceTests {
    @Test("/healthz, /readyz and /metrics")
    func health() throws {
        let receiver = try Receiver { $0.number == 0 ? .status(500) : .ok }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["50ms"]"#])])
        defer { relay.end() }
        let source = relay.source()
        let good = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try source.post(good) == 200)
        #expect(try source.post(good) == 200)
        #expect(try source.post(Array("{}".utf8)) == 200)
        #expect(try source.connect().post(good.body, headers: []).status == 401)
        #expect(try source.post(Webhook("DEACTIVATE", .anonymous("a"), purchase: "subs_1")) == 200)
        #expect(receiver.waitForAccepted(4))
        #expect(try relay.database.drained())
        #expect(try relay.get("/healthz").text == "ok\n")
        #expect(try eventually { try relay.get("/readyz").text == "ready\n" })
        #expect(try relay.get("/nothing").status == 404)
        let metrics = try relay.get("/metrics")
        #expect(metrics["content-type"]?.hasPrefix("text/plain; version=0.0.4") == true)
        let expected: Set<String> = [
            #"posthouse_build_info{version="0.1.0"} 1"#,
            #"posthouse_events_total{source="purchasely",outcome="accepted"} 2"#,
            #"posthouse_events_total{source="purchasely",outcome="duplicate"} 1"#,
            #"posthouse_events_total{source="purchasely",outcome="quarantined"} 1"#,
            #"posthouse_events_total{source="purchasely",outcome="refused"} 1"#,
            #"posthouse_refused_total{source="purchasely",status="401"} 1"#,
            #"posthouse_transfers_total{source="purchasely"} 1"#,
            #"posthouse_attempts_total{integration="backend",outcome="accepted"} 4"#,
            #"posthouse_attempts_total{integration="backend",outcome="retry"} 1"#,
            #"posthouse_attempt_duration_seconds_count{integration="backend"} 5"#,
            #"posthouse_deliveries_waiting{integration="backend"} 0"#,
            #"posthouse_dead_letters{integration="backend"} 0"#, "posthouse_database_up 1",
        ]
        // A webhook counts after its answer, and a database that answers late leaves the page with older figures.
        var missing = expected
        let isComplete = try eventually {
            missing = expected.subtracting(try relay.get("/metrics").text.components(separatedBy: "\n"))
            return missing.isEmpty
        }
        #expect(isComplete, "\(missing) in \(metrics.text)")
    }

    @Test("A count that takes long leaves the database up on /metrics, and the gauges as they were")
    func longCount() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        let gauge = #"posthouse_dead_letters{integration="backend"} 0"# + "\n"
        #expect(try eventually { try relay.get("/metrics").text.contains(gauge) })
        let database = try relay.database
        let holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c",
            "BEGIN; LOCK TABLE dead_letters IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)",
        ])
        defer { holder.signal(SIGKILL) }
        let held = """
            SELECT count(*) FROM pg_locks
            WHERE relation = 'dead_letters'::regclass AND granted AND mode = 'AccessExclusiveLock'
            """
        #expect(try eventually { try database.value(held) != "0" })
        #expect(
            try eventually {
                let page = try relay.get("/metrics").text
                return page.contains("posthouse_database_up 1\n") && page.contains(gauge)
            })
        #expect(try database.value(held) != "0")
    }

    @Test("api_listen: the API, metrics and health there, webhooks and health on the other, neither the other's")
    func separateListener() throws {
        let api = try Socket.freePort()
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)], settings: "api_listen = \"127.0.0.1:\(api)\"")
        defer { relay.end() }
        let inner = HTTPClient(port: api)
        for path in ["/healthz", "/readyz", "/metrics"] {
            // Ready while the lease lasts, which a database that answers late may not renew in time.
            #expect(try eventually { try inner.request("GET", path).status == 200 }, "\(path)")
            let outer = path == "/metrics" ? 404 : 200
            #expect(try eventually { try relay.get(path).status == outer }, "\(path)")
        }
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try Source(port: api).post(webhook) == 404)
        #expect(try relay.source().post(webhook) == 200)
        let token = [("authorization", "Bearer \(Relay.apiToken)")]
        for path in ["/v1/entitlements?user_id=u", "/v3/users/u"] {
            let outer = try relay.ask("GET", path)
            #expect(outer.status == 404 && outer.text.hasPrefix("there is nothing here"), "\(path): \(outer.text)")
            let answer = try insisting { try inner.request("GET", path, headers: token) }
            #expect(answer.text.hasPrefix("{"), "\(path): \(answer.text)")
        }
        #expect(receiver.waitForAccepted(1))
    }

    @Test("SIGTERM and SIGINT end the daemon with 0, its leases given back", arguments: [SIGTERM, SIGINT])
    func signals(signal: Int32) throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        relay.child?.signal(signal)
        #expect(relay.child?.waitForEnd(180) == .exited(0))
        // Sent, or still to do for the next daemon: never both, never neither, and leased to nobody.
        #expect(try receiver.accepted.count + relay.database.count("deliveries") == 1)
        #expect(try relay.database.count("deliveries", where: "leased_by IS NOT NULL") == 0)
        #expect(try relay.database.count("daemons") == 0)
        #expect(relay.lines.last?.contains("stopped, nothing was left under way") == true)
    }

    @Test("Without [database]: a private cluster that stops with the daemon, keeps its data, survives a kill")
    func privateCluster() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)], storage: .privateCluster)
        defer { relay.end() }
        #expect(relay.waitForLine("started the private PostgreSQL cluster") != nil)
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try relay.source().post(webhook) == 200)
        #expect(receiver.waitForAccepted(1))
        #expect(try relay.database.drained())
        let pidFile = relay.directory.path + "/state/cluster/postmaster.pid"
        let first = try String(contentsOfFile: pidFile, encoding: .utf8).prefix { $0 != "\n" }
        #expect(relay.stop() == .exited(0))
        #expect(relay.lines.contains { $0.contains("stopped the private PostgreSQL cluster") }, "\(relay.lines)")
        #expect(!FileManager.default.fileExists(atPath: pidFile))
        // The daemon may end before it has reaped the server: then init does, a moment later.
        #expect(eventually { Foundation.kill(pid_t(first) ?? 1, 0) == -1 })

        try relay.start()
        #expect(try relay.source().post(webhook) == 200)
        #expect(try relay.database.count("events") == 1)
        relay.kill()
        // The cluster outlives its killed daemon and is taken over, never started twice.
        let orphan = try String(contentsOfFile: pidFile, encoding: .utf8)
        try relay.start()
        #expect(relay.waitForLine("took over the running private PostgreSQL cluster") != nil)
        #expect(try String(contentsOfFile: pidFile, encoding: .utf8) == orphan)
        #expect(try relay.source().post(webhook) == 200)
        #expect(try relay.database.count("events") == 1)
        let trace = try relay.command("trace", webhook.transaction, "--config", relay.configuration)
        #expect(trace.output.contains("delivered"))
        #expect(relay.stop() == .exited(0))
        #expect(receiver.count == 1)

        // Under another directory there would be an empty ledger.
        let file = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        try relay.directory.write("posthouse.toml", file.replacing("/state\"", with: "/other\""))
        let refused = try relay.launch(environment: ["STATE_DIRECTORY": relay.directory.path + "/state"])
        #expect(refused.waitForEnd(60) == .exited(78))
        #expect(refused.errors.contains { $0.contains("there is no private cluster in \(relay.directory.path)/other") })
        #expect(!FileManager.default.fileExists(atPath: relay.directory.path + "/other/cluster"))
    }

    /// Nothing else restarts it where there is no systemd: a container's liveness probe asks.
    @Test("/healthz is 503 while a thread hangs; it may open as many files as it is allowed to at most")
    func hangs() throws {
        let relay = try Relay([], databaseSettings: ["statement_timeout": "\"1s\""])
        defer { relay.end() }
        let child = try relay.launch(
            by: ["prlimit", "--nofile=256:4096"],
            environment: ["POSTHOUSE_FAILPOINT": "database-thread-signalled:1:hang"])
        #expect(eventually { (try? relay.get("/readyz").status) == 200 })
        let limits = try String(contentsOfFile: "/proc/\(child.identifier)/limits", encoding: .utf8)
        #expect(limits.contains(/Max open files +4096 +4096/))
        #expect(try relay.get("/healthz").status == 200)
        child.signal(SIGUSR2)
        #expect(eventually { (try? relay.get("/healthz").status) == 503 })
        #expect(try relay.get("/healthz").text.hasPrefix("a database thread has not come back"))
    }
}
