import Synchronization
import Vocabulary

/// Whether the database stores webhooks, by what came of those that the daemon gave it. A database that is out of reach
/// is the pool's to know.
struct RecordingState: Sendable, Equatable {
    private struct Refusal: Sendable, Equatable {
        var reason: String
        var at: ContinuousClock.Instant
    }

    /// The newest refusal that nothing was stored after.
    private var refusal: Refusal?
    /// A refusal is reported, and that it ended is not yet.
    private var isReported = false
    /// When the last end was reported.
    private var endedAt: ContinuousClock.Instant?

    /// - Returns: whether to report it.
    mutating func refused(_ reason: String, at time: ContinuousClock.Instant) -> Bool {
        refusal = Refusal(reason: reason, at: time)
        defer { isReported = true }
        return !isReported
    }

    /// - Returns: whether to report that webhooks are stored again: not twice within a while. So the last report never
    ///   says that all is well while it is not, however often that changes.
    mutating func stored(at time: ContinuousClock.Instant) -> Bool {
        refusal = nil
        guard isReported, endedAt.map({ time >= $0 + Limits.recordingReportInterval }) ?? true else { return false }
        isReported = false
        endedAt = time
        return true
    }

    /// Why nothing can be stored; nil: it can. The last refusal counts for a while only: where `/readyz` keeps requests
    /// away, nothing else would ever show that the cause is gone.
    func reason(at time: ContinuousClock.Instant) -> String? {
        refusal.flatMap { time < $0.at + Limits.recordingRefusalMemory ? $0.reason : nil }
    }
}

/// The state of one daemon, for its writers, `/readyz` and STATUS.
package final class RecordingHealth: Sendable {
    private let state = Mutex(RecordingState())
    private let observe: Observer

    init(observe: @escaping Observer) { self.observe = observe }

    /// Why webhooks cannot be stored; nil: they can.
    package var refusal: String? { state.withLock { $0.reason(at: .now) } }

    func refused(_ reason: String) {
        if state.withLock({ $0.refused(reason, at: .now) }) { observe(.recordingRefused(reason: reason)) }
    }

    func stored() {
        if state.withLock({ $0.stored(at: .now) }) { observe(.recordingRecovered) }
    }
}
