import Testing

@testable import Postgres

/// The pool's decisions without a database: each test is a story of events, the oracle is the comment above the
/// machine.
@Suite("The pool's decisions") struct PoolMachineTests {
    private static let backoff: ClosedRange<Duration> = .milliseconds(100)...(.seconds(5))

    private func machine(size: Int = 2, opened: Int = 0) -> PoolMachine {
        var machine = PoolMachine(size: size, waitersMax: 2, backoff: Self.backoff)
        _ = machine.start()
        for slot in 0..<opened { _ = machine.opened(slot: slot) }
        return machine
    }

    @Test("All slots are opened at the start; callers wait for the first") func start() {
        var machine = PoolMachine(size: 2, waitersMax: 2, backoff: Self.backoff)
        #expect(machine.start() == [.open(slot: 0), .open(slot: 1)])
        #expect(machine.acquire(waiter: 1) == .wait)
        #expect(machine.opened(slot: 1) == [.serve(waiter: 1, slot: 1)])
    }

    @Test("First come, first served; too many are refused; who gave up is passed over") func order() {
        var machine = machine(size: 1, opened: 1)
        #expect(machine.acquire(waiter: 1) == .use(slot: 0))
        #expect(machine.acquire(waiter: 2) == .wait)
        #expect(machine.acquire(waiter: 3) == .wait)
        guard case .refused = machine.acquire(waiter: 4) else { Issue.record("the limit was not kept"); return }
        #expect(machine.expire(waiter: 2) && !machine.expire(waiter: 2))
        #expect(machine.release(slot: 0, lost: nil) == [.serve(waiter: 3, slot: 0)])
        #expect(machine.release(slot: 0, lost: nil) == [])
    }

    @Test("Down: everyone who waits fails, one slot alone tries, success opens the rest") func outage() {
        var machine = machine(size: 3)
        #expect(machine.acquire(waiter: 1) == .wait)
        #expect(
            machine.openFailed(slot: 0, reason: "refused", jitter: 1) == [
                .retry(after: .milliseconds(100)), .fail(waiter: 1, .connectFailed(reason: "refused")),
                .publish(.lost(reason: "refused")),
            ])
        #expect(machine.openFailed(slot: 1, reason: "refused", jitter: 1) == [])
        #expect(machine.openFailed(slot: 2, reason: "refused", jitter: 1) == [])
        #expect(machine.acquire(waiter: 2) == .refused(.connectFailed(reason: "refused")))
        #expect(machine.retryDue() == [.open(slot: 0)])
        // The three that failed together counted as one.
        #expect(machine.openFailed(slot: 0, reason: "again", jitter: 1) == [.retry(after: .milliseconds(200))])
        #expect(machine.acquire(waiter: 3) == .refused(.connectFailed(reason: "again")))
        #expect(machine.retryDue() == [.open(slot: 0)])
        #expect(machine.opened(slot: 0) == [.publish(.recovered), .open(slot: 1), .open(slot: 2)])
    }

    @Test("An idle connection is replaced; one that somebody has, or that is not open, is left") func replacing() {
        var machine = machine(opened: 1)
        #expect(machine.replace(slot: 0) == [.close(slot: 0), .open(slot: 0)])
        #expect(machine.replace(slot: 0) == [] && machine.replace(slot: 1) == [])
        #expect(machine.opened(slot: 0) == [])
        #expect(machine.acquire(waiter: 1) == .use(slot: 0))
        #expect(machine.replace(slot: 0) == [])
    }

    @Test("A lost connection is opened again at once, and others serve meanwhile") func lostOne() {
        var machine = machine(opened: 2)
        #expect(machine.acquire(waiter: 1) == .use(slot: 0))
        #expect(machine.release(slot: 0, lost: "killed") == [.open(slot: 0)])
        #expect(machine.openFailed(slot: 0, reason: "full", jitter: 1) == [.retry(after: .milliseconds(100))])
        #expect(machine.downReason == nil && machine.isReachable)
        #expect(machine.acquire(waiter: 2) == .use(slot: 1))
        // The last one goes while the other is known to fail: down, with the retry that is under way.
        #expect(machine.release(slot: 1, lost: "killed") == [.publish(.lost(reason: "full"))])
        #expect(machine.retryDue() == [.open(slot: 0)])
    }

    @Test("Closed: waiters fail, what comes back is closed, nothing is opened again") func close() {
        var machine = machine(size: 3, opened: 2)
        #expect(machine.acquire(waiter: 1) == .use(slot: 0))
        #expect(machine.close() == [.close(slot: 1)])
        #expect(machine.opened(slot: 2) == [.close(slot: 2)])
        #expect(machine.release(slot: 0, lost: nil) == [.close(slot: 0)])
        #expect(machine.retryDue() == [] && !machine.isReachable)
        guard case .refused = machine.acquire(waiter: 2) else { Issue.record("a closed pool served"); return }
    }

    @Test("The interval doubles up to its bound; half of it is random") func intervals() {
        let waits = (1...8).map { PoolMachine.interval(afterFailures: $0, backoff: Self.backoff, jitter: 1) }
        #expect(waits == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].map { .milliseconds($0) })
        #expect(PoolMachine.interval(afterFailures: 3, backoff: Self.backoff, jitter: 0) == .milliseconds(200))
        #expect(PoolMachine.interval(afterFailures: .max, backoff: Self.backoff, jitter: 1) == .seconds(5))
    }
}
