import Testing
import Vocabulary

@testable import Observing

@Suite struct LastMinuteTests {
    private let stored = SourceAnswer(source: "shop", kind: .stored)
    private let refused = SourceAnswer(source: "shop", kind: .refused(401))
    private let start = ContinuousClock.now

    @Test func theFirstLookCountsFromTheStart() {
        var minutes = LastMinute(start: start)
        let (minute, sinceLast) = minutes.look([stored: 3], at: start + .seconds(5))
        #expect(minute == [stored: 3] && sinceLast == [stored: 3])
    }

    @Test func whatIsOlderThanAMinuteIsGone() {
        var minutes = LastMinute(start: start)
        _ = minutes.look([stored: 3], at: start + .seconds(5))
        // Looked at every 5 s: at 65 s the three are a minute old.
        for second in stride(from: 10, through: 60, by: 5) {
            let (minute, sinceLast) = minutes.look([stored: 3, refused: 1], at: start + .seconds(second))
            #expect(minute == [stored: 3, refused: 1], "\(second)")
            #expect(sinceLast == (second == 10 ? [refused: 1] : [:]))
        }
        #expect(minutes.look([stored: 3, refused: 1], at: start + .seconds(65)).minute == [refused: 1])
        #expect(minutes.look([stored: 4, refused: 1], at: start + .seconds(70)).minute == [stored: 1])
        #expect(minutes.look([stored: 4, refused: 1], at: start + .seconds(200)).minute.isEmpty)
    }

    @Test func aDaemonThatStoodStillCountsFromItsLastLook() {
        var minutes = LastMinute(start: start)
        _ = minutes.look([stored: 1], at: start + .seconds(5))
        // Nobody knows when in those ten minutes they came.
        #expect(minutes.look([stored: 9], at: start + .seconds(600)).minute == [stored: 8])
    }

    @Test func theAnswersOfTheCounters() {
        var tally = MetricsTally()
        let trail = EventTrail(
            source: "shop", event: "e", name: "n", transaction: nil, purchase: nil, messages: 0, deliveries: 0)
        tally.expect(sources: ["quiet"], integrations: [])
        tally.count(.eventRecorded(trail, duplicate: false))
        tally.count(.eventRecorded(trail, duplicate: true))
        tally.count(.quarantined(source: "shop", quarantine: 1, reason: "r"))
        tally.count(.refused(source: "shop", status: 401, reason: "r"))
        tally.count(.unverified(source: "shop", reason: "r"))
        tally.count(.refused(source: "", status: 404, reason: "r"))
        #expect(
            tally.answers == [
                stored: 2, refused: 1, SourceAnswer(source: "shop", kind: .quarantined): 1,
                SourceAnswer(source: "shop", kind: .refused(503)): 1,
                SourceAnswer(source: "", kind: .refused(404)): 1,
            ])
    }
}
