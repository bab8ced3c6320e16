import HTTPClient
import NIOCore
import Testing
import Vocabulary

@testable import Outbound

/// Oracle: posthouse-messages(7), "Rate and circuit breaker" (a probe every 5 s, no gap used up) and the table of
/// states in `Breaker`.
@Suite("The circuit breaker of a lane")
struct BreakerTests {
    fileprivate static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
    static let failing = EndpointHealth.failing("answered 503")

    /// A breaker with a clock that the test turns.
    final class ClockedBreaker {
        var breaker: Breaker
        var now = BreakerTests.start

        init(
            concurrency: Int = 16, gaps: [Duration] = RetrySchedule.defaultGaps, giveUpAfter: Duration? = nil
        ) {
            breaker = Breaker(
                concurrency: concurrency, schedule: RetrySchedule(gaps: gaps, jitter: 0, giveUpAfter: giveUpAfter))
        }

        /// One attempt after the other.
        func attempts(_ healths: EndpointHealth..., times: Int = 1, apart: TimeAmount = .milliseconds(1)) {
            for _ in 0..<times {
                for health in healths where breaker.admits {
                    let attempt = breaker.start()
                    now = now + apart
                    breaker.ended(attempt, health, at: now)
                }
            }
        }

        func action(hasWaiting: Bool = true) -> Breaker.Action? { breaker.nextAction(hasWaiting: hasWaiting) }

        /// Publishes what is to be published; returns what it was.
        func publish() -> Breaker.Action? {
            let action = action()
            if action != nil { breaker.done(at: now) }
            return action
        }

        func poll(_ shared: SharedBreaker?) {
            now = now + .seconds(1)
            breaker.apply(shared, readAt: now)
        }

        /// A probe that is answered.
        func recover() throws {
            let probe = try #require(self.probe())
            breaker.ended(probe, .alive, at: now)
        }

        /// Asks for a probe that is due, is given it and starts it.
        func probe() -> Breaker.AttemptStart? {
            poll(SharedBreaker(isProbeDue: true))
            guard action() == .requestProbe else { return nil }
            breaker.done(isGranted: true, at: now)
            return breaker.admits ? breaker.start() : nil
        }
    }

    @Test("What this machine lacks holds every start up until the next poll, and is no evidence")
    func starved() throws {
        let clocked = ClockedBreaker()
        let attempts = (0..<16).map { _ in clocked.breaker.start() }
        clocked.breaker.ended(attempts[0], .starved, at: clocked.now)
        #expect(!clocked.breaker.admits)
        for attempt in attempts.dropFirst() { clocked.breaker.ended(attempt, .starved, at: clocked.now) }
        #expect(!clocked.breaker.admits && !clocked.breaker.isOpen && clocked.action() == nil)
        clocked.poll(nil)
        #expect(clocked.breaker.admits)
        // A probe that could not be made is made again.
        clocked.attempts(Self.failing, times: 10)
        #expect(clocked.publish() != nil)
        let probe = try #require(clocked.probe())
        clocked.breaker.ended(probe, .starved, at: clocked.now)
        #expect(clocked.publish() == .publishProbeEnded)
        #expect(try #require(clocked.probe()).isProbe)
    }

    @Test("Ten failures in a row open it, nine do not; what opened it is published")
    func opens() {
        let clocked = ClockedBreaker()
        clocked.attempts(Self.failing, times: 9)
        #expect(!clocked.breaker.isOpen && clocked.action() == nil)
        clocked.attempts(Self.failing)
        #expect(clocked.breaker.isOpen && !clocked.breaker.admits)
        let reason = "10 of the last 10 attempts failed, the last one: answered 503"
        #expect(clocked.action() == .publishOpened(reason: reason))
    }

    @Test("Half of the newest twenty open it, fewer do not; it opens on a failure", arguments: [9, 10])
    func share(failures: Int) {
        let clocked = ClockedBreaker()
        clocked.attempts(.alive, times: 1_000)
        clocked.attempts(Self.failing, .alive, times: 8)
        clocked.attempts(Self.failing, .alive, times: failures - 8)
        // The tenth failure of a row of alternating ones makes ten of twenty.
        #expect(clocked.breaker.isOpen == (failures == 10))
    }

    @Test("What ended half a minute ago says nothing: rare messages that fail by themselves hold up no others")
    func memory() {
        let clocked = ClockedBreaker()
        clocked.attempts(Self.failing, times: 100, apart: .seconds(4))
        #expect(!clocked.breaker.isOpen)
        clocked.attempts(Self.failing, times: 10, apart: .seconds(3))
        #expect(clocked.breaker.isOpen)
    }

    @Test("Attempts that this daemon gave up, or could not make, say nothing")
    func silent() {
        let clocked = ClockedBreaker()
        clocked.attempts(.none, times: 100)
        clocked.attempts(Self.failing, times: 9)
        clocked.attempts(.none, times: 100)
        #expect(!clocked.breaker.isOpen)
    }

    @Test("A schedule that is over before the first probe would come is kept to: no breaker")
    func shortSchedule() {
        for (gaps, opens) in [
            ([.milliseconds(100), .milliseconds(100)], false), ([], false), ([.milliseconds(4_999)], false),
            ([.seconds(2), .seconds(3)], true),
        ] as [([Duration], Bool)] {
            let clocked = ClockedBreaker(gaps: gaps)
            clocked.attempts(Self.failing, times: 200)
            #expect(clocked.breaker.isOpen == opens, "\(gaps)")
        }
        for (giveUpAfter, opens) in [(Duration.milliseconds(4_999), false), (.seconds(5), true)] {
            let clocked = ClockedBreaker(giveUpAfter: giveUpAfter)
            clocked.attempts(Self.failing, times: 200)
            #expect(clocked.breaker.isOpen == opens, "given up after \(giveUpAfter)")
        }
        // It was longer when the breaker opened: nobody else will close it.
        let clocked = ClockedBreaker(gaps: [])
        clocked.poll(SharedBreaker(isProbeDue: false))
        #expect(!clocked.breaker.isOpen && clocked.publish() == .publishClosed)
    }

