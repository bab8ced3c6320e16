import Foundation
import Testing
import Vocabulary

/// `confirm = true` (posthouse-messages(7), "Confirmation"): an app that waits for its platform reads a backend that
/// already knows.
@Suite(.serialized, .timeLimit(.minutes(30))) struct ConfirmTests {
    /// The status, and how long it took.
    private static func post(_ webhook: Webhook, to relay: Relay) throws -> (status: Int, seconds: Double) {
        let began = Date()
        return (try relay.source().post(webhook), Date().timeIntervalSince(began))
    }

    @Test("When ACTIVATE is answered, the backend has accepted all that it caused, a retry and a transfer included")
    func backendKnows() throws {
        let backend = try Receiver { $0.number == 0 ? .status(500) : .after(0.2, .ok) }
        let relay = try Relay.running([
            .init(
                "backend", backend,
                ["confirm": "true", "confirm_timeout": #""7s""#, "schedule": #"["200ms", "1s"]"#])
        ])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .anonymous("a"), purchase: "subs_1")) == 200)
        #expect(backend.accepted.map(\.type) == ["ACTIVATE"])
        let later = Webhook.epoch + 60_000
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1", at: later)) == 200)
        let reported = ["ACTIVATE", "ACTIVATE", "SUBSCRIPTION_RECEIVED", "SUBSCRIPTION_TRANSFERRED"]
        #expect(backend.accepted.map(\.type).sorted() == reported)
        #expect(try relay.source().post(Webhook("DEACTIVATE", .anonymous("a"), purchase: "subs_1", at: later)) == 200)
        #expect(backend.accepted.count == 5)
    }

    @Test("A backend that hangs: 200 after confirm_timeout; nobody else waits for it")
    func timeOut() throws {
        let (backend, other) = (try Receiver { _ in .hang }, try Receiver())
        let relay = try Relay.running([
            .init("backend", backend, ["confirm": "true", "confirm_timeout": #""7s""#]), .init("other", other),
        ])
        defer { relay.end() }
        let waiting = Monitor<(status: Int, seconds: Double)?>(nil)
        Thread.detachNewThread {
            let answer = try? Self.post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1"), to: relay)
            waiting.change { $0 = answer ?? (0, 0) }
        }
        #expect(backend.wait { !$0.isEmpty })
        // Recorded by later batches, and acknowledged while the first waits.
        var meanwhile = 0
        for number in 0..<20 {
            let webhook = Webhook("SUBSCRIPTION_RENEWED", .user("u"), purchase: "subs_2", transaction: "t\(number)")
            #expect(try relay.source().post(webhook) == 200)
            if waiting.current == nil { meanwhile += 1 }
        }
        // All of them, but for a machine that takes seconds for it; none, if they waited for the first.
        #expect(meanwhile > 0)
        #expect(other.waitForAccepted(21))
        #expect(waiting.wait(180) { $0 != nil })
        let answer = waiting.current ?? (0, 0)
        #expect(answer.status == 200 && answer.seconds >= 6.9, "\(answer)")
    }

    @Test("A backend that is down, its breaker open: 200 in time")
    func down() throws {
        let backend = try Receiver()
        backend.stop()
        let relay = try Relay.running([.init("backend", backend, ["confirm": "true", "confirm_timeout": #""1s""#])])
        defer { relay.end() }
        onThreads(12) { number in
            let answer = try? Self.post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)"), to: relay)
            #expect(answer?.status == 200 && answer?.seconds ?? 0 >= 0.9, "\(String(describing: answer))")
        }
        #expect(relay.waitForLine("the breaker of backend is open") != nil)
        let answer = try Self.post(Webhook("DEACTIVATE", .user("u"), purchase: "subs_1"), to: relay)
        #expect(answer.status == 200 && answer.seconds >= 0.9)
    }

    @Test("A slow request: 200 before 8 s after its first byte, whatever confirm_timeout says")
    func slowRequest() throws {
        let backend = try Receiver { _ in .hang }
        let relay = try Relay.running([.init("backend", backend, ["confirm": "true", "confirm_timeout": #""7s""#])])
        defer { relay.end() }
        let source = relay.source()
        let body = Webhook("ACTIVATE", .user("u"), purchase: "subs_1").body
        let socket = try Socket.connect(port: relay.port)
        defer { close(socket.descriptor) }
        socket.prepare(patience: 180)
        var head = "POST \(source.path) HTTP/1.1\r\nhost: x\r\ncontent-length: \(body.count)\r\n"
        for (name, value) in source.signatureHeaders(body) { head += "\(name): \(value)\r\n" }
        let began = Date()
        try socket.send(Array((head + "\r\n").utf8) + body[..<(body.count / 2)])
        Thread.sleep(forTimeInterval: 3)
        try socket.send(Array(body[(body.count / 2)...]))
        var reader = HTTPReader(socket)
        #expect(try reader.next(isAnswer: true)?.status == 200)
        // Not 7 s after the body's end, which came 3 s after the first byte.
        #expect((7..<10).contains(Date().timeIntervalSince(began)))
    }

    @Test("The same webhook again while the first waits: both are answered when the backend knows")
    func duplicate() throws {
        let gate = Monitor(false)
        let backend = try Receiver { _ in
            _ = gate.wait(180) { $0 }
            return .ok
        }
        let relay = try Relay.running([.init("backend", backend, ["confirm": "true", "confirm_timeout": #""7s""#])])
        defer { relay.end() }
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        let knew = Monitor<[Bool]>([])
        func send() {
            Thread.detachNewThread {
                let status = try? relay.source().post(webhook)
                let isKnown = status == 200 && !backend.accepted.isEmpty
                knew.change { $0.append(isKnown) }
            }
        }
        send()
        #expect(backend.wait { !$0.isEmpty })
        send()
        #expect(relay.waitForLine("outcome=duplicate") != nil)
        gate.change { $0 = true }
        #expect(knew.wait(180) { $0.count == 2 })
        #expect(knew.current == [true, true])
        #expect(backend.count == 1)
    }

    @Test("Another daemon delivers: the answer waits for that, but not for one that is killed, and nothing is lost")
    func otherDaemon() throws {
        let (own, other) = (try Receiver(), try Receiver())
        let settings = ["confirm": "true", "confirm_timeout": #""7s""#]
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
            #expect(try second.source().post(Webhook("SUBSCRIPTION_RENEWED", .user("u"), purchase: purchase)) == 200)
            #expect(other.wait { $0.count == seen + 1 })
            Thread.detachNewThread {
                let answer = try? Self.post(Webhook("ACTIVATE", .user("u"), purchase: purchase), to: first)
                let (byOwn, byOther) = (own.accepted.count, other.accepted.count)
                answers.change { $0.append((answer?.status ?? 0, answer?.seconds ?? 0, byOwn, byOther)) }
            }
            #expect(try eventually { try database.count("deliveries", where: "blocked") == 1 })
            gate.change { $0 = true }
            #expect(other.wait { $0.count == seen + 2 })
        }
        try activate("subs_1", .ok)
        #expect(answers.wait(180) { $0.count == 1 })
        let delivered = try #require(answers.current.first)
        #expect(delivered.status == 200 && delivered.acceptedByOther == 2 && delivered.seconds < 7, "\(delivered)")

        try activate("subs_2", .hang)
        second.kill()
        #expect(answers.wait(180) { $0.count == 2 })
        let left = try #require(answers.current.last)
        // Before the first takes over, which is after the lease of the second: 11 s at the least.
        #expect([200, 503].contains(left.status) && left.acceptedByOwn == 0, "\(left)")
        #expect(own.waitForAccepted(1))
        #expect(own.accepted.map(\.id) == other.received.suffix(1).map(\.id))
        #expect(try database.drained())
        #expect(own.count == 1 && other.accepted.count == 3)
    }

    @Test("Without `confirm` nobody waits; other events never do")
    func others() throws {
        let backend = try Receiver { _ in .hang }
        let relay = try Relay.running([
            .init(
                "confirming", backend,
                ["confirm": "true", "confirm_timeout": #""7s""#, "events": #"["SUBSCRIPTION_*"]"#]),
            .init("plain", backend, ["timeout": #""60s""#]),
        ])
        defer { relay.end() }
        for (name, number) in [("ACTIVATE", 1), ("SUBSCRIPTION_RENEWED", 2), ("ACTIVATE", 3)] {
            let answer = try Self.post(Webhook(name, .user("u"), purchase: "subs_\(number)"), to: relay)
            #expect(answer.status == 200 && answer.seconds < 7)
        }
    }
}
