import NIOCore
import Vocabulary

/// The circuit breaker of one lane. Pure: no I/O, no clock; the lane asks, acts and reports the result.
///
///     closed ──half of the last attempts failed──▶ open ──a probe was answered──▶ closed, one attempt at once,
///       ▲                                           │ ▲                            twice as many with each round
///       └──another daemon's probe was answered──────┘ └──the probe failed: the next in 5 s
///
/// While it is open, a row of `breakers` holds its state, and all daemons apply that row with their poll. What a lane
/// finds out itself counts here at once and is then published to the others; until the table has it, nothing that was
/// read earlier changes it back.
///
/// An open breaker uses up no attempt of the deliveries that wait. A failed probe puts its delivery after the others,
/// with its count unchanged, so that one message that a receiver cannot handle is not its only probe.
///
/// It opens on at least `breakerAttemptsNeeded` attempts within `breakerMemory`, if half or more of the newest
/// `breakerAttemptsWatched` of them failed. The minimum keeps a few messages that fail by themselves from holding up
/// all others. Counting only the newest makes it quick: a receiver that goes down under a thousand requests a second
/// has used up ten gaps by then, not thousands.
struct Breaker {
    /// Actions on the breaker that all daemons share; the lane performs them one at a time.
    enum Action: Sendable, Equatable {
        case publishOpened(reason: String)
        case publishClosed
        /// Asks whether this daemon may send the next probe.
        case requestProbe
        /// The probe is over: the next may be sent when it is due.
        case publishProbeEnded
    }

    private enum State {
        /// `allowed`: attempts at once; fewer than the lane's concurrency while the receiver recovers.
        case closed(allowed: Int)
        case open(Probe)
    }

    private enum Probe {
        case notDue
        case due
        case granted
        case underWay
        /// Without an answer: it failed, or was never sent.
        case ended
    }

    /// What an attempt was started as.
    struct AttemptStart: Sendable, Equatable {
        let isProbe: Bool
        fileprivate let generation: Int
    }

    /// False: by its schedule this integration gives up sooner than the first probe would come, as configured.
    let isUsed: Bool
    private let concurrency: Int
    private var state: State
    /// Counts openings and closings: the result of an attempt that began before the last one is out of date.
    private var generation = 0
    /// Attempts under way that began in this generation.
    private var underWay = 0
    /// Ends of attempts while closed, oldest first.
    private var ends = CircularBuffer<(at: NIODeadline, isFailure: Bool)>()
    /// A change that counts here already and is not in the table yet.
    private var unpublished: Action?
    private var action: Action?
    /// An action failed: the next one follows the next poll that succeeds.
    private var isHeldUp = false
    /// This machine lacked what an attempt needs: none starts before the next poll, or each would end at once, with its
    /// row and its line.
    private var isStarved = false
    /// When the table last accepted a change: what was read before is out of date.
    private var publishedAt: NIODeadline?

    init(concurrency: Int, schedule: RetrySchedule) {
        self.concurrency = concurrency
        let lasts = schedule.gaps.reduce(.zero, +)
        isUsed = min(lasts, schedule.giveUpAfter ?? lasts) >= Limits.breakerProbeInterval
        state = .closed(allowed: concurrency)
    }

    var isOpen: Bool { if case .open = state { true } else { false } }

    /// Whether the others wait for the end of a probe of this lane.
    var hasProbe: Bool {
        switch state {
        case .open(.granted), .open(.underWay), .open(.ended): true
        case .closed, .open(.notDue), .open(.due): false
        }
    }

    // MARK: What may start

    /// Whether another attempt may start.
    var admits: Bool {
        if isStarved { return false }
        return switch state {
        case .closed(let allowed): underWay < allowed
        case .open(.granted): true
        case .open: false
        }
    }

    /// Starts an attempt; `admits` must be true.
    mutating func start() -> AttemptStart {
        underWay += 1
        guard case .open = state else { return AttemptStart(isProbe: false, generation: generation) }
        state = .open(.underWay)
        return AttemptStart(isProbe: true, generation: generation)
    }

    // MARK: What attempts say

