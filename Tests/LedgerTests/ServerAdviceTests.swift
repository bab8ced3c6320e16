import Postgres
import TestSupport
import Testing

@testable import Ledger

@Suite("Advice on the settings of the operator's own PostgreSQL")
struct ServerAdviceTests {
    @Test("A server as PostgreSQL ships it gets a line for each setting, one with the private cluster's settings none")
    func lines() {
        let shipped = ServerAdvice(
            walCompression: "off", hasLZ4: true, sharedBuffers: 128 << 20, maxWAL: 1 << 30, checkpointTimeout: 300,
            maxLocksPerTransaction: 64, locks: 6_400)
        #expect(
            shipped.lines.map { String($0.prefix { $0 != " " }) }
                == [
                    "wal_compression", "shared_buffers", "max_wal_size", "checkpoint_timeout",
                    "max_locks_per_transaction",
                ])
        #expect(shipped.lines.contains { $0.hasPrefix("max_wal_size = 1024MB") })
        let tuned = ServerAdvice(
            walCompression: "lz4", hasLZ4: true, sharedBuffers: 256 << 20, maxWAL: 2 << 30, checkpointTimeout: 1_800,
            maxLocksPerTransaction: 256, locks: 25_600)
        #expect(tuned.lines.isEmpty)
        let withoutLZ4 = ServerAdvice(
            walCompression: "pglz", hasLZ4: false, sharedBuffers: 256 << 20, maxWAL: 2 << 30, checkpointTimeout: 1_800,
            maxLocksPerTransaction: 256, locks: 25_600)
        #expect(withoutLZ4.lines.isEmpty)
        let manyConnections = ServerAdvice(
            walCompression: "lz4", hasLZ4: true, sharedBuffers: 256 << 20, maxWAL: 2 << 30, checkpointTimeout: 1_800,
            maxLocksPerTransaction: 64, locks: 32_000)
        #expect(manyConnections.lines.isEmpty)
    }
}
