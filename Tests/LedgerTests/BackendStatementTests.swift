import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: psql and the answers.
@Suite("Recording: statements of the app's backend", .serialized)
struct BackendStatementTests {
    private static func statement(_ name: String, at time: Timestamp = seconds(0)) -> Event {
        Event(
            scope: Scope(source: "shop", app: "", environment: "PRODUCTION"), vendorEventID: nil, name: name,
            type: name, holder: .anonymous("A"), occurredAt: time, purchase: nil, transaction: nil, isOfBackend: true,
            body: Array("{}".utf8))
    }

    @Test("A statement that waited until its request was answered 503 is not stored: others may have come since")
    func overdue() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let answers = Mutex<[RecordQueue.Answer]>([])
            let queue = RecordQueue(writers: 1)
            queue.submit(.event(Self.statement("LOGGED_OUT")), startedAt: ContinuousClock.now - .seconds(9)) { answer in
                answers.withLock { $0.append(answer) }
            }
            queue.close()
            await daemon.recorder(queue).run()
            #expect(answers.withLock { $0 } == [.unavailable])
            #expect(try ledger.psql("SELECT count(*) FROM events") == "0")
        }
    }
}
