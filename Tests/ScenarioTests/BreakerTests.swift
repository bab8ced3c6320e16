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

    /// Seconds between the last three attempts. A request that finds its kept-alive connection dead is sent again on a
    /// fresh one, which is the same attempt.
    private static func lastGaps(_ receiver: Receiver) -> [Double] {
        let received = receiver.received
        let again = zip(received.dropFirst(), received).map { $0.id == $1.id && $0.at.timeIntervalSince($1.at) < 1 }
        let times = zip(received, [false] + again).filter { !$1 }.suffix(3).map(\.0.at)
        return zip(times.dropFirst(), times).map { $0.timeIntervalSince($1) }
    }

    /// Posts the webhooks of `numbers`, so many a second, and waits until `receiver` has accepted them.
    /// - Returns: how many it accepted a second, from the first post on.
    private static func pace(
        _ numbers: Range<Int>, perSecond: Double, to relay: Relay, until receiver: Receiver
    ) -> Double {
        let before = receiver.accepted.count
        let began = Date()
        let source = relay.source()
        onThreads(2) { thread in
            let connection = source.connect()
            for (position, number) in numbers.enumerated() where position % 2 == thread {
                let wait = Double(position) / perSecond - Date().timeIntervalSince(began)
                if wait > 0 { Thread.sleep(forTimeInterval: wait) }
                #expect((try? connection.post(webhook(number).body).status) == 200)
            }
        }
        #expect(receiver.waitForAccepted(before + numbers.count, 180))
        let last = receiver.accepted.dropFirst(before).map(\.at).max() ?? .distantFuture
        return Double(numbers.count) / last.timeIntervalSince(began)
    }

    @Test("Down with 1,500 deliveries waiting: no schedule eaten, all there when it is back, at its rate")
    func outage() throws {
        let (receiver, other) = (try Receiver(), try Receiver())
        let relay = try Relay.running([
            .init("backend", receiver, ["rate": #""200/s""#]), .init("other", other),
        ])
        defer { relay.end() }
        let database = try relay.database
        let usual = Self.pace(0..<500, perSecond: 100, to: relay, until: other)
        #expect(try database.drained())

        receiver.answer { _ in .drop }
        let during = Self.pace(500..<1_000, perSecond: 100, to: relay, until: other)
        #expect(during / usual >= 0.5, "\(usual) a second before, \(during) during the outage")
        #expect(relay.waitForLine("the breaker of backend is open") != nil)
        let source = relay.source()
        onThreads(4) { thread in
            let connection = source.connect()
            for number in 1_000..<2_000 where number % 4 == thread {
                #expect((try? connection.post(Self.webhook(number).body).status) == 200)
            }
        }
        #expect(other.waitForAccepted(2_000, 180))
        let probed = receiver.count
        #expect(receiver.wait(180) { $0.count >= probed + 3 })
        #expect(try database.count("deliveries") == 1_500)
        // Ten failures open it; what was under way then may have ended like them.
        #expect(try (10...26).contains(database.value("SELECT sum(attempts) FROM deliveries").asNumber))
        #expect(try database.value("SELECT max(attempts) FROM deliveries") == "1")
        let gaps = Self.lastGaps(receiver)
        #expect(gaps.allSatisfy { $0 > 3 }, "\(gaps)")
        let metrics = try relay.get("/metrics").text
        #expect(metrics.contains("posthouse_breaker_open{integration=\"backend\"} 1\n"))
        #expect(metrics.contains("posthouse_breaker_open{integration=\"other\"} 0\n"))

        receiver.answer { _ in .ok }
        let recovered = Date()
        #expect(receiver.waitForAccepted(2_000, 180))
        let took = Date().timeIntervalSince(recovered)
        #expect(try database.drained())
        // Without a rate they would come as fast as they can. A few above are this machine's: requests that left a
        // while apart may be read at once.
        #expect(Self.busiestSecond(receiver.received) <= 250)
        #expect(relay.waitForLine("the breaker of backend is closed") != nil)
        #expect(try database.count("dead_letters") == 0 && database.count("breakers") == 0)
        #expect(Set(receiver.accepted.map(\.id)).count == 2_000 && receiver.accepted.count == 2_000)
        print(
            "outage: other \(during / usual) of usual, recovered in \(took) s, busiest second",
            Self.busiestSecond(receiver.received))
    }

    @Test("Two daemons share one breaker and one rate")
    func twoDaemons() throws {
        let receiver = try Receiver { _ in .status(503) }
        let integration = Relay.Integration("backend", receiver, ["rate": #""50/s""#, "order": #""none""#])
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
                    #expect((try? connection.post(Self.webhook(number).body).status) == 200)
                }
            }
        }
        post(0..<200)
        #expect(try eventually { try database.count("breakers") == 1 })
        #expect(try eventually { try database.count("breakers", where: "probed_at IS NOT NULL") == 1 })
        let before = receiver.count
        // Both have something to send, and one of them sends: two that each kept to 5 s would leave 2.5 s at most.
        #expect(receiver.wait(180) { $0.count >= before + 3 })
        let gaps = Self.lastGaps(receiver)
        #expect(gaps.allSatisfy { $0 > 3 }, "\(gaps)")
        #expect(try database.value("SELECT max(attempts) FROM deliveries") == "1")

        receiver.answer { _ in .ok }
        #expect(receiver.waitForAccepted(200, 180))
        #expect(try database.drained())
        // Two that did not share would come to twice as much. A few above are this machine's: requests that left a
        // while apart may arrive at once.
        let busiest = Self.busiestSecond(receiver.received)
        #expect(busiest <= 75)
        let opened = [first, second].map { $0.lines.count { $0.contains("the breaker of backend is open") } }
        let closed = [first, second].map { $0.lines.count { $0.contains("the breaker of backend is closed") } }
        #expect(opened.reduce(0, +) == 1 && closed.reduce(0, +) == 1)
        print("two daemons: busiest second \(busiest)")
    }

    @Test("Messages that fail by themselves do not keep the breaker open for the others")
    func badMessages() throws {
        let receiver = try Receiver { request in
            String(decoding: request.body, as: UTF8.self).contains("bad") ? .status(500) : .ok
        }
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let connection = relay.source().connect()
        for number in 0..<10 { #expect(try connection.post(Self.webhook(number, "bad").body).status == 200) }
        #expect(relay.waitForLine("the breaker of backend is open") != nil)
        #expect(try connection.post(Self.webhook(100, "good").body).status == 200)
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
        for number in 0..<40 { #expect(try connection.post(Self.webhook(number).body).status == 200) }
        #expect(relay.waitForLine("the breaker of backend is open") != nil)
        let database = try relay.database
        #expect(try eventually { try database.count("breakers") == 1 })
        let before = receiver.count
        try relay.restart()
        #expect(receiver.wait(180) { $0.count >= before + 2 })
        // A probe each, and no rush of forty at the start.
        #expect(receiver.count - before < 10)
        receiver.answer { _ in .ok }
        #expect(receiver.waitForAccepted(40, 180))
        #expect(try database.drained())
    }
}

extension String {
    /// psql's text for a number; -1 where it is none.
    fileprivate var asNumber: Int { Int(self) ?? -1 }
}