    mutating func ended(_ attempt: AttemptStart, _ health: EndpointHealth, at now: NIODeadline) {
        if health == .starved { isStarved = true }
        guard attempt.generation == generation else { return }
        underWay -= 1
        switch state {
        case .open: endProbe(health)
        case .closed(let allowed): record(health, allowed: allowed, at: now)
        }
    }

    private mutating func endProbe(_ health: EndpointHealth) {
        if health == .alive {
            close()
            unpublished = .publishClosed
        } else {
            state = .open(.ended)
        }
    }

    private mutating func record(_ health: EndpointHealth, allowed: Int, at now: NIODeadline) {
        let isFailure: Bool
        switch health {
        case .none, .starved: return
        case .alive: isFailure = false
        case .failing: isFailure = true
        }
        // One more with each success doubles the number with each round.
        if allowed < concurrency { state = .closed(allowed: isFailure ? max(1, allowed / 2) : allowed + 1) }
        guard isUsed else { return }
        while let oldest = ends.first, oldest.at + TimeAmount(Limits.breakerMemory) < now { ends.removeFirst() }
        if ends.count == Limits.breakerAttemptsWatched { ends.removeFirst() }
        ends.append((now, isFailure))
        guard case .failing(let last) = health, ends.count >= Limits.breakerAttemptsNeeded else { return }
        let failures = ends.count(where: \.isFailure)
        guard failures * 2 >= ends.count else { return }
        let reason = "\(failures) of the last \(ends.count) attempts failed, the last one: \(last)"
        open()
        unpublished = .publishOpened(reason: reason)
    }

    private mutating func open() {
        enter(.open(.notDue))
    }

    private mutating func close() {
        enter(.closed(allowed: 1))
    }

    private mutating func enter(_ new: State) {
        state = new
        generation += 1
        underWay = 0
        ends.removeAll()
    }

    // MARK: The other daemons

    /// Applies what the table says.
    /// - Parameters:
    ///   - shared: nil: the breaker is closed.
    ///   - readAt: a time before it was read.
    mutating func apply(_ shared: SharedBreaker?, readAt: NIODeadline) {
        (isHeldUp, isStarved) = (false, false)
        guard unpublished == nil, action == nil, publishedAt.map({ $0 <= readAt }) ?? true else { return }
        guard isUsed else {
            // The schedule was longer when the breaker opened.
            if shared != nil { unpublished = .publishClosed }
            return
        }
        switch (state, shared) {
        case (.closed, .some): open()
        case (.open, nil): close()
        default: break
        }
        if case .open(.notDue) = state, shared?.isProbeDue == true { state = .open(.due) }
    }

    /// The next action, which is under way from here on; nil: none, or not now.
    /// - Parameter hasWaiting: there is something to send as a probe.
    mutating func nextAction(hasWaiting: Bool) -> Action? {
        guard action == nil, !isHeldUp else { return nil }
        if let unpublished {
            action = unpublished
        } else if case .open(.ended) = state {
            action = .publishProbeEnded
        } else if case .open(.due) = state, hasWaiting {
            action = .requestProbe
        }
        return action
    }

    /// Ends the action under way.
    /// - Parameter isGranted: the probe that was asked for is granted.
    mutating func done(isGranted: Bool = false, at now: NIODeadline) {
        switch (action, state) {
        case (.publishOpened, _), (.publishClosed, _):
            // If it has changed since, the newer state is still to be published.
            if unpublished == action { unpublished = nil }
            publishedAt = now
        case (.requestProbe, .open(.due)): state = .open(isGranted ? .granted : .notDue)
        // The lane stopped meanwhile: the granted probe is given back.
        case (.requestProbe, .open(.notDue)) where isGranted: state = .open(.ended)
        case (.publishProbeEnded, .open(.ended)): state = .open(.notDue)
        default: break
        }
        action = nil
    }

    /// The database did not accept the action: it is tried again after the next poll.
    mutating func failed() {
        action = nil
        isHeldUp = true
    }

    /// The lane stops: a probe that was granted, or is being asked for, is not sent.
    mutating func cancelProbe() {
        switch (state, action) {
        case (.open(.granted), _): state = .open(.ended)
        case (.open(.due), .requestProbe): state = .open(.notDue)
        default: break
        }
    }
}

/// An open breaker, as the table has it.
struct SharedBreaker: Sendable {
    let isProbeDue: Bool
}
