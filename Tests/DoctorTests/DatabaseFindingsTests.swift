import Configuration
import Testing
import Vocabulary

@testable import Doctor
@testable import Ledger

@Suite("What a database says of itself, and its queues")
struct DatabaseFindingsTests {
    private static func facts(isSuperuser: Bool = false) -> ServerFacts {
        ServerFacts(version: "15.14", role: "posthouse", isSuperuser: isSuperuser, databaseBytes: 5 << 20)
    }

    private static func reading(_ before: Int64, _ database: Int64, _ after: Int64) -> ClockReading {
        ClockReading(
            before: Timestamp(milliseconds: before), database: Timestamp(milliseconds: database),
            after: Timestamp(milliseconds: after))
    }

    @Test(
        "Clocks: the middle of the round trip counts, and half of it is forgiven",
        arguments: [
            (reading(0, 0, 0), DoctorFinding.State.fine), (reading(1_000, 0, 1_000), .fine),
            (reading(1_001, 0, 1_001), .note), (reading(0, 1_001, 0), .note), (reading(0, 30_000, 0), .note),
            (reading(0, 30_001, 0), .wrong), (reading(30_001, 0, 30_001), .wrong),
            // Three seconds under way: 1.5 s more or less.
            (reading(0, 4_000, 3_000), .fine), (reading(0, 4_001, 3_000), .note),
            // The machine's clock was set back meanwhile.
            (reading(10, 0, 0), .fine),
        ] as [(ClockReading, DoctorFinding.State)])
    func clock(reading: ClockReading, expected: DoctorFinding.State) {
        #expect(DatabaseFindings.clock(reading).map(\.state) == [expected])
    }

    @Test("The schema: none, older, newer, current, and current with indexes left")
    func schema() {
        func state(_ database: Int?, _ unfinished: [String] = []) -> [DoctorFinding.State] {
            DatabaseFindings.schema(SchemaVersion(database: database, program: 9), unfinished: unfinished).map(\.state)
        }
        #expect(state(nil) == [.wrong] && state(8) == [.wrong] && state(10) == [.wrong])
        #expect(state(9) == [.fine] && state(9, ["events_holder"]) == [.note])
    }

    @Test("A schema that the daemon cannot change says so; it can by default")
    func whoseSchema() {
        for (database, unfinished) in [(nil, []), (8, []), (9, ["events_holder"])] as [(Int?, [String])] {
            func advice(_ isDaemons: Bool) -> String {
                DatabaseFindings.schema(
                    SchemaVersion(database: database, program: 9), unfinished: unfinished, isDaemons: isDaemons
                ).compactMap(\.advice).joined()
            }
            #expect(advice(false).contains("direct_url") && !advice(true).contains("direct_url"))
        }
    }

    @Test("Pooling: a session of one's own is missed where a pooler changes them, and is the same ledger's")
    func pooling() {
        func states(
            _ pooling: Configuration.Database.Pooling, _ direct: PoolingFindings.Direct
        ) -> [DoctorFinding.State] { PoolingFindings.of(pooling, direct: direct).map(\.state) }
        #expect(states(.session, .notNamed) == [] && states(.transaction, .notNamed) == [.note])
        for pooling in Configuration.Database.Pooling.allCases {
            #expect(states(pooling, .usable) == [.fine] && states(pooling, .hidden) == [.unknown])
            #expect(states(pooling, .unusable(reason: "it leads to another ledger")) == [.wrong])
        }
    }

