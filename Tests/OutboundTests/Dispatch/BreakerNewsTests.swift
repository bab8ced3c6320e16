import NIOCore
import Testing
import Vocabulary

@testable import Outbound

/// What crosses: news of the others with what this lane publishes and requests.
extension BreakerTests {
    @Test("What was read before the change was published changes nothing back")
    func outdatedReadings() throws {
        let clocked = ClockedBreaker()
        let before = clocked.now
        clocked.attempts(Self.failing, times: 10)
        clocked.poll(nil)
        #expect(clocked.breaker.isOpen, "nothing has been published yet")
        #expect(clocked.action() != nil)
        clocked.poll(nil)
        #expect(clocked.breaker.isOpen, "it is on its way")
        clocked.breaker.done(at: clocked.now)
        clocked.breaker.apply(nil, readAt: before)
        #expect(clocked.breaker.isOpen)
        clocked.poll(nil)
        #expect(!clocked.breaker.isOpen, "another daemon's probe was answered")
    }

    @Test("A database that does not answer: what is to be published waits for the next poll")
    func unpublished() {
        let clocked = ClockedBreaker()
        clocked.attempts(Self.failing, times: 10)
        let action = clocked.action()
        clocked.breaker.failed()
        #expect(clocked.action() == nil && clocked.breaker.isOpen)
        clocked.poll(nil)
        #expect(clocked.breaker.isOpen && action != nil && clocked.action() == action)
    }

    @Test("A probe that is not sent, because the lane stops, is given back")
    func cancelledProbe() {
        let clocked = ClockedBreaker()
        clocked.poll(SharedBreaker(isProbeDue: true))
        #expect(clocked.action() == .requestProbe)
        clocked.breaker.done(isGranted: true, at: clocked.now)
        clocked.breaker.cancelProbe()
        #expect(!clocked.breaker.admits && clocked.action() == .publishProbeEnded)
        // The lane stops while it asks.
        for isGranted in [true, false] {
            let clocked = ClockedBreaker()
            clocked.poll(SharedBreaker(isProbeDue: true))
            #expect(clocked.action() == .requestProbe)
            clocked.breaker.cancelProbe()
            clocked.breaker.done(isGranted: isGranted, at: clocked.now)
            #expect(!clocked.breaker.admits && clocked.action() == (isGranted ? .publishProbeEnded : nil))
        }
    }

    @Test("Opened while its closing is being published: the newer state is published, too")
    func turnedRound() throws {
        let clocked = ClockedBreaker(concurrency: 1)
        clocked.attempts(Self.failing, times: 10)
        _ = clocked.publish()
        try clocked.recover()
        #expect(clocked.action() == .publishClosed)
        clocked.attempts(Self.failing, times: 10)
        #expect(clocked.breaker.isOpen)
        clocked.breaker.done(at: clocked.now)
        let reason = "10 of the last 10 attempts failed, the last one: answered 503"
        #expect(clocked.action() == .publishOpened(reason: reason))
        clocked.poll(nil)
        #expect(clocked.breaker.isOpen, "nobody knows yet")
        clocked.breaker.done(at: clocked.now)
        #expect(clocked.action() == nil)
    }

    @Test(
        "Another daemon closes it while a probe is granted here, or under way: all goes on, and the probe's end is old")
    func closedMeanwhile() throws {
        let granted = ClockedBreaker()
        granted.poll(SharedBreaker(isProbeDue: true))
        #expect(granted.action() == .requestProbe)
        granted.breaker.done(isGranted: true, at: granted.now)
        granted.poll(nil)
        #expect(!granted.breaker.isOpen && granted.action() == nil)
        let attempt = granted.breaker.start()
        #expect(!attempt.isProbe)

        let underWay = ClockedBreaker()
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
        let clocked = ClockedBreaker()
        clocked.attempts(Self.failing, times: 10)
        _ = clocked.publish()
        let probe = try #require(clocked.probe())
        clocked.breaker.ended(probe, .none, at: clocked.now)
        #expect(clocked.breaker.isOpen && clocked.action() == .publishProbeEnded)
        clocked.poll(nil)
        #expect(clocked.breaker.isOpen, "it is being published")
        clocked.poll(SharedBreaker(isProbeDue: true))
        clocked.breaker.done(at: clocked.now)
        #expect(clocked.action() == nil && !clocked.breaker.admits, "the next reading says when the next is due")
        #expect(clocked.probe() != nil)
    }

    @Test("A database that does not answer the question for a probe is asked again after the next poll")
    func unansweredQuestion() {
        let clocked = ClockedBreaker()
        clocked.poll(SharedBreaker(isProbeDue: true))
        #expect(clocked.action() == .requestProbe)
        clocked.breaker.failed()
        #expect(clocked.action() == nil && !clocked.breaker.admits)
        clocked.poll(SharedBreaker(isProbeDue: true))
        #expect(clocked.action() == .requestProbe)
    }
}
