import Foundation
import Testing
import Vocabulary

/// What follows from each answer of a receiver (posthouse-messages(7), "Retries").
@Suite struct DeliveryRetryTests {
    private static func webhook(_ number: Int) -> Webhook {
        Webhook("ACTIVATE", .user("u\(number)"), purchase: "subs_\(number)")
    }

    @Test("Failures are retried by the schedule under one message id, then accepted")
    func retried() throws {
        let receiver = try Receiver { $0.number < 2 ? .status(500, body: "not now") : .ok }
        let relay = try Relay.running(
            [.init("backend", receiver, ["schedule": #"["300ms", "600ms", "1s"]"#, "jitter": "0"])])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(receiver.waitForAccepted(1))
        let received = receiver.received
        #expect(received.count == 3)
        #expect(Set(received.map(\.id)).count == 1)
        #expect(Set(received.map(\.body)).count == 1)
        #expect(received.allSatisfy { $0.isVerified })
        let gaps = zip(received.dropFirst(), received).map { $0.at.timeIntervalSince($1.at) }
        #expect(gaps[0] >= 0.29)
        #expect(gaps[1] >= 0.59)
        let database = try relay.database
        #expect(try database.drained())
        let attempts = try database.rows(
            "SELECT attempt, outcome, http_status, coalesce(failure, '') FROM attempts ORDER BY attempt")
        let outcomes = [["1", "retry", "500"], ["2", "retry", "500"], ["3", "accepted", "204"]]
        #expect(attempts.map { Array($0.prefix(3)) } == outcomes)
        #expect(attempts[0][3].contains("not now"))
        #expect(relay.waitForLine("attempt=3", "outcome=accepted", "integration=backend") != nil)
    }

    @Test("The last gap used up: a dead letter, a line in the journal, nothing more is sent")
    func exhausted() throws {
        let receiver = try Receiver { _ in .status(500) }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["50ms", "50ms"]"#])])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(relay.waitForLine("outcome=dead", "integration=backend", "http_status=500") != nil)
        let database = try relay.database
        #expect(try database.drained())
        #expect(try database.rows("SELECT attempts, http_status FROM dead_letters") == [["3", "500"]])
        #expect(try database.value("SELECT reason FROM dead_letters").contains("given up after 3 attempts"))
        #expect(receiver.count == 3)
        let gauge = "posthouse_dead_letters{integration=\"backend\"} 1\n"
        #expect(try eventually { try relay.get("/metrics").text.contains(gauge) })
    }

    @Test("A status listed in `permanent` is dead at once; the next message goes on")
    func permanent() throws {
        let receiver = try Receiver { $0.number == 0 ? .status(400) : .ok }
        let relay = try Relay.running([.init("backend", receiver, ["permanent": "[400, 422]"])])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(relay.waitForLine("outcome=dead", "http_status=400") != nil)
        #expect(try relay.source().post(Self.webhook(2)) == 200)
        #expect(receiver.waitForAccepted(1))
        #expect(try relay.database.drained())
        #expect(try relay.database.rows("SELECT attempts, http_status FROM dead_letters") == [["1", "400"]])
    }

    @Test("give_up_after wins over the schedule")
    func givenUp() throws {
        let receiver = try Receiver { _ in .status(503) }
        let relay = try Relay.running(
            [.init("backend", receiver, ["schedule": #"["100ms", "1h"]"#, "give_up_after": #""10m""#])])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(relay.waitForLine("outcome=dead") != nil)
        #expect(try relay.database.drained())
        #expect(receiver.count == 2)
        #expect(try relay.database.value("SELECT reason FROM dead_letters").contains("give_up_after"))
    }

    @Test("Retry-After of a 429 and a 503 is waited for, in seconds or as a date", arguments: [429, 503])
    func retryAfter(status: Int) throws {
        let receiver = try Receiver { request in
            guard request.number == 0 else { return .ok }
            if status == 429 { return .status(status, headers: ["Retry-After: 2"]) }
            let format = DateFormatter()
            format.locale = Locale(identifier: "en_US_POSIX")
            format.timeZone = TimeZone(identifier: "GMT")
            format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
            // In whole seconds, and the relay's clock may be ahead by one: at least two are left.
            return .status(status, headers: ["retry-after: \(format.string(from: Date(timeIntervalSinceNow: 4)))"])
        }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["50ms"]"#])])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(receiver.waitForAccepted(1))
        let received = receiver.received
        #expect(received.count == 2)
        #expect(received[1].at.timeIntervalSince(received[0].at) >= 1.9)
    }

    @Test("410 pauses the integration, uses up no attempt, and `posthouse resume` goes on")
    func gone() throws {
        let receiver = try Receiver { _ in .status(410) }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["50ms"]"#])])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(relay.waitForLine("integration backend is paused") != nil)
        #expect(relay.waitForLine("level=warning", "paused ACTIVATE to backend (410 in ", "outcome=paused") != nil)
        #expect(try relay.source().post(Self.webhook(2)) == 200)
        #expect(try relay.source().post(Self.webhook(3)) == 200)
        let database = try relay.database
        #expect(try database.count("integrations", where: "paused_at IS NOT NULL") == 1)
        #expect(try database.count("deliveries", where: "attempts = 0") == 3)
        receiver.answer { _ in .ok }
        let sentBefore = receiver.count
        let resumed = try relay.command("resume", "backend", "--config", relay.configuration)
        #expect(resumed.end == .exited(0), "\(resumed.errors)")
        #expect(receiver.waitForAccepted(3))
        #expect(try database.drained())
        #expect(receiver.count == sentBefore + 3)
        #expect(relay.waitForLine("integration backend is resumed") != nil)
        #expect(try database.count("dead_letters") == 0)
    }

    @Test("`posthouse pause` holds everything back until it is resumed; ingest goes on")
    func paused() throws {
        let receiver = try Receiver()
        let other = try Receiver()
        let relay = try Relay.running([.init("backend", receiver), .init("other", other)])
        defer { relay.end() }
        #expect(try relay.command("pause", "backend", "--config", relay.configuration).end == .exited(0))
        #expect(relay.waitForLine("integration backend is paused: paused by hand") != nil)
        // The daemon follows within its poll; until then a message may still go out.
        let database = try relay.database
        let own = "integration = (SELECT id FROM integrations WHERE name = 'backend') AND leased_by IS "
        let isFollowed = try eventually {
            let seen = other.count
            #expect(try relay.source().post(Self.webhook(seen + 100)) == 200)
            #expect(other.waitForAccepted(seen + 1))
            // A lane that is closed leases nothing, and what it had under way is over.
            return try database.count("deliveries", where: own + "NULL") > 0
                && database.count("deliveries", where: own + "NOT NULL") == 0
        }
        #expect(isFollowed)
        let (before, others) = (receiver.count, other.count)
        for number in 1...5 { #expect(try relay.source().post(Self.webhook(number)) == 200) }
        #expect(other.waitForAccepted(others + 5))
        #expect(try eventually { try database.count("deliveries") >= 5 })
        #expect(receiver.count == before)
        let c = relay.configuration
        let listed = try relay.command("deliveries", "--state", "waiting", "--config", c)
        #expect(listed.output.contains("paused until posthouse resume backend"), "\(listed)")
        let waiting = try relay.json("deliveries", "--state", "waiting", "--integration", "backend")["deliveries"]
        let rows = try #require(waiting as? [[String: Any]])
        #expect(rows.count >= 5 && rows.allSatisfy { $0["paused"] as? Bool == true }, "\(rows)")
        let trace = try relay.command("trace", Self.webhook(1).transaction, "--config", c)
        #expect(trace.output.contains("→ backend: waits, paused until posthouse resume backend"), "\(trace)")
        #expect(relay.lines.count { $0.contains("integration backend is paused") } == 1)
        // A daemon that finds it paused says so, too, and that it is resumed.
        let otherOnes = "integration <> (SELECT id FROM integrations WHERE name = 'backend')"
        #expect(try eventually { try database.count("deliveries", where: otherOnes) == 0 })
        try relay.restart()
        #expect(relay.waitForLine("integration backend is paused: paused by hand") != nil)
        #expect(try relay.command("resume", "backend", "--config", relay.configuration).end == .exited(0))
        #expect(relay.waitForLine("integration backend is resumed") != nil)
        #expect(try database.drained())
        #expect(receiver.count == other.count)
        let unknown = try relay.command("pause", "bakend", "--config", relay.configuration)
        #expect(unknown.end == .exited(1))
        #expect(unknown.errors.contains("backend"))
    }

    @Test("A redirect is a failure and is not followed")
    func redirect() throws {
        let elsewhere = try Receiver()
        let location = elsewhere.url
        let receiver = try Receiver { $0.number == 0 ? .status(302, headers: ["Location: \(location)"]) : .ok }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["50ms"]"#])])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(receiver.waitForAccepted(1))
        #expect(elsewhere.count == 0)
        #expect(relay.waitForLine("302", "redirects are not followed") != nil)
    }

    @Test("An answer that does not come within `timeout` is a failure; so is a closed connection")
    func noAnswer() throws {
        let receiver = try Receiver { request in
            switch request.number {
            case 0: .hang
            case 1: .drop
            default: .ok
            }
        }
        let relay = try Relay.running(
            [.init("backend", receiver, ["timeout": #""4s""#, "schedule": #"["50ms", "50ms", "50ms", "50ms"]"#])])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(receiver.waitForAccepted(1))
        let database = try relay.database
        #expect(try database.drained())
        let attempts = try database.rows("SELECT outcome, failure, latency_ms FROM attempts ORDER BY attempt")
        try #require(attempts.count >= 3, "\(attempts)")
        #expect(attempts.dropLast().allSatisfy { $0[0] == "retry" } && attempts.last?[0] == "accepted", "\(attempts)")
        func timedOut(_ row: [String]) -> Bool { row[1].contains("timed out") && Int(row[2]) ?? 0 >= 3_900 }
        #expect(timedOut(attempts[0]), "\(attempts)")
        // On a machine that stands still for as long, others time out, too.
        #expect(attempts[1][1].contains("connection was lost") || timedOut(attempts[1]), "\(attempts)")
    }

    @Test("A receiver on loopback is refused without allow_private, and the failure says so")
    func egress() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([
            .init("backend", receiver, ["allow_private": "false", "schedule": #"["50ms"]"#]),
            .init(
                "named", url: "http://localhost:\(receiver.port)/", secrets: receiver.secrets,
                ["allow_private": "false", "schedule": #"["50ms"]"#]),
        ])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(relay.waitForLine("outcome=dead", "integration=backend", "loopback") != nil)
        #expect(relay.waitForLine("outcome=dead", "integration=named", "loopback") != nil)
        #expect(relay.waitForLine("outcome=dead", "integration=backend", "allow_private = true") != nil)
        #expect(receiver.connectionsMade == 0)
    }
}
