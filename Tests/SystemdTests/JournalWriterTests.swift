import Foundation
import Glibc
import Synchronization
import Testing

@testable import Systemd

@Suite struct JournalWriterTests {
    /// A sink that keeps what it gets and, where told to, waits for its gate before it takes anything.
    private final class Recorder: Sendable {
        let taken = Mutex<[String]>([])
        let batches = Mutex<[Int]>([])
        let entered = DispatchSemaphore(value: 0)
        let gate: DispatchSemaphore?

        init(gated: Bool = false) { gate = gated ? DispatchSemaphore(value: 0) : nil }

        func take(_ batch: [String]) -> Int {
            entered.signal()
            gate?.wait()
            taken.withLock { $0 += batch }
            batches.withLock { $0.append(batch.count) }
            return 0
        }

        /// From now on nothing waits.
        func open() { for _ in 0..<100_000 { gate?.signal() } }
    }

    private func writer(
        _ recorder: Recorder, room: Int = 1_000, batch: Int = 16, tick: Duration = .seconds(3_600),
        sink: (@Sendable ([String]) -> Int)? = nil
    ) throws -> JournalWriter<String> {
        try JournalWriter(
            queueEntriesMax: room, batchEntriesMax: batch, tickInterval: tick, sink: sink ?? { recorder.take($0) },
            tick: { dropped, isLast in dropped > 0 ? ["dropped \(dropped)"] : isLast ? ["last"] : [] })
    }

    @Test func everythingComesOutInOrderAndInBoundedBatches() throws {
        let recorder = Recorder()
        let writer = try writer(recorder)
        let posted = (0..<900).map { "entry \($0)" }
        posted.forEach(writer.post)
        #expect(writer.close(within: .seconds(600)))
        #expect(recorder.taken.withLock { $0 } == posted + ["last"])
        #expect(recorder.batches.withLock { $0.max() ?? 0 } <= 16)
        #expect(writer.droppedTotal == 0)
    }

    @Test func manyThreadsLoseNothingAndKeepTheirOwnOrder() async throws {
        let recorder = Recorder()
        let writer = try writer(recorder, room: 100_000, batch: 64)
        await withTaskGroup { group in
            for thread in 0..<8 {
                group.addTask { for number in 0..<1_000 { writer.post("\(thread) \(number)") } }
            }
        }
        #expect(writer.close(within: .seconds(600)))
        let taken = recorder.taken.withLock { $0.dropLast() }
        #expect(taken.count == 8_000)
        for thread in 0..<8 {
            #expect(taken.filter { $0.hasPrefix("\(thread) ") } == (0..<1_000).map { "\(thread) \($0)" })
        }
    }

    /// The sink hangs: posting goes on, what is over the bound is counted, and the report says how much was lost.
    @Test func aHangingSinkBlocksNobodyAndDropsAreCounted() throws {
        let recorder = Recorder(gated: true)
        let writer = try writer(recorder, room: 100, batch: 1)
        writer.post("first")
        recorder.entered.wait()
        for number in 0..<1_000 { writer.post("entry \(number)") }
        #expect(writer.droppedTotal == 900)
        recorder.open()
        #expect(writer.close(within: .seconds(600)))
        let taken = recorder.taken.withLock { $0 }
        #expect(taken == ["first"] + (0..<100).map { "entry \($0)" } + ["dropped 900"])
    }

    @Test func closingDoesNotWaitForASinkThatHangs() throws {
        let recorder = Recorder(gated: true)
        let writer = try writer(recorder)
        writer.post("first")
        recorder.entered.wait()
        #expect(!writer.close(within: .milliseconds(20)))
        recorder.open()
        #expect(writer.close(within: .seconds(600)))
        #expect(writer.close(within: .zero), "closed stays closed")
    }

    @Test func whatTheSinkCannotWriteCountsAsDropped() throws {
        let recorder = Recorder()
        let writer = try writer(recorder) { batch in
            let kept = batch.filter { $0 != "bad" }
            _ = recorder.take(kept)
            return batch.count - kept.count
        }
        ["good", "bad", "good", "bad"].forEach(writer.post)
        #expect(writer.close(within: .seconds(600)))
        #expect(writer.droppedTotal == 2)
        #expect(recorder.taken.withLock { $0 } == ["good", "good", "dropped 2"])
    }

    @Test func theTickReportsWhileTheWriterLives() throws {
        let recorder = Recorder()
        let ticked = DispatchSemaphore(value: 0)
        let writer = try JournalWriter<String>(
            queueEntriesMax: 1, batchEntriesMax: 1, tickInterval: .milliseconds(5), sink: { recorder.take($0) },
            tick: { _, isLast in
                if !isLast { ticked.signal() }
                return isLast ? [] : ["tick"]
            })
        ticked.wait()
        ticked.wait()
        #expect(writer.close(within: .seconds(600)))
        #expect(recorder.taken.withLock { $0.count } >= 2)
    }

    @Test func nothingIsTakenAfterTheClose() throws {
        let recorder = Recorder()
        let writer = try writer(recorder)
        #expect(writer.close(within: .seconds(600)))
        writer.post("late")
        #expect(writer.droppedTotal == 1)
        #expect(recorder.taken.withLock { $0 } == ["last"])
    }

    /// A socket holds some 200 KiB: the rest has to wait for its reader, though the descriptor is non-blocking.
    @Test func linesWaitForAFullPipe() async throws {
        var ends: [Int32] = [0, 0]
        // Not for a child that another test starts: the end would never come (pipe(2) cannot say that).
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0, &ends) == 0)
        let (reading, writing) = (ends[0], ends[1])
        defer { close(reading) }
        _ = fcntl(writing, F_SETFL, O_NONBLOCK)
        let sent = (0..<300_000).map { UInt8(truncatingIfNeeded: $0) }
        async let received = Task.detached {
            var all: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 8_192)
            while case let count = read(reading, &buffer, buffer.count), count > 0 { all += buffer.prefix(count) }
            return all
        }.value
        #expect(LineOutput.write(sent, to: writing))
        close(writing)
        #expect(await received == sent)
    }

    @Test func aRecordIsNameEqualsValueWithAnyBytes() {
        var record = JournalRecord()
        record.append("MESSAGE", "two\nlines")
        record.append("POSTHOUSE_EVENT", "")
        #expect(record.bytes == Array("MESSAGE=two\nlinesPOSTHOUSE_EVENT=".utf8))
        #expect(record.ends == [17, 33])
    }
}
