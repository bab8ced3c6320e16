import Synchronization
import Testing
import Vocabulary

@testable import Ledger
@testable import Outbound

@Suite("Attempts that ended, on their way into the ledger", .timeLimit(.minutes(30)))
struct SettlementBufferTests {
    /// A ledger that can be away, and can refuse; remembers what it was given.
    private final class Book: Sendable {
        private struct State {
            var batches: [[Int64]] = []
            var failuresLeft = 0
            var calls = 0
            var callsAtLastBatch = 0
            var refuses: @Sendable (Settlement) -> Bool = { _ in false }
            var texts: [Int64: String] = [:]
            var reports: [SettlementBuffer.Report] = []
        }

        private let state = Mutex(State())
        let settledCalls: AsyncStream<Int>
        private let settledCall: AsyncStream<Int>.Continuation

        init(failing failures: Int = 0) {
            (settledCalls, settledCall) = AsyncStream.makeStream()
            state.withLock { $0.failuresLeft = failures }
        }

        var batches: [[Int64]] { state.withLock { $0.batches } }
        var calls: Int { state.withLock { $0.calls } }
        /// How many there were when something was last written.
        var callsAtLastBatch: Int { state.withLock { $0.callsAtLastBatch } }

        var reports: [SettlementBuffer.Report] { state.withLock { $0.reports } }
        var texts: [Int64: String] { state.withLock { $0.texts } }
        var written: [Int64] { batches.flatMap(\.self).sorted() }

        func refuse(_ refuses: @escaping @Sendable (Settlement) -> Bool) { state.withLock { $0.refuses = refuses } }

        @Sendable func write(_ batch: [Settlement]) async throws(SettleFailure) -> Settled {
            let failure: SettleFailure? = state.withLock { state in
                state.calls += 1
                if state.failuresLeft > 0 {
                    state.failuresLeft -= 1
                    return .unavailable
                }
                if batch.contains(where: state.refuses) { return .refused(reason: "P0001") }
                state.batches.append(batch.map(\.delivery.id))
                state.callsAtLastBatch = state.calls
                for settlement in batch { state.texts[settlement.delivery.id] = settlement.failure }
                return nil
            }
            if let failure { throw failure }
            return Settled()
        }

        @Sendable func note(_ report: SettlementBuffer.Report) { state.withLock { $0.reports.append(report) } }

        @Sendable func settled(_: Settled) async { settledCall.yield(0) }
    }

    private func settlement(_ id: Int64, failure: String? = nil) -> Settlement {
        let delivery = Delivery(
            id: id, lease: 1, integration: 1,
            message: Message(
                row: id, id: "msg_\(id)", eventID: "evt_\(id)", type: "RENEWED", source: "shop",
                transaction: nil, purchase: nil, purchaseKey: nil, transferID: nil, envelope: [], original: [],
                derivedBody: nil),
            attemptsMade: 0, createdAt: Timestamp(milliseconds: 0))
        return Settlement(
            delivery: delivery, verdict: failure == nil ? .accepted : .dead(reason: "answered 400"), httpStatus: 200,
            latencyMilliseconds: 1, failure: failure)
    }

