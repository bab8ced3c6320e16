import Foundation
import Synchronization
import Testing
import Systemd
import Vocabulary

@testable import Observing

@Suite struct ObservatoryTests {
    private final class Sink: Sendable {
        let messages = Mutex<[String]>([])
        let gate: DispatchSemaphore?
        let entered = DispatchSemaphore(value: 0)

        init(gated: Bool = false) { gate = gated ? DispatchSemaphore(value: 0) : nil }

        func take(_ batch: [Observatory.TimedObservation]) -> Int {
            entered.signal()
            gate?.wait()
            messages.withLock { $0 += batch.map { JournalEntry($0.observation).message } }
            return 0
        }
    }

    private func observatory(_ sink: Sink, detail: Int = 1_000, room: Int = 10_000) throws -> Observatory {
        try Observatory(
            version: "1", detailPerSecond: detail, queueEntriesMax: room, tick: .seconds(3_600),
            now: { Timestamp(milliseconds: 1_000) }, sink: { sink.take($0) })
    }

    @Test func anObservationIsBothWrittenAndCounted() throws {
        let sink = Sink()
        let observatory = try observatory(sink)
        let observer = observatory.observer
        observer(.attempt(.sample()))
        observer(.databaseRecovered)
        #expect(observatory.close(within: .seconds(600)))
        #expect(
            sink.messages.withLock { $0 } == [
                "delivered SUBSCRIPTION_RECEIVED to backend (200 in 12 ms, attempt 1) transaction 100000099999999",
                "database is back",
            ])
        let page = observatory.metricsPage(gauges: Gauges(databaseIsUp: true, queues: []))
        #expect(page.contains(#"posthouse_attempts_total{integration="backend",outcome="accepted"} 1"#))
    }

    @Test func aBusySecondEndsInASumAndTheMetricsKnowThemAll() throws {
        let sink = Sink()
        let observatory = try observatory(sink, detail: 10)
        for _ in 0..<100 { observatory.observe(.attempt(.sample())) }
        #expect(observatory.close(within: .seconds(600)))
        let messages = sink.messages.withLock { $0 }
        #expect(messages.count == 11)
        #expect(messages.last?.hasPrefix("delivered 90 messages to backend within a second") == true)
        let page = observatory.metricsPage(gauges: Gauges(databaseIsUp: true, queues: []))
        #expect(page.contains(#"posthouse_attempts_total{integration="backend",outcome="accepted"} 100"#))
    }

    @Test func aSlowJournalHoldsNobodyUpAndItsDropsAreLoggedAndCounted() throws {
        let sink = Sink(gated: true)
        let observatory = try observatory(sink, room: 100)
        observatory.observe(.databaseRecovered)
        sink.entered.wait()
        for _ in 0..<1_000 { observatory.observe(.warning("again")) }
        for _ in 0..<100 { sink.gate?.signal() }
        #expect(observatory.close(within: .seconds(600)))
        let messages = sink.messages.withLock { $0 }
        #expect(messages.count == 102)
        #expect(messages.last == "900 entries lost: the journal did not keep up; nothing else was lost")
        let page = observatory.metricsPage(gauges: Gauges(databaseIsUp: true, queues: []))
        #expect(page.contains("posthouse_journal_dropped_total 900\n"))
    }
}
