import Foundation
import Testing
import Vocabulary

/// What goes to whom, in which order, and that nobody waits for another's receiver.
@Suite struct DeliveryLaneTests {
    private static func renewals(of purchase: String, _ count: Int) -> [Webhook] {
        (0..<count).map { number in
            Webhook(
                "SUBSCRIPTION_RENEWED", .user("u"), purchase: purchase, transaction: "\(purchase)-\(number)",
                at: Webhook.epoch + Int64(number))
        }
    }

    private static func transaction(_ message: Received) -> String {
        (message.data["transaction"] as? [String: Any])?["store_transaction_id"] as? String ?? ""
    }

    @Test("order = \"purchase\": a failing message holds its purchase back, and no other")
    func ordered() throws {
        let receiver = try Receiver { request in
            Self.transaction(request) == "subs_1-0" ? .status(500) : .ok
        }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": Self.manyGaps])])
        defer { relay.end() }
        let connection = relay.source().connect()
        for webhook in Self.renewals(of: "subs_1", 4) { #expect(connection.store(webhook)) }
        #expect(receiver.wait { $0.count { Self.transaction($0) == "subs_1-0" } >= 2 })
        for webhook in Self.renewals(of: "subs_2", 20) { #expect(connection.store(webhook)) }
        #expect(receiver.waitForAccepted(20))
        #expect(receiver.accepted.map(Self.transaction) == (0..<20).map { "subs_2-\($0)" })
        #expect(Set(receiver.received.map(Self.transaction)).isDisjoint(with: ["subs_1-1", "subs_1-2", "subs_1-3"]))
        receiver.answer { _ in .ok }
        #expect(receiver.waitForAccepted(24))
        #expect(receiver.accepted.suffix(4).map(Self.transaction) == (0..<4).map { "subs_1-\($0)" })
    }

    @Test("order = \"purchase\": a dead letter lets the next one go")
    func orderedPastDead() throws {
        let receiver = try Receiver { Self.transaction($0) == "subs_1-0" ? .status(400) : .ok }
        let relay = try Relay.running([.init("backend", receiver, ["permanent": "[400]"])])
        defer { relay.end() }
        let connection = relay.source().connect()
        for webhook in Self.renewals(of: "subs_1", 3) { #expect(connection.store(webhook)) }
        #expect(receiver.waitForAccepted(2))
        #expect(receiver.accepted.map(Self.transaction) == ["subs_1-1", "subs_1-2"])
    }

    @Test("order = \"none\": the next message of a purchase does not wait")
    func unordered() throws {
        let receiver = try Receiver { Self.transaction($0) == "subs_1-0" ? .status(500) : .ok }
        let relay = try Relay.running(
            [.init("backend", receiver, ["order": "\"none\"", "schedule": Self.manyGaps])])
        defer { relay.end() }
        let connection = relay.source().connect()
        for webhook in Self.renewals(of: "subs_1", 4) { #expect(connection.store(webhook)) }
        #expect(receiver.waitForAccepted(3))
        #expect(Set(receiver.accepted.map(Self.transaction)) == ["subs_1-1", "subs_1-2", "subs_1-3"])
    }

    /// The last ones are for a machine that takes its time.
    private static let manyGaps: String = {
        let gaps = Array(repeating: "\"500ms\"", count: 32) + Array(repeating: "\"10s\"", count: 32)
        return "[" + gaps.joined(separator: ", ") + "]"
    }()

    @Test("events, environments, sources and where choose what an integration is sent")
    func filters() throws {
        let receivers = try (0..<6).map { _ in try Receiver() }
        let chosen: [[String: String]] = [
            ["events": #"["SUBSCRIPTION_*"]"#], ["events": #"["*ACTIVATE"]"#, "environments": #"["SANDBOX"]"#],
            ["sources": #"["second"]"#], ["events": #"["?CTIVATE", "SUBSCRIPTION_RECEIVED"]"#], ["events": #"["*"]"#],
            ["where": #"{ "holder.user_id" = ["s", "nobody"], "environment" = "SAND*" }"#],
        ]
        let relay = try Relay.running(
            zip(receivers, chosen).enumerated().map { .init("r\($0)", $1.0, $1.1) },
            sources: [.init(), .init(name: "second", secrets: ["other-secret"])])
        defer { relay.end() }
        var sandbox = Webhook("ACTIVATE", .user("s"), purchase: "subs_3")
        sandbox.environment = "SANDBOX"
        var started = Webhook("SUBSCRIPTION_STARTED", .user("s"), purchase: "subs_3")
        started.environment = "SANDBOX"
        let webhooks = [
            Webhook("DEACTIVATE", .anonymous("a"), purchase: "subs_1"),
            Webhook("ACTIVATE", .user("u"), purchase: "subs_1"),
            sandbox, started,
        ]
        for webhook in webhooks { #expect(try relay.source().post(webhook) == 200) }
        let second = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try relay.source("second", secret: "other-secret").post(second) == 200)
        #expect(try relay.database.drained())
        let got = receivers.map { $0.received.map(\.type).sorted() }
        #expect(got[0] == ["SUBSCRIPTION_RECEIVED", "SUBSCRIPTION_STARTED", "SUBSCRIPTION_TRANSFERRED"])
        #expect(got[1] == ["ACTIVATE"])
        #expect(receivers[1].received.allSatisfy { $0.data["environment"] as? String == "SANDBOX" })
        #expect(got[2] == ["ACTIVATE"])
        #expect(receivers[2].received.allSatisfy { $0.data["source"] as? String == "second" })
        #expect(got[3] == ["ACTIVATE", "ACTIVATE", "ACTIVATE", "SUBSCRIPTION_RECEIVED"])
        #expect(got[4].count == 7)
        #expect(got[5] == ["ACTIVATE", "SUBSCRIPTION_STARTED"])
    }

    @Test("A dead receiver and one that hangs do not delay the others")
    func bulkheads() throws {
        let good = try Receiver()
        let hanging = try Receiver { _ in .hang }
        let refusing = try Receiver()
        refusing.stop()
        let relay = try Relay.running([
            .init("good", good), .init("hanging", hanging, ["timeout": "\"120s\""]), .init("refusing", refusing),
        ])
        defer { relay.end() }
        let connection = relay.source().connect()
        let began = Date()
        // Each is sent once the one before it has arrived, so that delays add up. All of it ends before the first
        // attempt at the hanging one: the wait is shorter than its time-out.
        for number in 1...60 {
            #expect(connection.store(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")))
            try #require(good.waitForAccepted(number, 100 - Date().timeIntervalSince(began)), "number \(number)")
        }
        // Those that hang are closed at that time-out, and others made.
        let since = hanging.received.first?.at ?? Date()
        let made = hanging.connectionsMade
        #expect(made <= 16 || Date().timeIntervalSince(since) > 110, "\(made)")
        #expect(try eventually { try relay.database.count("deliveries") == 120 })
    }

    @Test("The same webhook again, after everything was delivered, delivers nothing; a restart changes no id")
    func stable() throws {
        let receiver = try Receiver { $0.number == 0 ? .status(500) : .ok }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["2s"]"#])])
        defer { relay.end() }
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try relay.source().post(webhook) == 200)
        #expect(receiver.wait { !$0.isEmpty })
        // The retry is another process's.
        try relay.restart()
        #expect(receiver.waitForAccepted(1))
        #expect(try relay.source().post(webhook) == 200)
        #expect(try relay.database.drained())
        #expect(receiver.count == 2)
        #expect(Set(receiver.received.map(\.id)).count == 1)
        #expect(Set(receiver.received.map(\.body)).count == 1)
    }

    @Test("`concurrency` bounds the attempts at once and the connections")
    func concurrency() throws {
        let atOnce = Monitor((now: 0, most: 0))
        let areAllThere = Monitor(false)
        let receiver = try Receiver { request in
            atOnce.change { count in
                count.now += 1
                count.most = max(count.most, count.now)
            }
            // Holds its place until all wait, for a connection that is idle for long is closed; and until three have
            // come, or what would be a fourth has had time to.
            _ = areAllThere.wait(60) { $0 }
            _ = atOnce.wait(60) { $0.most >= 3 }
            _ = atOnce.wait(0.02) { $0.now > 3 }
            atOnce.change { $0.now -= 1 }
            return .ok
        }
        let relay = try Relay.running([.init("backend", receiver, ["concurrency": "3", "timeout": #""120s""#])])
        defer { relay.end() }
        let source = relay.source()
        onThreads(4) { thread in
            let connection = source.connect()
            for number in 0..<25 {
                #expect(connection.store(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(thread * 25 + number)")))
            }
        }
        areAllThere.change { $0 = true }
        #expect(receiver.waitForAccepted(100))
        #expect(atOnce.current.most == 3)
        #expect(receiver.connectionsMade <= 3)
    }

    @Test("A removed integration's deliveries wait until it is back; one added later is sent what comes then")
    func removedAndAdded() throws {
        let (kept, removed, added) = (try Receiver(), try Receiver { _ in .status(500) }, try Receiver())
        let schedule = ["schedule": Self.manyGaps]
        let first = try Relay.running([.init("kept", kept), .init("removed", removed, schedule)])
        defer { first.end() }
        let storage = Relay.Storage.given(try first.database.connectionString)
        #expect(try first.source().post(Self.renewals(of: "subs_1", 1)[0]) == 200)
        #expect(kept.waitForAccepted(1))
        #expect(removed.wait { !$0.isEmpty })
        #expect(first.stop() == .exited(0))

        let second = try Relay.running([.init("kept", kept), .init("added", added)], storage: storage)
        defer { second.end() }
        #expect(try second.source().post(Self.renewals(of: "subs_2", 1)[0]) == 200)
        #expect(kept.waitForAccepted(2))
        #expect(added.waitForAccepted(1))
        #expect(added.received.map(Self.transaction) == ["subs_2-0"])
        #expect(try eventually { try second.database.count("deliveries") == 1 })
        #expect(second.stop() == .exited(0))

        removed.answer { _ in .ok }
        let third = try Relay.running([.init("kept", kept), .init("removed", removed, schedule)], storage: storage)
        defer { third.end() }
        #expect(removed.waitForAccepted(1))
        #expect(removed.accepted.map(Self.transaction) == ["subs_1-0"])
        #expect(try third.database.drained())
        #expect(kept.count == 2)
    }

    @Test("The daemon's memory does not grow with the backlog of a receiver that hangs")
    func memory() throws {
        let receiver = try Receiver { _ in .hang }
        let relay = try Relay.running([.init("backend", receiver, ["timeout": "\"120s\""])])
        defer { relay.end() }
        let padding = Array(",\"padding\":\"\(String(repeating: "x", count: 900_000))\"}".utf8)
        let source = relay.source()
        onThreads(2) { thread in
            let connection = source.connect()
            for number in 0..<120 {
                let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_\(thread * 120 + number)")
                let body: [UInt8] = webhook.body.dropLast() + padding
                #expect(connection.store(body: body))
            }
        }
        #expect(try relay.database.count("deliveries") == 240)
        // 216 MB wait. The lane may hold 16 MiB of bodies (Limits.laneBytesMax), attempts under way 16 more.
        let process = try #require(relay.processIdentifier)
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let peak = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
        let kilobytes = Int(peak.filter(\.isNumber)) ?? 0
        #expect(kilobytes < 160_000)
    }
}
