import Foundation
import NIOCore
import Spool
import Testing
import Vocabulary

@testable import HTTPServer
@testable import Inbound
@testable import Ledger

/// Oracle: posthouse-operate(7), "The spool".
@Suite("A source that spools while its spool is away")
struct SpoolAwayTests {
    private static let source = SessionsFixtures.source(authentication: .none, secrets: [])

    @Test("Its webhooks are given to the ledger alone, and to the spool once that is open")
    func away() async throws {
        let directory = NSTemporaryDirectory() + "/phaway-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let opening = SpoolOpening(
            in: directory, every: .zero,
            open: {
                try await Spool.open(
                    directory: directory, bytesMax: 1 << 30, now: { Timestamp(milliseconds: 0) }, observe: { _ in })
            }, observe: { _ in })
        opening.tryAgain(after: "a test")
        let queue = RecordQueue(writers: 1)
        let path = InboundPath(
            source: Self.source, adapter: Sessions(), queue: queue,
            spooling: SpoolFallback(opening, isReachable: { false }),
            now: { Timestamp(milliseconds: 0) }, observe: { _ in })
        let head = IncomingHead(method: "POST", target: "/ingest/sessions")
        let request = IncomingRequest(head: head, body: Array(SessionsFixtures.login.utf8), startedAt: .now())
        path.receive(request) { _ in }
        #expect(queue.depth == 1)

        let opened = await opening.opened()
        let spool = try #require(opened)
        let status = await withCheckedContinuation { (continuation: CheckedContinuation<Int, Never>) in
            path.receive(request) { continuation.resume(returning: $0.status) }
        }
        #expect(status == 200 && queue.depth == 1 && spool.figures.webhooks == 1)
        await spool.close()
    }
}
