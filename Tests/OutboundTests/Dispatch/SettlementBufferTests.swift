import Synchronization
import Testing
import Vocabulary

@testable import Ledger
@testable import Outbound

@Suite("Attempts that ended, on their way into the ledger")
struct SettlementBufferTests {
    private struct Gone: Error {}

    /// A ledger that can be away; remembers what it was given.
    private final class Book: Sendable {
        private struct State {
            var batches: [[Int64]] = []
            var failuresLeft = 0
            var calls = 0
        }

        private let state = Mutex(State())
        let told: AsyncStream<Int>
        private let tell: AsyncStream<Int>.Continuation

        init(failing failures: Int = 0) {
            (told, tell) = AsyncStream.makeStream()
            state.withLock { $0.failuresLeft = failures }
        }

        var batches: [[Int64]] { state.withLock { $0.batches } }
        var calls: Int { state.withLock { $0.calls } }

        @Sendable func write(_ batch: [Settlement]) async throws -> Settled {
            try state.withLock { state in
                state.calls += 1
                if state.failuresLeft > 0 {
                    state.failuresLeft -= 1
                    throw Gone()
                }
                state.batches.append(batch.map(\.delivery.id))
            }
            return Settled()
        }

        @Sendable func settled(_: Settled) async { tell.yield(0) }
    }

    private func settlement(_ id: Int64) -> Settlement {
        let delivery = Delivery(
            id: id, integration: 1,
            message: Message(
                row: id, id: "msg_\(id)", event: id, eventID: "evt_\(id)", type: "RENEWED", source: "shop",
                transaction: nil, purchase: nil, purchaseKey: nil, transferID: nil, envelope: [], original: [],
                derivedBody: nil),
            attemptsMade: 0, createdAt: Timestamp(milliseconds: 0))
        return Settlement(
            delivery: delivery, verdict: .accepted, httpStatus: 200, latencyMilliseconds: 1, failure: nil)
    }

    @Test("What is appended is written, without anybody closing anything")
    func writes() async {
        let buffer = SettlementBuffer()
        let book = Book()
        let running = Task { await buffer.run(settle: book.write, settled: book.settled) }
        var told = book.told.makeAsyncIterator()
        for id in 1...3 as ClosedRange<Int64> {
            buffer.append(settlement(id))
            _ = await told.next()
            #expect(book.batches.flatMap(\.self).max() == id)
        }
        #expect(buffer.depth == 0)
        buffer.close()
        await running.value
    }

    @Test("Closing writes everything first, in batches no wider than the limit, nothing twice")
    func closes() async {
        let buffer = SettlementBuffer()
        let book = Book()
        let count = Int64(Limits.settleBatchMax * 2 + 7)
        for id in 1...count { buffer.append(settlement(id)) }
        #expect(buffer.depth == Int(count))
        buffer.close()
        await buffer.run(settle: book.write, settled: book.settled)
        #expect(book.batches.flatMap(\.self).sorted() == Array(1...count))
        #expect(book.batches.map(\.count).sorted() == [7, Limits.settleBatchMax, Limits.settleBatchMax])
        #expect(buffer.depth == 0)
    }

    @Test("A settle that fails is tried again until it succeeds, with the same deliveries")
    func retries() async {
        let buffer = SettlementBuffer()
        let book = Book(failing: 3)
        for id in 1...5 as ClosedRange<Int64> { buffer.append(settlement(id)) }
        buffer.close()
        await buffer.run(settle: book.write, settled: book.settled)
        #expect(book.batches.flatMap(\.self).sorted() == [1, 2, 3, 4, 5] && book.calls == book.batches.count + 3)
    }

    @Test("Without a database, cancelling after closing ends it")
    func cancelled() async {
        let buffer = SettlementBuffer()
        let book = Book(failing: .max)
        for id in 1...3 as ClosedRange<Int64> { buffer.append(settlement(id)) }
        let running = Task { await buffer.run(settle: book.write, settled: book.settled) }
        while book.calls == 0 { await Task.yield() }
        buffer.close()
        running.cancel()
        await running.value
        #expect(book.batches.isEmpty)
    }

    @Test("There is room up to the bound, counting what is being written")
    func room() async {
        let buffer = SettlementBuffer()
        for id in 1...Int64(Limits.settleBufferMax) {
            #expect(buffer.hasRoom)
            buffer.append(settlement(id))
        }
        #expect(!buffer.hasRoom)
        buffer.close()
        let book = Book()
        await buffer.run(settle: book.write, settled: book.settled)
        #expect(buffer.hasRoom && book.batches.map(\.count).reduce(0, +) == Limits.settleBufferMax)
    }
}
