import Foundation
import Testing
import Vocabulary

/// `confirm = true` (posthouse-messages(7), "Confirmation"): an app that waits for its platform reads a backend that
/// already knows.
@Suite(.serialized, .timeLimit(.minutes(30))) struct ConfirmTests {
    private typealias Answer = (status: Int, seconds: Double)

    /// `confirm_timeout = "4s"`, by a clock that may be set meanwhile: who waited so long need not know the backend.
    private static let waited = 3.9

    /// The status, and how long it took.
    private static func post(_ webhook: Webhook, to relay: Relay) throws -> Answer {
        let began = Date()
        let status = try relay.source().connect().post(webhook.body).status
        return (status, Date().timeIntervalSince(began))
    }

    private static func purchase(_ request: Received) -> String {
        (request.data["purchase"] as? [String: Any])?["key"] as? String ?? ""
    }

    /// Nothing waits for longer than `confirm_timeout`, and nothing is answered 200 after 8 s: on a machine that stands
    /// still meanwhile a round shows nothing, and there is another one.
    private static func isShown(_ round: (_ number: Int) throws -> Bool) rethrows -> Bool {
        try (1...5).contains(where: round)
    }

    @Test("When ACTIVATE is answered, the backend has accepted all that it caused, a retry and a transfer included")
    func backendKnows() throws {
        let refused = Monitor<Set<String>>([])
        // The first request of each purchase is refused.
        let backend = try Receiver { request in
            refused.change { $0.insert(Self.purchase(request)).inserted } ? .status(500) : .after(0.2, .ok)
        }
        let relay = try Relay.running([
            .init(
                "backend", backend,
                ["confirm": "true", "confirm_timeout": #""4s""#, "schedule": #"["200ms", "1s"]"#])
        ])
        defer { relay.end() }
        let later = Webhook.epoch + 60_000
        let isShown = try Self.isShown { number in
            let purchase = "subs_\(number)"
            let steps = [
                (Webhook("ACTIVATE", .anonymous("a"), purchase: purchase), ["ACTIVATE"]),
                (
                    Webhook("ACTIVATE", .user("u"), purchase: purchase, at: later),
                    ["ACTIVATE", "ACTIVATE", "SUBSCRIPTION_RECEIVED", "SUBSCRIPTION_TRANSFERRED"]
                ),
                (
                    Webhook("DEACTIVATE", .anonymous("a"), purchase: purchase, at: later),
                    ["ACTIVATE", "ACTIVATE", "DEACTIVATE", "SUBSCRIPTION_RECEIVED", "SUBSCRIPTION_TRANSFERRED"]
                ),
            ]
            for (webhook, known) in steps {
                let answer = try Self.post(webhook, to: relay)
                let types = backend.accepted.filter { Self.purchase($0) == purchase }.map(\.type).sorted()
                // It waited for as long as it may.
                if answer.seconds >= Self.waited || answer.status == 503 { return false }
                #expect(answer.status == 200 && types == known, "\(answer) \(types)")
            }
            return true
        }
        #expect(isShown)
    }

    @Test("A backend that hangs: 200 after confirm_timeout; nobody else waits for it")
    func timeOut() throws {
        let (backend, other) = (try Receiver { _ in .hang }, try Receiver())
        let settings = ["confirm": "true", "confirm_timeout": #""4s""#, "events": #"["ACTIVATE"]"#]
        let relay = try Relay.running([.init("backend", backend, settings), .init("other", other)])
        defer { relay.end() }
        var sent = 0
        let isShown = Self.isShown { number in
            let purchase = "subs_\(number)"
            let waiting = Monitor<Answer?>(nil)
            Thread.detachNewThread {
                let answer = try? Self.post(Webhook("ACTIVATE", .user("u"), purchase: purchase), to: relay)
                waiting.change { $0 = answer ?? (0, 0) }
            }
            guard backend.wait(until: { $0.contains { Self.purchase($0) == purchase } }) else { return false }
            // Recorded by later batches, and acknowledged while the first waits.
            var meanwhile = 0
            for position in 0..<20 {
                let transaction = "t\(number)-\(position)"
                let webhook = Webhook(
                    "SUBSCRIPTION_RENEWED", .user("u"), purchase: "subs_0", transaction: transaction)
                #expect(relay.source().connect().store(webhook))
                if waiting.current == nil { meanwhile += 1 }
            }
            sent += 21
            #expect(other.waitForAccepted(sent))
            #expect(waiting.wait(180) { $0 != nil })
            let answer = waiting.current ?? (0, 0)
            #expect(answer.status != 200 || answer.seconds >= Self.waited, "\(answer)")
            // None, if they waited for the first.
            return answer.status == 200 && meanwhile > 0
        }
        #expect(isShown)
    }

    @Test("A backend that is down, its breaker open: 200 in time")
    func down() throws {
        let backend = try Receiver()
        backend.stop()
        let relay = try Relay.running([.init("backend", backend, ["confirm": "true", "confirm_timeout": #""1s""#])])
        defer { relay.end() }
        let stored = Monitor(0)
        onThreads(12) { number in
            let answer = try? Self.post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)"), to: relay)
            let isLateEnough = answer.map { $0.status == 503 || $0.status == 200 && $0.seconds >= 0.9 } ?? false
            #expect(isLateEnough, "\(String(describing: answer))")
            if answer?.status == 200 { stored.change { $0 += 1 } }
        }
        // None, where the machine stood still for as long as all of them had.
        #expect(stored.current > 0 || relay.lines.contains { $0.contains("the answer's time is up") })
        #expect(relay.waitForLine("the breaker of backend is open") != nil)
        let isShown = try Self.isShown { number in
            let answer = try Self.post(Webhook("DEACTIVATE", .user("u"), purchase: "subs_\(number)"), to: relay)
            #expect(answer.status != 200 || answer.seconds >= 0.9, "\(answer)")
            return answer.status == 200
        }
        #expect(isShown)
    }

    @Test("A slow request: 200 before 8 s after its first byte, whatever confirm_timeout says")
    func slowRequest() throws {
        let backend = try Receiver { _ in .hang }
        let relay = try Relay.running([.init("backend", backend, ["confirm": "true", "confirm_timeout": #""7s""#])])
        defer { relay.end() }
        let source = relay.source()
        let isShown = try Self.isShown { number in
            let body = Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)").body
            let socket = try Socket.connect(port: relay.port)
            defer { close(socket.descriptor) }
            var head = "POST \(source.path) HTTP/1.1\r\nhost: x\r\ncontent-length: \(body.count)\r\n"
            for (name, value) in source.signatureHeaders(body) { head += "\(name): \(value)\r\n" }
            let began = Date()
            try socket.send(Array((head + "\r\n").utf8) + body[..<(body.count / 2)])
            Thread.sleep(forTimeInterval: 3)
            var reader = HTTPReader(socket)
            guard (try? socket.send(Array(body[(body.count / 2)...]))) != nil,
                let answer = try? reader.next(isAnswer: true)
            else { return false }
            let took = Date().timeIntervalSince(began)
            #expect(answer.status != 200 || took >= 7, "\(took)")
            // Not 7 s after the body's end, which came 3 s after the first byte.
            return answer.status == 200 && took < 10
        }
        #expect(isShown)
    }

    @Test("The same webhook again while the first waits: both are answered when the backend knows")
    func duplicate() throws {
        // The number of the round whose purchase may be answered.
        let gate = Monitor(0)
        let backend = try Receiver { request in
            let number = Int(Self.purchase(request).filter(\.isNumber)) ?? 0
            _ = gate.wait(180) { $0 >= number }
            return .ok
        }
        let relay = try Relay.running([.init("backend", backend, ["confirm": "true", "confirm_timeout": #""4s""#])])
        defer { relay.end() }
        let isShown = try Self.isShown { number in
            let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")
            let answers = Monitor<[(answer: Answer?, isKnown: Bool)]>([])
            func send() {
                Thread.detachNewThread {
                    let answer = try? Self.post(webhook, to: relay)
                    let isKnown = backend.accepted.contains { Self.purchase($0) == webhook.purchase }
                    answers.change { $0.append((answer, isKnown)) }
                }
            }
            let lines = relay.lines.count
            send()
            guard backend.wait(until: { $0.contains { Self.purchase($0) == webhook.purchase } }) else { return false }
            send()
            let child = try #require(relay.child)
            let duplicate = child.waitForError(180, from: lines) { $0.contains("outcome=duplicate") }
            guard duplicate != nil else { return false }
            gate.change { $0 = number }
            #expect(answers.wait(180) { $0.count == 2 })
            // One waited for as long as it may, and the other no longer for the backend.
            if answers.current.contains(where: { $0.answer?.seconds ?? Self.waited >= Self.waited }) { return false }
            #expect(answers.current.allSatisfy { $0.answer?.status == 200 && $0.isKnown }, "\(answers.current)")
            #expect(backend.received.count { Self.purchase($0) == webhook.purchase } == 1)
            return true
        }
        #expect(isShown)
    }

    @Test("Another daemon delivers: the answer waits for that, but not for one that is killed, and nothing is lost")
    func otherDaemon() throws {
        let (own, other) = (try Receiver(), try Receiver())
        let settings = ["confirm": "true", "confirm_timeout": #""4s""#]
        let first = try Relay.running([.init("backend", own, settings)])
        defer { first.end() }
        let database = try first.database
        let second = try Relay.running(
            [.init("backend", other, settings)], storage: .given(database.connectionString))
        defer { second.end() }
        let answers = Monitor<[(status: Int, seconds: Double, acceptedByOwn: Int, acceptedByOther: Int)]>([])
        /// Posts to the first what the second delivers: it is blocked by what the second has in hand, and whoever
        /// settles that goes on with it. Returns once it is at the second's receiver.
        func activate(_ purchase: String, _ reply: Reply) throws {
            let gate = Monitor(false)
            other.answer { request in
                if request.type == "ACTIVATE" { return reply }
                _ = gate.wait(180) { $0 }
                return .ok
            }
            let seen = other.count
            let renewed = Webhook("SUBSCRIPTION_RENEWED", .user("u"), purchase: purchase)
            #expect(second.source().connect().store(renewed))
            #expect(other.wait { $0.count == seen + 1 })
            Thread.detachNewThread {
                let began = Date()
                let webhook = Webhook("ACTIVATE", .user("u"), purchase: purchase)
                let status = try? first.source().connect().post(webhook.body).status
                let (byOwn, byOther) = (own.accepted.count, other.accepted.count)
                answers.change { $0.append((status ?? 0, Date().timeIntervalSince(began), byOwn, byOther)) }
            }
            #expect(try eventually { try database.count("deliveries", where: "blocked") == 1 })
            gate.change { $0 = true }
            #expect(other.wait { $0.count == seen + 2 })
        }
        let isShown = try Self.isShown { number in
            try activate("subs_\(number)", .ok)
            #expect(answers.wait(180) { $0.count == number })
            #expect(try database.drained())
            let delivered = try #require(answers.current.last)
            // It waited for as long as it may.
            if delivered.seconds >= Self.waited || delivered.status == 503 { return false }
            #expect(delivered.status == 200 && delivered.acceptedByOther == 2 * number, "\(delivered)")
            return true
        }
        #expect(isShown)
        let (answered, accepted) = (answers.current.count, other.accepted.count)

        try activate("subs_0", .hang)
        second.kill()
        #expect(answers.wait(180) { $0.count == answered + 1 })
        let left = try #require(answers.current.last)
        // Before the first takes over, which is after the lease of the second: 11 s at the least.
        #expect([200, 503].contains(left.status) && (left.acceptedByOwn == 0 || left.seconds >= 11), "\(left)")
        #expect(own.waitForAccepted(1))
        #expect(own.accepted.map(\.id) == other.received.suffix(1).map(\.id))
        #expect(try database.drained())
        #expect(own.count == 1 && other.accepted.count == accepted + 1)
    }

    @Test("Without `confirm` nobody waits; other events never do")
    func others() throws {
        let backend = try Receiver { _ in .hang }
        let relay = try Relay.running([
            .init(
                "confirming", backend,
                ["confirm": "true", "confirm_timeout": #""4s""#, "events": #"["SUBSCRIPTION_*"]"#]),
            .init("plain", backend, ["timeout": #""60s""#]),
        ])
        defer { relay.end() }
        for (name, number) in [("ACTIVATE", 1), ("SUBSCRIPTION_RENEWED", 2), ("ACTIVATE", 3)] {
            let isShown = try Self.isShown { round in
                let webhook = Webhook(name, .user("u"), purchase: "subs_\(number)\(round)")
                let answer = try Self.post(webhook, to: relay)
                // Less than the default of `confirm_timeout`, 5 s.
                return answer.status == 200 && answer.seconds < 4
            }
            #expect(isShown, "\(name)")
        }
    }
}