    @Test("Open it asks for a probe when one is due, once, and sends one only")
    func probes() throws {
        let clocked = ClockedBreaker()
        clocked.attempts(Self.failing, times: 10)
        _ = clocked.publish()
        #expect(clocked.action() == nil)
        clocked.poll(SharedBreaker(isProbeDue: false))
        #expect(clocked.action() == nil && !clocked.breaker.admits)
        clocked.poll(SharedBreaker(isProbeDue: true))
        #expect(clocked.action(hasWaiting: false) == nil)
        #expect(clocked.action() == .requestProbe && clocked.action() == nil)
        clocked.breaker.done(isGranted: false, at: clocked.now)
        #expect(!clocked.breaker.admits && clocked.action() == nil, "another daemon was first")
        #expect(!clocked.breaker.hasProbe)

        let probe = try #require(clocked.probe())
        #expect(probe.isProbe && !clocked.breaker.admits && clocked.breaker.hasProbe)
        clocked.poll(SharedBreaker(isProbeDue: true))
        #expect(clocked.action() == nil, "one is under way")
        clocked.breaker.ended(probe, Self.failing, at: clocked.now)
        #expect(clocked.breaker.isOpen && !clocked.breaker.admits && clocked.breaker.hasProbe)
        #expect(clocked.publish() == .publishProbeEnded)
        #expect(clocked.action() == nil && !clocked.breaker.hasProbe)
    }

    @Test("A probe that is answered closes it for all; recovery doubles from one attempt at once")
    func recovers() throws {
        let clocked = ClockedBreaker(concurrency: 6)
        clocked.attempts(Self.failing, times: 10)
        _ = clocked.publish()
        try clocked.recover()
        #expect(!clocked.breaker.isOpen && clocked.publish() == .publishClosed)
        var rounds: [Int] = []
        for _ in 0..<5 {
            var round: [Breaker.AttemptStart] = []
            while clocked.breaker.admits, round.count < 6 { round.append(clocked.breaker.start()) }
            for attempt in round { clocked.breaker.ended(attempt, .alive, at: clocked.now) }
            rounds.append(round.count)
        }
        #expect(rounds == [1, 2, 4, 6, 6])
    }

    @Test("A failure while it recovers halves what may be under way; ten open it again")
    func relapse() throws {
        let clocked = ClockedBreaker()
        clocked.attempts(Self.failing, times: 10)
        _ = clocked.publish()
        try clocked.recover()
        _ = clocked.publish()
        clocked.attempts(.alive, times: 7)
        let eight = (0..<8).map { _ in clocked.breaker.start() }
        #expect(!clocked.breaker.admits)
        clocked.breaker.ended(eight[0], Self.failing, at: clocked.now)
        #expect(!clocked.breaker.admits, "four may be under way, seven are")
        for attempt in eight.dropFirst() { clocked.breaker.ended(attempt, Self.failing, at: clocked.now) }
        #expect(clocked.breaker.isOpen)
    }

    @Test("What began before it opened or closed says nothing afterwards, and holds no place of the recovery")
    func stale() throws {
        let clocked = ClockedBreaker(concurrency: 64)
        let old = (0..<64).map { _ in clocked.breaker.start() }
        for attempt in old.prefix(10) { clocked.breaker.ended(attempt, Self.failing, at: clocked.now) }
        #expect(clocked.breaker.isOpen)
        _ = clocked.publish()
        clocked.breaker.ended(old[10], .alive, at: clocked.now)
        #expect(clocked.breaker.isOpen, "the probe decides")
        try clocked.recover()
        _ = clocked.publish()
        #expect(clocked.breaker.admits)
        for attempt in old.dropFirst(11) { clocked.breaker.ended(attempt, Self.failing, at: clocked.now) }
        #expect(!clocked.breaker.isOpen && clocked.breaker.admits)
    }

    @Test("It applies what the other daemons published")
    func appliesWhatIsPublished() {
        let clocked = ClockedBreaker()
        clocked.poll(SharedBreaker(isProbeDue: false))
        #expect(clocked.breaker.isOpen && !clocked.breaker.admits && clocked.action() == nil)
        clocked.poll(nil)
        #expect(!clocked.breaker.isOpen && clocked.action() == nil)
        _ = clocked.breaker.start()
        #expect(!clocked.breaker.admits, "it recovers here, too")
    }

    @Test("Only what says something of the receiver as a whole counts")
    func healths() {
        for status in 100...599 {
            let health = EndpointHealth(.success(EndpointAnswer(status: status)))
            let isFailing = if case .failing = health { true } else { false }
            #expect(isFailing == (status >= 500 || status == 429), "\(status)")
        }
        for failure in [RequestFailure.cancelled, .unsendable("a"), .refusedAddress("a")] {
            #expect(EndpointHealth(.failure(failure)) == .none)
        }
        for failure in [
            RequestFailure.unresolvable("a"), .connectFailed("a"), .tlsFailed("a"), .timedOut(.head),
            .connectionLost(.head), .malformedAnswer("a"),
        ] {
            #expect(EndpointHealth(.failure(failure)) == .failing(failure.explanation))
        }
    }
}