    @Test("Privileges: a superuser is a note; each one that is missing is wrong, with its GRANT; a long list is cut")
    func privileges() {
        #expect(DatabaseFindings.privileges(Self.facts(), missing: []).map(\.state) == [.fine])
        #expect(DatabaseFindings.privileges(Self.facts(isSuperuser: true), missing: []).map(\.state) == [.note])
        let missing = [
            MissingPrivilege(object: "TABLE attempts", privilege: "OWNER"),
            MissingPrivilege(object: "TABLE events", privilege: "INSERT"),
        ]
        let found = DatabaseFindings.privileges(Self.facts(), missing: missing)
        #expect(found.map(\.state) == [.wrong, .wrong])
        #expect(
            found.map(\.advice) == [
                "ALTER TABLE attempts OWNER TO posthouse", "GRANT INSERT ON TABLE events TO posthouse",
            ])
        let many = (0..<20).map { MissingPrivilege(object: "TABLE t\($0)", privilege: "SELECT") }
        let cut = DatabaseFindings.privileges(Self.facts(), missing: many)
        #expect(cut.count == 9 && cut.last?.text == "the role posthouse lacks 12 more privileges")
    }

    @Test("Settings: unsafe ones are wrong, costly ones a note each")
    func settings() {
        #expect(DatabaseFindings.settings(refusal: "fsync = off", advice: ["x"]).map(\.state) == [.wrong])
        #expect(DatabaseFindings.settings(refusal: nil, advice: ["a", "b"]).map(\.state) == [.note, .note])
        #expect(DatabaseFindings.settings(refusal: nil, advice: nil).map(\.state) == [.fine])
        #expect(DatabaseFindings.settings(refusal: nil, isDeclared: true, advice: nil).map(\.state) == [.note])
    }

    @Test("A database that does not answer is wrong; one that does not let root in is unknown")
    func unreachable() {
        func state(_ reason: String, isRoot: Bool) -> DoctorFinding.State {
            DatabaseFindings.unreachable(target: "host=h", reason: reason, path: "p", isRoot: isRoot).state
        }
        #expect(state("connection refused", isRoot: true) == .wrong)
        for reason in [#"FATAL:  role "root" does not exist"#, #"FATAL:  Peer authentication failed for user "p""#] {
            #expect(state(reason, isRoot: true) == .unknown && state(reason, isRoot: false) == .wrong)
        }
        #expect(state(#"FATAL:  database "d" does not exist"#, isRoot: true) == .wrong)
        // Of a private cluster there is no url to look at.
        func remedy(_ directory: String?) -> String? {
            DatabaseFindings.unreachable(target: "t", reason: "r", path: "p", isRoot: true, privateCluster: directory)
                .advice
        }
        #expect(remedy(nil)?.contains("url of p") == true && remedy("/srv/a")?.contains("/srv/a/cluster.log") == true)
    }

    @Test("The largest tables are one line; without any there is none")
    func tables() {
        let found = DatabaseFindings.tables([TableSize(table: "events", bytes: 3 << 20)], databaseBytes: 5 << 20)
        #expect(found.map(\.text) == ["the largest: events 3.0 MiB; the whole database 5.0 MiB"])
        #expect(DatabaseFindings.tables([], databaseBytes: 1).isEmpty)
        #expect(DatabaseFindings.server(Self.facts(), target: "host=h").map(\.state) == [.fine])
    }

    private static func integration(
        _ name: String = "backend", pausedAt: Timestamp? = nil, pauseReason: String? = nil,
        breaker: LedgerStatus.Breaker? = nil, waiting: Int = 0, oldestSeconds: Double? = nil, deadLetters: Int = 0
    ) -> LedgerStatus.Integration {
        LedgerStatus.Integration(
            name: name, pausedAt: pausedAt, pauseReason: pauseReason, breaker: breaker, waiting: waiting,
            oldestSeconds: oldestSeconds, delivered: 0, failed: 0, lastError: nil, deadLetters: deadLetters)
    }

    private static func states(
        _ integrations: [LedgerStatus.Integration], quarantined: Int = 0, configured: [String] = ["backend"]
    ) -> [DoctorFinding.State] {
        let status = LedgerStatus(
            at: Timestamp(milliseconds: 0), integrations: integrations, sources: [], answers: [:], daemons: [],
            quarantined: quarantined, overdue: [])
        let receivers = configured.map { DeliveryFindings.Receiver(name: $0, host: "h") }
        return DeliveryFindings.of(status, receivers: receivers).map(\.state)
    }

    @Test("Deliveries: idle, waiting, late, paused, failing, given up, quarantined, removed and not taken up")
    func deliveries() {
        let now = Timestamp(milliseconds: 0)
        #expect(Self.states([Self.integration()]) == [.fine])
        #expect(Self.states([Self.integration(waiting: 2, oldestSeconds: 3_600)]) == [.fine])
        #expect(Self.states([Self.integration(waiting: 2, oldestSeconds: 3_601)]) == [.note])
        #expect(Self.states([Self.integration(pausedAt: now)]) == [.note])
        #expect(Self.states([Self.integration(pausedAt: now, pauseReason: "paused by hand", waiting: 1)]) == [.note])
        let gone = "answered 410: the receiver says that it is gone"
        #expect(Self.states([Self.integration(pausedAt: now, pauseReason: gone)]) == [.note])
        #expect(Self.states([Self.integration(pausedAt: now, pauseReason: gone, waiting: 1)]) == [.wrong])
        let open = LedgerStatus.Breaker(openedAt: now, reason: "timed out")
        #expect(Self.states([Self.integration(breaker: open)]) == [.wrong])
        #expect(Self.states([Self.integration(deadLetters: 1)]) == [.fine, .note])
        #expect(Self.states([Self.integration()], quarantined: 1) == [.fine, .note])
        #expect(Self.states([Self.integration("gone", waiting: 1)], configured: []) == [.note])
        #expect(Self.states([Self.integration("gone")], configured: []).isEmpty)
        #expect(Self.states([], configured: ["new"]) == [.note])
    }

    @Test("Daemons: none is wrong; several versions, or another one than the program's, are a note")
    func daemons() {
        func state(_ versions: String...) -> [DoctorFinding.State] {
            let started = Timestamp(milliseconds: 0)
            let daemons = versions.map { LedgerStatus.Daemon(version: $0, startedAt: started) }
            return DeliveryFindings.daemons(daemons, version: "2").map(\.state)
        }
        #expect(state() == [.wrong] && state("2") == [.fine] && state("2", "2") == [.fine])
        #expect(state("1") == [.note] && state("1", "2") == [.note])
    }
}
