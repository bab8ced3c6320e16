import Testing

@testable import Inbound

/// Oracle: the times of the pauses, written out by hand.
@Suite("When a store's API is left alone")
struct APIBreakerTests {
    /// Open since second 0.
    private static func opened() -> APIBreaker {
        var breaker = APIBreaker()
        for _ in 0..<5 { _ = breaker.failed(now: .zero) }
        return breaker
    }

    @Test("Five failures in a row open it; an answer between them starts the count again")
    func opens() {
        var breaker = APIBreaker()
        for _ in 0..<4 { #expect(breaker.failed(now: .zero) == APIBreaker.Change.none) }
        #expect(breaker.answered() == APIBreaker.Change.none)
        for _ in 0..<4 { #expect(breaker.failed(now: .zero) == APIBreaker.Change.none) }
        #expect(breaker.mayAsk(now: .zero) == true)
        #expect(breaker.failed(now: .zero) == .opened)
        #expect(breaker.mayAsk(now: .zero) == false)
        #expect(breaker.failed(now: .zero) == APIBreaker.Change.none, "sent before it opened")
    }

    @Test("Open, it lets one request through after each pause, which doubles from 2 s to 30 s")
    func probes() {
        var breaker = Self.opened()
        var now: Duration = .zero
        for pause in [2, 4, 8, 16, 30, 30] as [Int64] {
            #expect(breaker.mayAsk(now: now + .seconds(pause) - .milliseconds(1)) == false)
            now += .seconds(pause)
            #expect(breaker.mayAsk(now: now) == true)
            #expect(breaker.mayAsk(now: now) == false, "one at a time")
            #expect(breaker.failed(now: now) == APIBreaker.Change.none)
        }
    }

    @Test("An answer closes it, and starts the count again")
    func closes() {
        var breaker = Self.opened()
        #expect(breaker.mayAsk(now: .seconds(3)) == true)
        #expect(breaker.answered() == .closed)
        #expect(breaker.mayAsk(now: .seconds(4)) == true)
        for _ in 0..<4 { _ = breaker.failed(now: .seconds(5)) }
        #expect(breaker.mayAsk(now: .seconds(5)) == true)
    }

    @Test("A probe of which nobody says what became of it is followed by another")
    func lostProbe() {
        var breaker = Self.opened()
        #expect(breaker.mayAsk(now: .seconds(2)) == true)
        #expect(breaker.mayAsk(now: .seconds(6)) == false)
        #expect(breaker.mayAsk(now: .seconds(7)) == true)
    }
}
