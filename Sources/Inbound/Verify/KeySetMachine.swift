/// What is known of the key that a token names.
package enum JSONWebKeyAnswer: Sendable {
    case key(JSONWebKeys.Key)
    /// The key set is known and has no such key.
    case unknown
    /// The key set is known and has no such key, but is being fetched again: the sender must try again. Anybody can
    /// name such a key.
    case possiblyNew
    /// The key set is not known yet, or it has no such key and could not be fetched again: the sender must try again.
    case unverifiable
}

/// Looks a key up by its id (`kid`). Called on the connection's event loop: it must not wait.
package typealias JSONWebKeyLookup = @Sendable (_ keyID: String) -> JSONWebKeyAnswer

/// Decides when a key set is fetched, and answers which keys are known. Pure: no I/O and no clock.
///
///     waiting ──due, or an unknown key is named──▶ fetching ──▶ waiting, for the age that the answer states
///                                                     │
///                                                     └───────▶ waiting, for a gap that doubles with each failure
///
/// Google changes its keys every few days without notice, and a token signed with a new one may come at once. So an
/// unknown key is a reason to fetch, once in `unknownKeyInterval`, so that tokens of invented keys cost nothing. A
/// set that was fetched once stays in use until another is there: a failed fetch takes away no key.
///
/// Times are those of any clock that never goes back, such as the time since the daemon's start.
package struct KeySetMachine: Sendable {
    /// What its owner does next.
    package enum Action: Hashable, Sendable {
        /// Fetch the document now, then call `fetched` or `failed`.
        case fetch
        /// Call `due` at this time.
        case wait(until: Duration)
        /// A fetch is under way, or the wait that was asked for before still holds.
        case nothing
    }

    package struct Lookup: Sendable {
        package let answer: JSONWebKeyAnswer
        /// `.fetch` or `.nothing`.
        package let action: Action
    }

    /// How long a fetched set is used, whatever the answer states.
    static let lifetime: ClosedRange<Duration> = .seconds(300)...(.seconds(86_400))
    /// How long it is used if the answer states nothing.
    static let usualLifetime: Duration = .seconds(3_600)
    /// An unknown key asks for a fetch only this long after the start of the last one.
    static let unknownKeyInterval: Duration = .seconds(60)
    /// The gap after a failed fetch doubles from the first bound to the second.
    static let retryGap: ClosedRange<Duration> = .seconds(1)...(.seconds(300))

    private enum State {
        /// Leads to `fetching`.
        case waiting(until: Duration)
        /// Leads to `waiting`.
        case fetching
    }

    private var state: State
    /// The newest set; nil: none was fetched yet.
    private var keys: JSONWebKeys?
    /// When the last fetch began; nil: none has.
    private var startedAt: Duration?
    /// Failed fetches since the last that succeeded.
    private var failures = 0

    /// The first fetch is due at once.
    package init(now: Duration) { state = .waiting(until: now) }

    /// Whether tokens can be checked. Read by tests.
    package var hasKeys: Bool { keys != nil }

    /// A wait is over, or the owner has just begun.
    package mutating func due(now: Duration) -> Action {
        switch state {
        case .fetching: .nothing
        case .waiting(let end): now < end ? .wait(until: end) : begin(now)
        }
    }

    /// A token names the key `id`.
    package mutating func look(up id: String, now: Duration) -> Lookup {
        let known = keys?.key(id)
        var action = Action.nothing
        if case .waiting(let end) = state, now >= end || (known == nil && mayAsk(now)) { action = begin(now) }
        if let known { return Lookup(answer: .key(known), action: action) }
        // Until a fetch succeeds again, it may be a new key.
        guard keys != nil, failures == 0 else { return Lookup(answer: .unverifiable, action: action) }
        if case .fetching = state { return Lookup(answer: .possiblyNew, action: action) }
        return Lookup(answer: .unknown, action: action)
    }

    /// The document came.
    /// - Parameter maxAge: of the answer's Cache-Control (`CacheControl.maxAge`); nil: it states none.
    package mutating func fetched(_ keys: JSONWebKeys, maxAge: Duration?, now: Duration) -> Action {
        self.keys = keys
        failures = 0
        let age = min(max(maxAge ?? Self.usualLifetime, Self.lifetime.lowerBound), Self.lifetime.upperBound)
        return wait(until: now + age)
    }

    /// No document came, or none that can be used (`JSONWebKeys.Unusable`).
    package mutating func failed(now: Duration) -> Action {
        var gap = Self.retryGap.lowerBound
        var doublings = failures
        while doublings > 0, gap < Self.retryGap.upperBound {
            gap *= 2
            doublings -= 1
        }
        failures += 1
        return wait(until: now + min(gap, Self.retryGap.upperBound))
    }

    private func mayAsk(_ now: Duration) -> Bool {
        guard let startedAt else { return true }
        return now - startedAt >= Self.unknownKeyInterval
    }

    private mutating func begin(_ now: Duration) -> Action {
        state = .fetching
        startedAt = now
        return .fetch
    }

    private mutating func wait(until end: Duration) -> Action {
        state = .waiting(until: end)
        return .wait(until: end)
    }
}
