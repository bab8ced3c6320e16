import Foundation
import Testing
import Vocabulary

/// A receiver that is down for a while: what waits for it loses nothing, it is not run over when
/// it is back, and the others notice nothing. The oracle is what the receivers got and when.
@Suite(.serialized, .timeLimit(.minutes(30))) struct BreakerTests {
    private static func webhook(_ number: Int, _ user: String = "u") -> Webhook {
        Webhook("ACTIVATE", .user("\(user)\(number)"), purchase: "subs_\(number)")
    }

    /// The most requests in any second.
    private static func busiestSecond(_ received: [Received]) -> Int {
        let times = received.map(\.at).sorted()
        var (most, first) = (0, 0)
        for (index, time) in times.enumerated() {
            while time.timeIntervalSince(times[first]) >= 1 { first += 1 }
            most = max(most, index - first + 1)
        }
        return most
    }

    /// Waits for so many further probes, and expects that they took their time. One begins when the one before has
    /// ended, and 5 s after that began at the soonest, by the database's clock. The first may be on its way already,
    /// and a busy machine may read each of them late, so that only the whole says something.
    private static func expectProbes(
        _ count: Int, at receiver: Receiver, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let (began, before) = (Date(), receiver.count)
        #expect(receiver.wait(180) { $0.count >= before + count }, sourceLocation: sourceLocation)
        let took = Date().timeIntervalSince(began)
        #expect(took >= Double(5 * (count - 2)) - 0.1, sourceLocation: sourceLocation)
    }

    /// Posts the webhooks of `numbers`, so many a second, and waits until `receiver` has accepted them.
    /// - Returns: seconds from the sending of a webhook to its message, the median: what is under way while the machine
    ///   stands still does not count.
    private static func pace(
        _ numbers: Range<Int>, perSecond: Double, to relay: Relay, until receiver: Receiver
    ) -> Double {
        let before = receiver.accepted.count
        let began = Date()
        let source = relay.source()
        let sent = Monitor<[String: Date]>([:])
        onThreads(2) { thread in
            let connection = source.connect()
            for (position, number) in numbers.enumerated() where position % 2 == thread {
                let wait = Double(position) / perSecond - Date().timeIntervalSince(began)
                if wait > 0 { Thread.sleep(forTimeInterval: wait) }
                let webhook = Self.webhook(number)
                sent.change { $0[webhook.purchase] = Date() }
                #expect(connection.store(webhook))
            }
        }
        #expect(receiver.waitForAccepted(before + numbers.count, 180))
        let times = sent.current
        let took = receiver.accepted.dropFirst(before).map { message in
            let purchase = (message.data["purchase"] as? [String: Any])?["key"] as? String ?? ""
            return message.at.timeIntervalSince(times[purchase] ?? .distantPast)
        }
        return took.isEmpty ? .infinity : took.sorted()[took.count / 2]
    }

    /// Attempts that deliveries have used up.
    private static func usedUp(_ database: Database) throws -> Int {
        try database.value("SELECT sum(attempts) FROM deliveries").asNumber
    }

    @Test("Down with 600 deliveries waiting: no schedule eaten, all there when it is back, at its rate")
    func outage() throws {
        let (receiver, other) = (try Receiver(), try Receiver())
        let relay = try Relay.running([
            .init("backend", receiver, ["rate": #""200/s""#]), .init("other", other),
        ])
        defer { relay.end() }
        let database = try relay.database
        let usual = Self.pace(0..<200, perSecond: 100, to: relay, until: other)
        #expect(try database.drained())

        receiver.answer { _ in .drop }
        let during = Self.pace(200..<400, perSecond: 100, to: relay, until: other)
        #expect(during < usual + 2, "\(usual) s before, \(during) s during the outage")
        #expect(relay.waitForLine("the breaker of backend is open") != nil)
        let source = relay.source()
        onThreads(4) { thread in
            let connection = source.connect()
            for number in 400..<800 where number % 4 == thread {
                #expect(connection.store(Self.webhook(number)))
            }
        }
        #expect(other.waitForAccepted(800, 180))
        let probed = receiver.count
        #expect(receiver.wait(180) { $0.count > probed })
        // Ten failures open it; what was under way then may have ended like them. Probes use up nothing.
        let used = try Self.usedUp(database)
        #expect((10...26).contains(used), "\(used)")
        #expect(try eventually { try database.count("deliveries") == 600 })
        #expect(try Self.usedUp(database) == used)
        let isShown = try eventually {
            let metrics = try relay.get("/metrics").text
            return metrics.contains("posthouse_breaker_open{integration=\"backend\"} 1\n")
                && metrics.contains("posthouse_breaker_open{integration=\"other\"} 0\n")
        }
        #expect(isShown)

        receiver.answer { _ in .ok }
        let recovered = Date()
        #expect(receiver.waitForAccepted(800, 180))
        let took = Date().timeIntervalSince(recovered)
        #expect(try database.drained())
        // Without a rate they would come as fast as they can. A few above are this machine's: requests that left a
        // while apart may be read at once.
        #expect(Self.busiestSecond(receiver.received) <= 250)
        #expect(relay.waitForLine("the breaker of backend is closed") != nil)
        #expect(try database.count("dead_letters") == 0 && database.count("breakers") == 0)
        #expect(Set(receiver.accepted.map(\.id)).count == 800 && receiver.accepted.count == 800)
        print(
            "outage: other \(during) s, \(usual) s as usual, recovered in \(took) s, busiest second",
            Self.busiestSecond(receiver.received))
    }

    @Test("Two daemons share one breaker and one rate")
    func twoDaemons() throws {
        let receiver = try Receiver { _ in .status(503) }
        // Few at once: what was sent while the machine stood still arrives in one second.
        let integration = Relay.Integration(
            "backend", receiver, ["rate": #""50/s""#, "order": #""none""#, "concurrency": "4"])
        let first = try Relay.running([integration])
        defer { first.end() }
        let second = try Relay([integration], storage: .given(try first.database.connectionString))
        try second.start()
        defer { second.end() }
        let database = try first.database
        func post(_ numbers: Range<Int>) {
            onThreads(2) { thread in
                let connection = [first, second][thread].source().connect()
                for number in numbers where number % 2 == thread {
                    #expect(connection.store(Self.webhook(number)))
                }
            }
        }
        post(0..<200)
        #expect(try eventually { try database.count("breakers") == 1 })
        #expect(try eventually { try database.count("breakers", where: "probed_at IS NOT NULL") == 1 })
        let used = try Self.usedUp(database)
        // Both have something to send, and one of them sends: two that each kept to 5 s would be done in 13 s.
        Self.expectProbes(5, at: receiver)
        #expect(try Self.usedUp(database) == used)

        receiver.answer { _ in .ok }
        #expect(receiver.waitForAccepted(200, 180))
        #expect(try database.drained())
        // Two that did not share would come to twice as much. A few above are this machine's: requests that left a
        // while apart may arrive at once.
        let busiest = Self.busiestSecond(receiver.received)
        #expect(busiest <= 75)
        func lines(_ word: String) -> Int {
            (first.lines + second.lines).count { $0.contains("the breaker of backend is \(word)") }
        }
        // Deliveries go on before the table says that it is closed, and the line comes after that.
        #expect(eventually { lines("closed") > 0 })
        #expect(lines("open") == 1 && lines("closed") == 1)
        print("two daemons: busiest second \(busiest)")
    }

    @Test("A lane that a reload replaces during its probe leaves the next one to its successor, without waiting for it")
    func replacedDuringProbe() throws {
        let receiver = try Receiver { _ in .status(503) }
        let settings = ["timeout": #""120s""#, "order": #""none""#]
        let relay = try Relay.running([.init("backend", receiver, settings)])
        defer { relay.end() }
        let database = try relay.database
        let connection = relay.source().connect()
        for number in 0..<40 { #expect(connection.store(Self.webhook(number))) }
        #expect(try eventually { try database.count("breakers") == 1 })
        receiver.answer { _ in .hang }
        let before = receiver.count
        let since = try database.value("SELECT clock_timestamp()")
        let probing = "probed_by IS NOT NULL AND probed_at > '\(since)'"
        #expect(try eventually { try database.count("breakers", where: probing) == 1 })
        #expect(receiver.wait { $0.count > before })
        try relay.configure([.init("backend", receiver, settings.merging(["concurrency": "3"]) { $1 })])
        let reloaded = try relay.reload()
        #expect(reloaded.contains("changed integration backend") && !reloaded.contains("due now"), "\(reloaded)")
        receiver.answer { _ in .ok }
        // The probe that hangs has a hundred seconds left.
        #expect(receiver.waitForAccepted(1, 90))
    }

    @Test("Messages that fail by themselves do not keep the breaker open for the others")
    func badMessages() throws {
        let receiver = try Receiver { request in
            String(decoding: request.body, as: UTF8.self).contains("bad") ? .status(500) : .ok
        }
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let connection = relay.source().connect()
        for number in 0..<10 { #expect(connection.store(Self.webhook(number, "bad"))) }
        #expect(relay.waitForLine("the breaker of backend is open") != nil)
        #expect(connection.store(Self.webhook(100, "good")))
        // Behind what was not tried before it opened, 5 s each.
        #expect(receiver.waitForAccepted(1, 180))
        #expect(relay.waitForLine("the breaker of backend is closed") != nil)
    }

    @Test("A restart finds the breaker open; `posthouse resume` has nothing to do with it")
    func restart() throws {
        let receiver = try Receiver { _ in .status(503) }
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let connection = relay.source().connect()
        for number in 0..<40 { #expect(connection.store(Self.webhook(number))) }
        #expect(relay.waitForLine("the breaker of backend is open") != nil)
        let database = try relay.database
        #expect(try eventually { try database.count("breakers") == 1 })
        let before = receiver.count
        try relay.restart()
        #expect(receiver.wait(180) { $0.count >= before + 2 })
        // A probe each, and no rush of forty at the start.
        #expect(receiver.count - before < 10)
        // A probe uses up no attempt, and how it ended is shown like that of any other.
        let probed = "attempts = 0 AND id IN (SELECT delivery FROM attempts)"
        #expect(try eventually { try database.count("deliveries", where: probed) > 0 })
        let untried = try database.count("deliveries", where: "id NOT IN (SELECT delivery FROM attempts)")
        let listed = try relay.command("deliveries", "--state", "waiting", "--config", relay.configuration)
        #expect(listed.output.split(separator: "\n").count { $0.contains("not tried yet") } <= untried, "\(listed)")
        receiver.answer { _ in .ok }
        #expect(receiver.waitForAccepted(40, 180))
        #expect(try database.drained())
    }
}

extension String {
    /// psql's text for a number; -1 where it is none.
    fileprivate var asNumber: Int { Int(self) ?? -1 }
}