    /// Looks until `isReached` holds; the time limit of the suite ends it.
    private func wait(until isReached: () -> Bool) async throws {
        while !isReached() { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test("What is appended is written, without anybody closing anything")
    func writes() async throws {
        let buffer = SettlementBuffer()
        let book = Book()
        let running = Task { await buffer.run(settle: book.write, settled: book.settled) }
        var settledCalls = book.settledCalls.makeAsyncIterator()
        for id in 1...3 as ClosedRange<Int64> {
            buffer.append(settlement(id))
            _ = await settledCalls.next()
            #expect(book.batches.flatMap(\.self).max() == id)
        }
        // A writer counts what it has written after it has said so.
        try await wait { buffer.depth == 0 }
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
    func cancelled() async throws {
        let buffer = SettlementBuffer()
        let book = Book(failing: .max)
        for id in 1...3 as ClosedRange<Int64> { buffer.append(settlement(id)) }
        let running = Task { await buffer.run(settle: book.write, settled: book.settled) }
        try await wait { book.calls > 0 }
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

    // MARK: Refused

    @Test(
        "One settlement that is refused for good keeps nothing else from being written, and is written when it can be")
    func refusedAlone() async throws {
        let buffer = SettlementBuffer()
        let book = Book()
        book.refuse { $0.delivery.id == 700 }
        for id in 1...Int64(Limits.settleBatchMax) { buffer.append(settlement(id)) }
        let running = Task { await buffer.run(settle: book.write, settled: book.settled, report: book.note) }
        try await wait { book.written.count >= Limits.settleBatchMax - 1 }
        // Not those since then, by which what is refused is tried again: on a busy machine there are more of them.
        #expect(!book.written.contains(700) && book.callsAtLastBatch <= 25)
        try await wait { !book.reports.isEmpty }
        #expect(buffer.depth == 1 && buffer.hasRoom)
        for id in 2_001...2_500 as ClosedRange<Int64> { buffer.append(settlement(id)) }
        try await wait { book.written.count >= Limits.settleBatchMax + 499 }
        book.refuse { _ in false }
        try await wait { buffer.depth == 0 }
        #expect(book.written.filter { $0 == 700 }.count == 1)
        buffer.close()
        await running.value
        #expect(book.reports == [.refused(reason: "P0001"), .allSettled])
    }

    @Test("What is refused for its text is written without it")
    func refusedText() async {
        let buffer = SettlementBuffer()
        let book = Book()
        book.refuse { $0.failure?.contains("☃") ?? false }
        for id in 1...20 as ClosedRange<Int64> {
            buffer.append(settlement(id, failure: id == 7 ? "answered 400: ☃" : "answered 400: no"))
        }
        buffer.close()
        await buffer.run(settle: book.write, settled: book.settled, report: book.note)
        #expect(book.written == Array(1...20))
        #expect(book.texts[7] == "the database refused the text of this failure" && book.texts[6] == "answered 400: no")
        #expect(book.reports.isEmpty)
    }

    @Test("A table that takes nothing: no more starts at the bound, nothing is lost, little is tried, all drains after")
    func allRefused() async throws {
        let buffer = SettlementBuffer()
        let book = Book()
        book.refuse { _ in true }
        let count = Int64(Limits.settleRefusedMax * 3)
        for id in 1...count { buffer.append(settlement(id)) }
        let began = ContinuousClock.now
        let running = Task { await buffer.run(settle: book.write, settled: book.settled, report: book.note) }
        try await wait { !buffer.hasRoom }
        #expect(buffer.depth == Int(count) && book.written.isEmpty)
        let calls = book.calls
        // What is refused is tried again, once a tick at most: on a busy machine this looks later.
        let retries = Int((ContinuousClock.now - began) / Limits.settleRefusedTick)
        #expect(calls <= (6 + 2 * retries) * Limits.settleRefusalsMax)
        book.refuse { _ in false }
        try await wait { buffer.depth == 0 }
        #expect(book.written == Array(1...count) && buffer.hasRoom)
        buffer.close()
        await running.value
        #expect(book.reports == [.refused(reason: "P0001"), .allSettled])
    }

    @Test("Closing does not wait for what is refused: it is tried once more, and said to be left")
    func closesWithRefused() async {
        let buffer = SettlementBuffer()
        let book = Book()
        book.refuse { $0.delivery.id % 100 == 0 }
        for id in 1...300 as ClosedRange<Int64> { buffer.append(settlement(id)) }
        buffer.close()
        await buffer.run(settle: book.write, settled: book.settled, report: book.note)
        #expect(book.written == (1...300).filter { $0 % 100 != 0 })
        #expect(book.reports == [.refused(reason: "P0001"), .left(3)])
    }

    @Test("A settlement that always times out is found, too")
    func timesOut() async {
        let buffer = SettlementBuffer()
        for id in 1...4 as ClosedRange<Int64> { buffer.append(settlement(id)) }
        buffer.close()
        let written = Mutex<[Int64]>([])
        await buffer.run(
            settle: { batch throws(SettleFailure) in
                let ids = batch.map(\.delivery.id)
                if ids.contains(3) { throw .timedOut(reason: "57014") }
                written.withLock { $0 += ids }
                return Settled()
            }, settled: { _ in })
        #expect(written.withLock { $0.sorted() } == [1, 2, 4])
    }
}
