import Linux
import Testing
import Vocabulary

@testable import Spool

/// Whether there is room. Oracle: what Limits and `[spool] max` say of bytes.
@Suite("What the spool counts")
struct SpoolTallyTests {
    private static let now = Timestamp(milliseconds: 1_000)

    @Test("The sum of what waits and of what is being written never passes the maximum")
    func bounded() {
        var tally = SpoolTally(bytesMax: 10_000)
        #expect(tally.problem(with: 10_000) == nil && tally.problem(with: 10_001) != nil)
        tally.reserve(4_096)
        #expect(tally.problem(with: 5_904) == nil && tally.problem(with: 5_905) != nil)
        tally.release(4_096)
        #expect(tally.add(bytes: 8_192, at: Self.now) == true)
        #expect(tally.problem(with: 1_808) == nil && tally.problem(with: 1_809) != nil)
        #expect(tally.remove(bytes: 8_192, isRecorded: true) == 1)
        #expect(tally.problem(with: 10_000) == nil && tally.figures == SpoolFigures())
    }

    @Test("A tenth of a small disk stays free, 1 GiB of a large one")
    func headroom() {
        let gib = 1 << 30
        for (size, headroom) in [(gib, gib / 10), (10 * gib, gib), (1_000 * gib, gib)] {
            var tally = SpoolTally(bytesMax: .max / 2)
            tally.disk = DiskSpace(sizeBytes: size, availableBytes: headroom + 4_096)
            #expect(tally.problem(with: 4_096) == nil && tally.problem(with: 4_097) != nil)
            tally.reserve(1)
            #expect(tally.problem(with: 4_096) != nil, "what is being written takes room, too")
        }
    }

    @Test("There is room for a webhook while the largest would be taken, and nothing has just failed")
    func room() {
        var tally = SpoolTally(bytesMax: Limits.requestBodyBytesMax)
        #expect(tally.hasRoom)
        tally.failure = "no space left on device"
        #expect(!tally.hasRoom)
        tally.failure = nil
        tally.reserve(1)
        #expect(!tally.hasRoom)
    }

    @Test("The first that waits and the last that leaves are told apart, with the number recorded between")
    func spans() {
        var tally = SpoolTally(bytesMax: .max)
        #expect(tally.add(bytes: 1, at: Self.now) == true)
        #expect(tally.add(bytes: 2, at: Timestamp(milliseconds: 500)) == false)
        #expect(tally.add(bytes: 3, at: Timestamp(milliseconds: 2_000)) == false)
        #expect(tally.figures == SpoolFigures(webhooks: 3, bytes: 6, oldestAt: Timestamp(milliseconds: 500)))
        #expect(tally.remove(bytes: 2, isRecorded: true) == nil)
        #expect(tally.remove(bytes: 1, isRecorded: false) == nil)
        #expect(tally.remove(bytes: 3, isRecorded: true) == 2)
        #expect(tally.figures == SpoolFigures())
    }

    @Test("What a listing finds replaces the counts; what was added while it was made is counted on top")
    func listed() {
        func file(_ number: UInt64, at milliseconds: Int64) -> SpoolFile {
            SpoolFile(
                folder: "f", name: SpoolName(number: number, source: "a"), sizeBytes: 10,
                writtenAt: Timestamp(milliseconds: milliseconds))
        }
        var tally = SpoolTally(bytesMax: .max)
        _ = tally.add(bytes: 4_096, at: Timestamp(milliseconds: 100))
        let before = tally.added
        _ = tally.add(bytes: 8_192, at: Self.now)
        // Somebody has copied a file there.
        tally.found([file(1, at: 100), file(2, at: 50)], addedBefore: before)
        #expect(
            tally.figures == SpoolFigures(webhooks: 3, bytes: 2 * 4_096 + 8_192, oldestAt: Timestamp(milliseconds: 50)))
        // Somebody has removed all by hand.
        tally.found([], addedBefore: before)
        #expect(tally.figures.webhooks == 1 && tally.figures.bytes == 8_192 && tally.figures.oldestAt != nil)
        tally.found([], addedBefore: tally.added)
        #expect(tally.figures == SpoolFigures())
    }

    @Test("What waits in memory for a slow disk is bounded; one webhook may always wait, however large it is")
    func backlog() {
        var tally = SpoolTally(bytesMax: .max)
        #expect(tally.backlog(before: 2 * Limits.spoolPendingBytesMax) == nil)
        tally.reserve(Limits.spoolPendingBytesMax - 4_096)
        #expect(tally.backlog(before: 4_096) == nil)
        #expect(tally.backlog(before: 4_097)?.contains("slow") == true)
    }
}
