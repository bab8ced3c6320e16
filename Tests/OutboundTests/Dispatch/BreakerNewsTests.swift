import NIOCore
import Testing
import Vocabulary

@testable import Outbound

/// What crosses: news of the others with what this lane tells and asks.
extension BreakerTests {
    @Test("What was read before the others were told changes nothing back")
    func outdatedReadings() throws {
        let bench = Bench()
        let before = bench.now
        bench.attempts(Self.failing, times: 10)
        bench.poll(nil)
        #expect(bench.breaker.isOpen, "nobody has been told yet")
        #expect(bench.errand() != nil)
        bench.poll(nil)
        #expect(bench.breaker.isOpen, "it is on its way")
        bench.breaker.done(at: bench.now)
        bench.breaker.follow(nil, readAt: before)
        #expect(bench.breaker.isOpen)
        bench.poll(nil)
        #expect(!bench.breaker.isOpen, "another daemon's probe was answered")
    }

    @Test("A database that does not answer: what is to be told waits for the next poll")
    func untold() {
        let bench = Bench()
        bench.attempts(Self.failing, times: 10)
        let errand = bench.errand()
        bench.breaker.failed()
        #expect(bench.errand() == nil && bench.breaker.isOpen)
        bench.poll(nil)
        #expect(bench.breaker.isOpen && errand != nil && bench.errand() == errand)
    }

    @Test("A probe that is not sent, because the lane stops, is given back")
    func resting() {
        let bench = Bench()
        bench.poll(SharedBreaker(isProbeDue: true))
        #expect(bench.errand() == .askForProbe)
        bench.breaker.done(isGranted: true, at: bench.now)
        bench.breaker.rest()
        #expect(!bench.breaker.admits && bench.errand() == .tellProbeFailed)
        // The lane stops while it asks.
        for isGranted in [true, false] {
            let bench = Bench()
            bench.poll(SharedBreaker(isProbeDue: true))
            #expect(bench.errand() == .askForProbe)
            bench.breaker.rest()
            bench.breaker.done(isGranted: isGranted, at: bench.now)
            #expect(!bench.breaker.admits && bench.errand() == (isGranted ? .tellProbeFailed : nil))
        }
    }

    @Test("Opened while it is being told that it closed: the newer word is told, too")
    func turnedRound() throws {
        let bench = Bench(concurrency: 1)
        bench.attempts(Self.failing, times: 10)
        _ = bench.tell()
        try bench.recover()
        #expect(bench.errand() == .tellClosed)
        bench.attempts(Self.failing, times: 10)
        #expect(bench.breaker.isOpen)
        bench.breaker.done(at: bench.now)
        let reason = "10 of the last 10 attempts failed, the last one: answered 503"
        #expect(bench.errand() == .tellOpened(reason: reason))
        bench.poll(nil)
        #expect(bench.breaker.isOpen, "nobody knows yet")
        bench.breaker.done(at: bench.now)
        #expect(bench.errand() == nil)
    }

    @Test(
        "Another daemon closes it while a probe is granted here, or under way: all goes on, and the probe's end is old")
    func closedMeanwhile() throws {
        let granted = Bench()
        granted.poll(SharedBreaker(isProbeDue: true))
        #expect(granted.errand() == .askForProbe)
        granted.breaker.done(isGranted: true, at: granted.now)
        granted.poll(nil)
        #expect(!granted.breaker.isOpen && granted.errand() == nil)
        let pass = granted.breaker.start()
        #expect(!pass.isProbe)

        let underWay = Bench()
        underWay.attempts(Self.failing, times: 10)
        _ = underWay.tell()
        let probe = try #require(underWay.probe())
        underWay.poll(nil)
        #expect(!underWay.breaker.isOpen && underWay.breaker.admits)
        underWay.breaker.ended(probe, Self.failing, at: underWay.now)
        #expect(!underWay.breaker.isOpen && underWay.errand() == nil)
    }

    @Test("A probe that says nothing is told as failed; what is read meanwhile changes nothing")
    func silentProbe() throws {
        let bench = Bench()
        bench.attempts(Self.failing, times: 10)
        _ = bench.tell()
        let probe = try #require(bench.probe())
        bench.breaker.ended(probe, .none, at: bench.now)
        #expect(bench.breaker.isOpen && bench.errand() == .tellProbeFailed)
        bench.poll(nil)
        #expect(bench.breaker.isOpen, "it is being told")
        bench.poll(SharedBreaker(isProbeDue: true))
        bench.breaker.done(at: bench.now)
        #expect(bench.errand() == nil && !bench.breaker.admits, "the next reading says when the next is due")
        #expect(bench.probe() != nil)
    }

    @Test("A database that does not answer the question for a probe is asked again after the next poll")
    func unansweredQuestion() {
        let bench = Bench()
        bench.poll(SharedBreaker(isProbeDue: true))
        #expect(bench.errand() == .askForProbe)
        bench.breaker.failed()
        #expect(bench.errand() == nil && !bench.breaker.admits)
        bench.poll(SharedBreaker(isProbeDue: true))
        #expect(bench.errand() == .askForProbe)
    }
}
