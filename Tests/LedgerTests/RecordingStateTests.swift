import Testing
import Vocabulary

@testable import Ledger

@Suite struct RecordingStateTests {
    private let start = ContinuousClock.now

    @Test func oneReportForAnOutageAndOneForItsEnd() {
        var state = RecordingState()
        #expect(state.reason(at: start) == nil)
        #expect(state.stored(at: start) == false)
        #expect(state.refused("full", at: start) == true)
        #expect(state.refused("full", at: start + .seconds(1)) == false)
        #expect(state.reason(at: start + .seconds(1)) == "full")
        #expect(state.stored(at: start + .seconds(2)) == true)
        #expect(state.reason(at: start + .seconds(2)) == nil)
        #expect(state.stored(at: start + .seconds(200)) == false)
    }

    /// Where /readyz keeps requests away, no webhook would ever show that the cause is gone.
    @Test func aRefusalIsForgottenAfterAWhileButReportedAsOneOutage() {
        var state = RecordingState()
        #expect(state.refused("full", at: start) == true)
        let later = start + Limits.recordingRefusalMemory
        #expect(state.reason(at: later - .milliseconds(1)) == "full")
        #expect(state.reason(at: later) == nil)
        #expect(state.refused("full", at: later + .seconds(120)) == false)
        #expect(state.reason(at: later + .seconds(120)) == "full")
        #expect(state.stored(at: later + .seconds(121)) == true)
    }

    @Test func aRelapseIsReportedAtOnceAndItsEndOnceItLasts() {
        var state = RecordingState()
        #expect(state.refused("full", at: start) == true)
        #expect(state.stored(at: start + .seconds(4)) == true)
        #expect(state.refused("full", at: start + .seconds(5)) == true)
        #expect(state.stored(at: start + .seconds(6)) == false)
        #expect(state.reason(at: start + .seconds(6)) == nil)
        #expect(state.stored(at: start + .seconds(64)) == true)
        #expect(state.stored(at: start + .seconds(200)) == false)
    }

    @Test func refusedAndStoredInTurnIsReportedOnceAMinute() {
        var state = RecordingState()
        var began = 0
        var ended = 0
        for second in 0..<120 {
            if state.refused("slow", at: start + .seconds(second)) { began += 1 }
            if state.stored(at: start + .seconds(second)) { ended += 1 }
        }
        #expect(began == 3 && ended == 2)
    }
}
