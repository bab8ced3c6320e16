import Foundation
import Testing
import Vocabulary

extension FaultTests {
    @Test("Receivers that hang, reset and talk nonsense: the good one on the same relay is not slowed")
    func badReceivers() throws {
        let good = try Receiver()
        let bad = try BadReceiver.Manner.allCases.map { try BadReceiver($0) }
        let few = [
            "timeout": #""1s""#, "schedule": #"["100ms", "100ms"]"#, "concurrency": "64", "order": #""none""#,
        ]
        let relay = try Relay.running(
            [.init("good", good)]
                + bad.map { .init("\($0.manner)", url: $0.url, secrets: [Receiver.newSecret()], few) })
        defer { relay.end() }
        let load = FaultLoad("x", on: [relay.port])
        #expect(load.waitForProgress(120))
        let tally = try #require(load.finish())
        let count = tally.purchases.count * FaultPurchase.messagesEach
        #expect(good.waitForAccepted(count, 180))
        let database = try relay.database
        let queue = "SELECT count(*) FROM deliveries d JOIN integrations i ON i.id = d.integration WHERE i.name = "
        // What it has accepted last may not be settled yet.
        #expect(try eventually { try database.value(queue + "'good'") == "0" })
        #expect(Self.expectComplete(good, of: tally).duplicates == 0)
        // Three attempts of a second each.
        #expect(try database.drained())
        for receiver in bad {
            let name = "\(receiver.manner)"
            let id = "(SELECT id FROM integrations WHERE name = '\(name)')"
            let dead = "integration = \(id) AND attempts = 3"
            #expect(try database.count("dead_letters", where: dead) == count, "\(name)")
            #expect(try database.count("attempts", where: "integration = \(id)") == 3 * count, "\(name)")
            // An attempt may be over before a busy machine has read it.
            #expect(receiver.requests > 0, "\(name)")
        }
        #expect(try database.count("dead_letters") == bad.count * count)
        // Accepted before the others gave the same message up: nearly all, for a machine may stand still now and then.
        let sooner = """
            outcome = 'accepted' AND at < (SELECT max(b.at) FROM attempts b WHERE b.message = attempts.message
                                           AND b.integration <> attempts.integration)
            """
        #expect(
            try database.count("attempts", where: sooner) >= count * 9 / 10, "it waited for the others to be given up")
    }

    @Test("Half-sent bodies and 500 idle connections do not stop ingest")
    func slowClients() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let idle = try (0..<500).map { _ in try Socket.connect(port: relay.port) }
        let source = relay.source()
        func half(_ number: Int) throws -> (Socket, [UInt8]) {
            let id = "half-\(number)"
            let body = Webhook("ACTIVATE", .user("half"), purchase: "subs_\(id)", eventID: id).body
            let socket = try Socket.connect(port: relay.port)
            var head = "POST \(source.path) HTTP/1.1\r\nhost: x\r\ncontent-length: \(body.count)\r\n"
            for (name, value) in source.signatureHeaders(body) { head += "\(name): \(value)\r\n" }
            try socket.send(Array((head + "\r\n").utf8) + body[..<(body.count / 2)])
            return (socket, body)
        }
        let halves = try (0..<50).map(half)
        defer { for socket in idle + halves.map(\.0) { close(socket.descriptor) } }
        let load = FaultLoad("i", on: [relay.port])
        #expect(load.waitForProgress(200))
        let tally = try #require(load.finish())
        #expect(tally.isServed(by: [relay]), "\(tally.refusals)")

        // Half a webhook is no webhook; its other half makes it one. Of new ones: the load may have taken longer than a
        // request has. So may a busy machine from one half to the other: then another one.
        let database = try relay.database
        var stored: [String] = []
        for number in 50..<70 where stored.count < 5 {
            let (socket, body) = try half(number)
            defer { close(socket.descriptor) }
            #expect(try database.count("events", where: "vendor_event_id = 'half-\(number)'") == 0)
            var reader = HTTPReader(socket)
            if (try? socket.send(Array(body[(body.count / 2)...]))) != nil,
                (try? reader.next(isAnswer: true))?.status == 200
            {
                stored.append("'half-\(number)'")
            }
        }
        #expect(stored.count == 5)
        // The others are answered when their time is up: that they were too slow, or to come again.
        for (socket, _) in halves {
            socket.prepare(timeout: 180)
            var reader = HTTPReader(socket)
            let status = try reader.next(isAnswer: true)?.status
            #expect(status == 408 || status == 503)
        }
        let early = halves.indices.map { "'half-\($0)'" }
        for (ids, count) in [(early, 0), (stored, 5)] {
            #expect(try database.count("events", where: "vendor_event_id IN (\(ids.joined(separator: ",")))") == count)
        }
        #expect(try database.drained())
        _ = Self.expectComplete(receiver, of: tally)
    }
}

/// A receiver that answers no request as HTTP requires it.
final class BadReceiver: Sendable {
    enum Manner: String, CaseIterable, Sendable {
        case hangsBeforeHead, hangsInBody, resets, talksNonsense
    }

    let manner: Manner
    let port: UInt16
    private let listener: Socket
    private let seen = Monitor(0)

    init(_ manner: Manner) throws {
        self.manner = manner
        (listener, port) = try Socket.listen()
        let (listener, seen) = (listener, seen)
        Thread.detachNewThread {
            while true {
                let descriptor = accept(listener.descriptor, nil, nil)
                guard descriptor >= 0 else { break }
                Thread.detachNewThread { Self.serve(Socket(descriptor: descriptor), manner, seen) }
            }
            close(listener.descriptor)
        }
    }

    deinit { shutdown(listener.descriptor, Int32(SHUT_RDWR)) }

    var url: String { "http://127.0.0.1:\(port)/hook" }
    var requests: Int { seen.read(\.self) }

    private static func serve(_ socket: Socket, _ manner: Manner, _ seen: Monitor<Int>) {
        defer { close(socket.descriptor) }
        socket.prepare(timeout: 180)
        var reader = HTTPReader(socket)
        while (try? reader.next(isAnswer: false)) != nil {
            seen.change { $0 += 1 }
            switch manner {
            // Until the relay gives up and closes.
            case .hangsBeforeHead: break
            case .hangsInBody:
                try? socket.send(Array("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".utf8))
            case .talksNonsense:
                try? socket.send([0x16, 0x03, 0x01, 0x00, 0xff] + Array("\r\n\r\nnothing that was asked for".utf8))
            case .resets:
                // Closing with a linger of zero sends RST (socket(7), SO_LINGER).
                var none = linger(l_onoff: 1, l_linger: 0)
                setsockopt(socket.descriptor, SOL_SOCKET, SO_LINGER, &none, socklen_t(MemoryLayout<linger>.size))
                return
            }
        }
    }
}
