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
    final class Bench {
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
                    let pass = breaker.start()
                    now = now + apart
                    breaker.ended(pass, health, at: now)
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
        func probe() -> Breaker.Pass? {
            poll(SharedBreaker(isProbeDue: true))
            guard action() == .requestProbe else { return nil }
            breaker.done(isGranted: true, at: now)
            return breaker.admits ? breaker.start() : nil
        }
    }

    @Test("Ten failures in a row open it, nine do not; what opened it is published")
    func opens() {
        let bench = Bench()
        bench.attempts(Self.failing, times: 9)
        #expect(!bench.breaker.isOpen && bench.action() == nil)
        bench.attempts(Self.failing)
        #expect(bench.breaker.isOpen && !bench.breaker.admits)
        let reason = "10 of the last 10 attempts failed, the last one: answered 503"
        #expect(bench.action() == .publishOpened(reason: reason))
    }

    @Test("Half of the newest twenty open it, fewer do not; it opens on a failure", arguments: [9, 10])
    func share(failures: Int) {
        let bench = Bench()
        bench.attempts(.alive, times: 1_000)
        bench.attempts(Self.failing, .alive, times: 8)
        bench.attempts(Self.failing, .alive, times: failures - 8)
        // The tenth failure of a row of alternating ones makes ten of twenty.
        #expect(bench.breaker.isOpen == (failures == 10))
    }

    @Test("What ended half a minute ago says nothing: rare messages that fail by themselves hold up no others")
    func memory() {
        let bench = Bench()
        bench.attempts(Self.failing, times: 100, apart: .seconds(4))
        #expect(!bench.breaker.isOpen)
        bench.attempts(Self.failing, times: 10, apart: .seconds(3))
        #expect(bench.breaker.isOpen)
    }

    @Test("Attempts that this daemon gave up, or could not make, say nothing")
    func silent() {
        let bench = Bench()
        bench.attempts(.none, times: 100)
        bench.attempts(Self.failing, times: 9)
        bench.attempts(.none, times: 100)
        #expect(!bench.breaker.isOpen)
    }

    @Test("A schedule that is over before the first probe would come is kept to: no breaker")
    func shortSchedule() {
        for (gaps, opens) in [
            ([.milliseconds(100), .milliseconds(100)], false), ([], false), ([.milliseconds(4_999)], false),
            ([.seconds(2), .seconds(3)], true),
        ] as [([Duration], Bool)] {
            let bench = Bench(gaps: gaps)
            bench.attempts(Self.failing, times: 200)
            #expect(bench.breaker.isOpen == opens, "\(gaps)")
        }
        for (giveUpAfter, opens) in [(Duration.milliseconds(4_999), false), (.seconds(5), true)] {
            let bench = Bench(giveUpAfter: giveUpAfter)
            bench.attempts(Self.failing, times: 200)
            #expect(bench.breaker.isOpen == opens, "given up after \(giveUpAfter)")
        }
        // It was longer when the breaker opened: nobody else will close it.
        let bench = Bench(gaps: [])
        bench.poll(SharedBreaker(isProbeDue: false))
        #expect(!bench.breaker.isOpen && bench.publish() == .publishClosed)
    }

    @Test("Open it asks for a probe when one is due, once, and sends one only")
    func probes() throws {
        let bench = Bench()
        bench.attempts(Self.failing, times: 10)
        _ = bench.publish()
        #expect(bench.action() == nil)
        bench.poll(SharedBreaker(isProbeDue: false))
        #expect(bench.action() == nil && !bench.breaker.admits)
        bench.poll(SharedBreaker(isProbeDue: true))
        #expect(bench.action(hasWaiting: false) == nil)
        #expect(bench.action() == .requestProbe && bench.action() == nil)
        bench.breaker.done(isGranted: false, at: bench.now)
        #expect(!bench.breaker.admits && bench.action() == nil, "another daemon was first")

        let probe = try #require(bench.probe())
        #expect(probe.isProbe && !bench.breaker.admits)
        bench.poll(SharedBreaker(isProbeDue: true))
        #expect(bench.action() == nil, "one is under way")
        bench.breaker.ended(probe, Self.failing, at: bench.now)
        #expect(bench.breaker.isOpen && !bench.breaker.admits && bench.publish() == .publishProbeFailed)
        #expect(bench.action() == nil)
    }

    @Test("A probe that is answered closes it for all; recovery doubles from one attempt at once")
    func recovers() throws {
        let bench = Bench(concurrency: 6)
        bench.attempts(Self.failing, times: 10)
        _ = bench.publish()
        try bench.recover()
        #expect(!bench.breaker.isOpen && bench.publish() == .publishClosed)
        var rounds: [Int] = []
        for _ in 0..<5 {
            var round: [Breaker.Pass] = []
            while bench.breaker.admits, round.count < 6 { round.append(bench.breaker.start()) }
            for pass in round { bench.breaker.ended(pass, .alive, at: bench.now) }
            rounds.append(round.count)
        }
        #expect(rounds == [1, 2, 4, 6, 6])
    }

    @Test("A failure while it recovers halves what may be under way; ten open it again")
    func relapse() throws {
        let bench = Bench()
        bench.attempts(Self.failing, times: 10)
        _ = bench.publish()
        try bench.recover()
        _ = bench.publish()
        bench.attempts(.alive, times: 7)
        let eight = (0..<8).map { _ in bench.breaker.start() }
        #expect(!bench.breaker.admits)
        bench.breaker.ended(eight[0], Self.failing, at: bench.now)
        #expect(!bench.breaker.admits, "four may be under way, seven are")
        for pass in eight.dropFirst() { bench.breaker.ended(pass, Self.failing, at: bench.now) }
        #expect(bench.breaker.isOpen)
    }

    @Test("What began before it opened or closed says nothing afterwards, and holds no place of the recovery")
    func stale() throws {
        let bench = Bench(concurrency: 64)
        let old = (0..<64).map { _ in bench.breaker.start() }
        for pass in old.prefix(10) { bench.breaker.ended(pass, Self.failing, at: bench.now) }
        #expect(bench.breaker.isOpen)
        _ = bench.publish()
        bench.breaker.ended(old[10], .alive, at: bench.now)
        #expect(bench.breaker.isOpen, "the probe decides")
        try bench.recover()
        _ = bench.publish()
        #expect(bench.breaker.admits)
        for pass in old.dropFirst(11) { bench.breaker.ended(pass, Self.failing, at: bench.now) }
        #expect(!bench.breaker.isOpen && bench.breaker.admits)
    }

    @Test("It applies what the other daemons published")
    func appliesWhatIsPublished() {
        let bench = Bench()
        bench.poll(SharedBreaker(isProbeDue: false))
        #expect(bench.breaker.isOpen && !bench.breaker.admits && bench.action() == nil)
        bench.poll(nil)
        #expect(!bench.breaker.isOpen && bench.action() == nil)
        _ = bench.breaker.start()
        #expect(!bench.breaker.admits, "it recovers here, too")
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
