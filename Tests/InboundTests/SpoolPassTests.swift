import Spool
import Testing
import Vocabulary

@testable import Inbound

/// What of the spool is tried, and in which order. Oracle: every file that can be recorded is, whatever else waits.
@Suite("A pass over the spool")
struct SpoolPassTests {
    private static func file(_ number: Int, _ source: String = "a", bytes: Int = 1) -> SpoolFile {
        SpoolFile(
            folder: "0123456789abcdef", name: SpoolName(number: UInt64(number), source: source), sizeBytes: bytes,
            writtenAt: Timestamp(milliseconds: Int64(number)))
    }

    /// One pass, in which `accepts` are committed.
    /// - Returns: the batches that were tried.
    private func run(
        _ files: [SpoolFile], after resumesAfter: inout [String: SpoolFile], serves: (String) -> Bool = { _ in true },
        accepts: (SpoolFile) -> Bool
    ) -> [[SpoolFile]] {
        var pass = SpoolPass(files, after: resumesAfter)
        var batches: [[SpoolFile]] = []
        while true {
            let batch = pass.next(serves: serves)
            if batch.isEmpty { break }
            batches.append(batch)
            pass.tried(batch, committed: batch.filter(accepts))
        }
        resumesAfter = pass.resumesAfter
        return batches
    }

    @Test("A batch is bounded by number and bytes, a larger file comes by itself, and each file comes once, in order")
    func bounded() {
        var after: [String: SpoolFile] = [:]
        let many = (0..<600).map { Self.file($0) }
        let batches = run(many, after: &after) { _ in true }
        #expect(batches.map(\.count) == [256, 256, 88] && batches.flatMap(\.self) == many)
        let large = [20 << 20, 5 << 20, 5 << 20, 1].enumerated().map { Self.file($0.offset, bytes: $0.element) }
        #expect(run(large, after: &after) { _ in true }.map(\.count) == [1, 1, 2])
        #expect(after.isEmpty)
    }

    @Test("Webhooks of a source that is not configured are not tried, and hold up nothing")
    func unconfigured() {
        var after: [String: SpoolFile] = [:]
        let files = (0..<400).map { Self.file($0, $0 % 2 == 0 ? "gone" : "here") }
        let batches = run(files, after: &after, serves: { $0 == "here" }) { _ in true }
        #expect(batches.flatMap(\.self) == files.filter { $0.name.source == "here" })
    }

    @Test("A source of which a batch was refused whole rests for a pass; the other sources go on")
    func skippedSources() {
        var after: [String: SpoolFile] = [:]
        let files = (0..<300).map { Self.file($0, "away") } + (300..<900).map { Self.file($0, "here") }
        let tried = run(files, after: &after) { $0.name.source == "here" }.flatMap(\.self)
        #expect(tried.count { $0.name.source == "away" } == 256)
        #expect(tried.count { $0.name.source == "here" } == 600)
    }

    @Test("What can never be recorded, however many it is, holds up nothing that came after it, and is tried again")
    func refusedForGood() {
        var after: [String: SpoolFile] = [:]
        var waiting = (0..<1_000).map { Self.file($0) }
        let last = waiting.suffix(10)
        var attempts: [SpoolFile: Int] = [:]
        for _ in 0..<12 {
            for file in run(waiting, after: &after, accepts: { last.contains($0) }).flatMap(\.self) {
                attempts[file, default: 0] += 1
            }
            waiting.removeAll { last.contains($0) && attempts[$0] != nil }
        }
        #expect(waiting.count == 990 && !waiting.contains { last.contains($0) })
        #expect(waiting.allSatisfy { attempts[$0, default: 0] >= 2 })
    }

    @Test("Where the next pass was to begin has been removed meanwhile: the one after it begins with the oldest")
    func beginningGone() {
        var after = ["a": Self.file(7)]
        let files = (0..<3).map { Self.file($0) }
        #expect(run(files, after: &after) { _ in true }.isEmpty)
        #expect(run(files, after: &after) { _ in true } == [files])
    }
}
