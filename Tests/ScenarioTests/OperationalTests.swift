import Foundation
import Testing
import Vocabulary

/// What the relay says of itself, to who asks for it.
@Suite struct OperationalTests {
    private static func facts(_ message: Received) -> [String: Any] {
        message.data["original"] as? [String: Any] ?? [:]
    }

    @Test("A dead letter and a pause are announced, once each, to who asks for posthouse.*, and to nobody else")
    func deadAndPaused() throws {
        let failing = try Receiver { _ in .status(500) }
        let operations = try Receiver()
        let everything = try Receiver()
        let relay = try Relay.running([
            .init("crm", failing, ["schedule": #"["50ms"]"#]),
            .init("operations", operations, ["events": #"["posthouse.integration.*"]"#]),
            .init("everything", everything),
        ])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(operations.waitForAccepted(1))
        let dead = try #require(operations.accepted.first)
        #expect(dead.type == "posthouse.integration.dead" && dead.isVerified)
        #expect(dead.data["source"] as? String == "posthouse")
        #expect(Self.facts(dead)["event_name"] as? String == dead.type, "it is the type with format = source, too")
        #expect(Self.facts(dead)["integration"] as? String == "crm")
        #expect(Self.facts(dead)["deliveries"] as? Int == 1)
        #expect(Self.facts(dead)["messages"] as? [String] == [failing.received[0].id])
        #expect((Self.facts(dead)["reason"] as? String)?.contains("answered 500") == true)

        let paused = try relay.command("pause", "crm", "--config", relay.configuration)
        #expect(paused.end == .exited(0), "\(paused.errors)")
        #expect(try relay.command("pause", "crm", "--config", relay.configuration).end == .exited(0))
        #expect(operations.waitForAccepted(2))
        #expect(operations.accepted.last?.type == "posthouse.integration.paused")
        #expect(try relay.command("resume", "crm", "--config", relay.configuration).end == .exited(0))

        failing.answer { _ in .status(410) }
        #expect(try relay.source().post(Webhook("DEACTIVATE", .user("u"), purchase: "subs_2")) == 200)
        #expect(operations.waitForAccepted(3))
        let gone = try #require(operations.accepted.last)
        #expect(gone.type == "posthouse.integration.paused")
        #expect((Self.facts(gone)["reason"] as? String)?.contains("410") == true)
        #expect(everything.waitForAccepted(2))
        #expect(everything.received.allSatisfy { !$0.type.hasPrefix("posthouse.") })
        #expect(operations.received.count == 3)
    }

    @Test("A breaker that opens and closes is announced as failing and recovered")
    func breaker() throws {
        let crm = try Receiver { _ in .status(503) }
        let operations = try Receiver()
        let relay = try Relay.running([
            .init("crm", crm, ["order": #""none""#]),
            .init("operations", operations, ["events": #"["posthouse.*"]"#]),
        ])
        defer { relay.end() }
        let connection = relay.source().connect()
        for number in 0..<30 {
            let body = Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)").body
            #expect(try connection.insist(on: body).status == 200)
        }
        #expect(operations.waitForAccepted(1))
        #expect(operations.accepted.first?.type == "posthouse.integration.failing")
        crm.answer { _ in .ok }
        #expect(operations.waitForAccepted(2, 180))
        #expect(
            operations.accepted.map(\.type) == ["posthouse.integration.failing", "posthouse.integration.recovered"])
    }

    @Test("Two receivers that give up do not notify each other of it for ever")
    func noEcho() throws {
        let receivers = try (0..<2).map { _ in try Receiver { _ in .status(500) } }
        let relay = try Relay.running(
            receivers.enumerated().map {
                .init("r\($0)", $1, ["events": #"["*", "posthouse.*"]"#, "schedule": #"["50ms"]"#])
            })
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        // A message about an end is queued by the transaction that writes the end: an echo would never drain.
        #expect(try relay.database.drained())
        // Each gives up the webhook and the message about the other's end.
        #expect(try relay.database.count("dead_letters") == 4)
    }
}
