import Testing
import Vocabulary

@testable import Ledger

@Suite struct RecordingStateTests {
    private let start = ContinuousClock.now

    @Test func oneReportForAnOutageAndOneForItsEnd() {
        var state = RecordingState()
        #expect(state.reason(at: start) == nil)
        let without = state.stored()
        #expect(!without)
        #expect(state.refused("full", at: start))
        #expect(!state.refused("full", at: start + .seconds(1)))
        #expect(state.reason(at: start + .seconds(1)) == "full")
        #expect(state.stored())
        #expect(state.reason(at: start + .seconds(1)) == nil)
        let again = state.stored()
        #expect(!again)
    }

    /// Where /readyz keeps requests away, no webhook would ever show that the cause is gone.
    @Test func aRefusalIsForgottenAfterAWhileButReportedAsOneOutage() {
        var state = RecordingState()
        #expect(state.refused("full", at: start))
        let later = start + Limits.recordingRefusalMemory
        #expect(state.reason(at: later - .milliseconds(1)) == "full")
        #expect(state.reason(at: later) == nil)
        #expect(!state.refused("full", at: later + .seconds(120)))
        #expect(state.reason(at: later + .seconds(120)) == "full")
        #expect(state.stored())
    }

    @Test func refusedAndStoredInTurnIsReportedOnceAMinute() {
        var state = RecordingState()
        var began = 0
        var ended = 0
        for second in 0..<120 {
            if state.refused("slow", at: start + .seconds(second)) { began += 1 }
            if state.stored() { ended += 1 }
        }
        #expect(began == 2 && ended == 2)
    }
}
