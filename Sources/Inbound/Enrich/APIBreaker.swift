/// Keeps webhooks from waiting for an API that does not answer. Pure: no I/O and no clock.
///
///     closed ──failuresMax failures in a row──▶ open ──pause──▶ probing ──answer──▶ closed
///                                                ▲                 │
///                                                └──── failure, with a longer pause
///
/// Only the API's own failures count (no answer, no right, too many requests, a fault): what it says of one purchase
/// says that it works.
struct APIBreaker: Sendable {
    /// What an answer or a failure changed, for the journal.
    enum Change: Hashable, Sendable {
        case none
        case opened
        case closed
    }

    private enum State: Sendable {
        /// Failures since the last answer.
        case closed(failures: Int)
        case open(until: Duration, pause: Duration)
        /// One request is on its way, until `until` at the latest.
        case probing(until: Duration, pause: Duration)
    }

    private var state = State.closed(failures: 0)

    /// Whether a request may be sent. While it is open one may, after each pause.
    mutating func mayAsk(now: Duration) -> Bool {
        switch state {
        case .closed: return true
        case .open(let until, let pause), .probing(let until, let pause):
            guard now >= until else { return false }
            // A probe that nobody reports on must not keep it open.
            state = .probing(until: now + StoreRequestLimits.requestTimeout, pause: pause)
            return true
        }
    }

    mutating func answered() -> Change {
        defer { state = .closed(failures: 0) }
        switch state {
        case .closed: return .none
        case .open, .probing: return .closed
        }
    }

    mutating func failed(now: Duration) -> Change {
        switch state {
        case .closed(let failures) where failures + 1 < StoreRequestLimits.failuresMax:
            state = .closed(failures: failures + 1)
            return .none
        case .closed:
            let pause = StoreRequestLimits.pause.lowerBound
            state = .open(until: now + pause, pause: pause)
            return .opened
        // A request that was sent before it opened.
        case .open: return .none
        case .probing(_, let pause):
            let longer = min(pause * 2, StoreRequestLimits.pause.upperBound)
            state = .open(until: now + longer, pause: longer)
            return .none
        }
    }
}
