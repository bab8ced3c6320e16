import NIOCore
import Testing
import Vocabulary

@testable import Outbound

/// What crosses: news of the others with what this lane publishes and requests.
extension BreakerTests {
    @Test("What was read before the change was published changes nothing back")
    func outdatedReadings() throws {
        let bench = Bench()
        let before = bench.now
        bench.attempts(Self.failing, times: 10)
        bench.poll(nil)
        #expect(bench.breaker.isOpen, "nothing has been published yet")
        #expect(bench.action() != nil)
        bench.poll(nil)
        #expect(bench.breaker.isOpen, "it is on its way")
        bench.breaker.done(at: bench.now)
        bench.breaker.apply(nil, readAt: before)
        #expect(bench.breaker.isOpen)
        bench.poll(nil)
        #expect(!bench.breaker.isOpen, "another daemon's probe was answered")
    }

    @Test("A database that does not answer: what is to be published waits for the next poll")
    func unpublished() {
        let bench = Bench()
        bench.attempts(Self.failing, times: 10)
        let action = bench.action()
        bench.breaker.failed()
        #expect(bench.action() == nil && bench.breaker.isOpen)
        bench.poll(nil)
        #expect(bench.breaker.isOpen && action != nil && bench.action() == action)
    }

    @Test("A probe that is not sent, because the lane stops, is given back")
    func resting() {
        let bench = Bench()
        bench.poll(SharedBreaker(isProbeDue: true))
        #expect(bench.action() == .requestProbe)
        bench.breaker.done(isGranted: true, at: bench.now)
        bench.breaker.rest()
        #expect(!bench.breaker.admits && bench.action() == .publishProbeFailed)
        // The lane stops while it asks.
        for isGranted in [true, false] {
            let bench = Bench()
            bench.poll(SharedBreaker(isProbeDue: true))
            #expect(bench.action() == .requestProbe)
            bench.breaker.rest()
            bench.breaker.done(isGranted: isGranted, at: bench.now)
            #expect(!bench.breaker.admits && bench.action() == (isGranted ? .publishProbeFailed : nil))
        }
    }

    @Test("Opened while its closing is being published: the newer state is published, too")
    func turnedRound() throws {
        let bench = Bench(concurrency: 1)
        bench.attempts(Self.failing, times: 10)
        _ = bench.publish()
        try bench.recover()
        #expect(bench.action() == .publishClosed)
        bench.attempts(Self.failing, times: 10)
        #expect(bench.breaker.isOpen)
        bench.breaker.done(at: bench.now)
        let reason = "10 of the last 10 attempts failed, the last one: answered 503"
        #expect(bench.action() == .publishOpened(reason: reason))
        bench.poll(nil)
        #expect(bench.breaker.isOpen, "nobody knows yet")
        bench.breaker.done(at: bench.now)
        #expect(bench.action() == nil)
    }

    @Test(
        "Another daemon closes it while a probe is granted here, or under way: all goes on, and the probe's end is old")
    func closedMeanwhile() throws {
        let granted = Bench()
        granted.poll(SharedBreaker(isProbeDue: true))
        #expect(granted.action() == .requestProbe)
        granted.breaker.done(isGranted: true, at: granted.now)
        granted.poll(nil)
        #expect(!granted.breaker.isOpen && granted.action() == nil)
        let pass = granted.breaker.start()
        #expect(!pass.isProbe)

        let underWay = Bench()
        underWay.attempts(Self.failing, times: 10)
        _ = underWay.publish()
        let probe = try #require(underWay.probe())
        underWay.poll(nil)
        #expect(!underWay.breaker.isOpen && underWay.breaker.admits)
        underWay.breaker.ended(probe, Self.failing, at: underWay.now)
        #expect(!underWay.breaker.isOpen && underWay.action() == nil)
    }

    @Test("A probe that says nothing is published as failed; what is read meanwhile changes nothing")
    func silentProbe() throws {
        let bench = Bench()
        bench.attempts(Self.failing, times: 10)
        _ = bench.publish()
        let probe = try #require(bench.probe())
        bench.breaker.ended(probe, .none, at: bench.now)
        #expect(bench.breaker.isOpen && bench.action() == .publishProbeFailed)
        bench.poll(nil)
        #expect(bench.breaker.isOpen, "it is being published")
        bench.poll(SharedBreaker(isProbeDue: true))
        bench.breaker.done(at: bench.now)
        #expect(bench.action() == nil && !bench.breaker.admits, "the next reading says when the next is due")
        #expect(bench.probe() != nil)
    }

    @Test("A database that does not answer the question for a probe is asked again after the next poll")
    func unansweredQuestion() {
        let bench = Bench()
        bench.poll(SharedBreaker(isProbeDue: true))
        #expect(bench.action() == .requestProbe)
        bench.breaker.failed()
        #expect(bench.action() == nil && !bench.breaker.admits)
        bench.poll(SharedBreaker(isProbeDue: true))
        #expect(bench.action() == .requestProbe)
    }
}
