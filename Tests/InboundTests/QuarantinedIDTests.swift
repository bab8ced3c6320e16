import NIOCore
import Spool
import Testing
import Vocabulary

@testable import HTTPServer
@testable import Inbound
@testable import Ledger

/// What quarantine gets of a webhook that cannot be read, besides its body. Oracle: Domain.md, "Event key".
@Suite("The event's id of a webhook that cannot be read")
struct QuarantinedIDTests {
    private static let source = SessionsFixtures.source(authentication: .none, secrets: [])
    private static let body = Array(#"{"no":"event"}"#.utf8)

    private func path(_ queue: RecordQueue, _ adapter: any SourceAdapter) -> InboundPath {
        InboundPath(
            source: Self.source, adapter: adapter, queue: queue, now: { Timestamp(milliseconds: 0) }, observe: { _ in })
    }

    private func kept(by queue: RecordQueue) async throws -> QuarantinedBody {
        queue.close()
        let item = await queue.next(for: 0, upTo: 10)?.first?.item
        guard case .quarantine(let kept)? = item else { throw Unreadable(reason: "it is not quarantined") }
        return kept
    }

    private static let longest = String(repeating: "m", count: Limits.identifierBytesMax)

    @Test(
        "It is the webhook-id, if the kind reads one and would take this one",
        arguments: [("msg-1", "msg-1"), (nil, nil), ("", nil), (longest, longest), (longest + "m", nil)]
            as [(String?, String?)])
    func header(_ given: String?, _ expected: String?) async throws {
        let adapters: [(adapter: any SourceAdapter, id: String?)] = [(Sessions(), expected), (Apphud(), nil)]
        for (adapter, id) in adapters {
            let queue = RecordQueue(writers: 1)
            let headers = given.map { [("Webhook-Id", $0)] } ?? []
            let head = IncomingHead(method: "POST", target: "/ingest/sessions", headers: headers)
            path(queue, adapter).receive(IncomingRequest(head: head, body: Self.body, startedAt: .now())) { _ in }
            let kept = try await kept(by: queue)
            #expect(kept.body == Self.body && kept.eventID == id)
        }
    }

    @Test("From the spool it is the same")
    func spooled() async throws {
        let queue = RecordQueue(writers: 1)
        let webhook = SpooledWebhook(
            source: "sessions", receivedAt: Timestamp(milliseconds: 0),
            headers: [SpooledWebhook.Header(name: "webhook-id", value: "msg-1")], body: Self.body)
        path(queue, Sessions()).record(webhook) { _ in }
        #expect(try await kept(by: queue).eventID == "msg-1")
    }
}
