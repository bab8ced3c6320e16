import Foundation
import Spool
import Synchronization
import Testing
import Vocabulary

@testable import Inbound
@testable import Ledger

/// Oracle: what is given to the ledger.
@Suite("Recording what waits in the spool")
struct SpoolDrainTests {
    private static func ingest(app: String, _ queue: RecordQueue) -> Ingest {
        let servers = FakeServers { _ in .failure(OutgoingFailure("none")) }
        let stores = StoreClients(
            clock: StoodClock().clock, send: servers.send, readFile: { _, _ in .failure(OutgoingFailure("none")) },
            readURL: { _ in nil }, observe: servers.observe)
        return Ingest(
            sources: [purchaselySource(app: app)], stores: stores, lookups: .unreachable, queue: queue, spooling: nil,
            bodyBytesMax: 1 << 20, now: { Timestamp(milliseconds: 0) }, observe: { _ in })
    }

    private static func take(_ count: Int, from queue: RecordQueue) async throws -> [RecordQueue.Pending] {
        var taken: [RecordQueue.Pending] = []
        while taken.count < count {
            taken += try #require(await queue.next(for: 0, upTo: count - taken.count))
        }
        return taken
    }

    private static func apps(_ pending: [RecordQueue.Pending]) -> Set<String> {
        Set(pending.map { if case .event(let event) = $0.item { event.scope.app } else { "quarantine" } })
    }

    @Test("A reload between two batches of a pass: the second is read by the source as it is from then on")
    func reloaded() async throws {
        let directory = NSTemporaryDirectory() + "/phdrain-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let spool = try await Spool.open(
            directory: directory, bytesMax: 1 << 30, now: { Timestamp(milliseconds: 0) }, observe: { _ in })
        let webhook = SpooledWebhook(
            source: "purchasely", receivedAt: Timestamp(milliseconds: 0), headers: [], body: Array(body().utf8))
        let (batch, rest) = (Limits.spoolDrainWebhooksMax, 44)
        let written = Mutex(0)
        for _ in 0..<(batch + rest) {
            spool.write(webhook, because: "a test") { answer in
                if answer == .written { written.withLock { $0 += 1 } }
            }
        }
        #expect(await comesToHold { written.withLock { $0 } == batch + rest })

        let queue = RecordQueue(writers: 1)
        let drain = SpoolDrain(mayRecord: { true })
        drain.adopt(Self.ingest(app: "before", queue))
        let running = Task { await drain.run(spool) }
        let first = try await Self.take(batch, from: queue)
        // The next batch is not chosen before these are committed.
        drain.adopt(Self.ingest(app: "after", queue))
        for pending in first { pending.submitter.fallback?.committed() }
        let second = try await Self.take(rest, from: queue)
        #expect(Self.apps(first) == ["before"])
        #expect(Self.apps(second) == ["after"])
        for pending in second { pending.submitter.fallback?.committed() }
        #expect(await comesToHold { spool.figures.webhooks == 0 })
        running.cancel()
        await spool.close()
        await running.value
    }
}
