import NIOCore
import Testing
import Vocabulary

@testable import Ledger
@testable import Outbound

@Suite("What a lane may do next")
struct LaneStateTests {
    private func delivery(_ id: Int64) -> Delivery {
        Delivery(
            id: id, lease: 1, integration: 1,
            message: Message(
                row: id, id: "msg_\(id)", eventID: "evt_\(id)", type: "RENEWED", source: "shop",
                transaction: nil, purchase: nil, purchaseKey: nil, transferID: nil, envelope: [], original: [],
                derivedBody: nil),
            attemptsMade: 0, createdAt: Timestamp(milliseconds: 0))
    }

    private func deliveries(_ ids: ClosedRange<Int64>) -> [Delivery] { ids.map(delivery) }

    private static let now = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    private static func lane(concurrency: Int, rate: RateLimit? = nil) -> LaneState {
        LaneState(
            concurrency: concurrency,
            schedule: RetrySchedule(gaps: RetrySchedule.defaultGaps, jitter: 0, giveUpAfter: nil), rate: rate)
    }

    @Test("Starts in order of arrival, no more at once than its concurrency")
    func starts() throws {
        var lane = Self.lane(concurrency: 2)
        func start() -> LaneState.Start? { lane.start(at: Self.now) }
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        #expect(start() == nil)
        #expect(add(1...4))
        let (first, second) = (try #require(start()), try #require(start()))
        #expect(first.delivery.id == 1 && second.delivery.id == 2 && !first.isProbe)
        #expect(start() == nil && lane.underWay == 2 && lane.waiting.count == 2)
        lane.finished(first, .alive, at: Self.now)
        let third = try #require(start())
        #expect(third.delivery.id == 3 && start() == nil)
        lane.finished(second, .alive, at: Self.now)
        lane.finished(third, .alive, at: Self.now)
        #expect(lane.underWay == 0 && start()?.delivery.id == 4 && start() == nil)
    }

    @Test("Closed it takes and starts nothing, gives back what waited, and lets end what is under way")
    func closing() throws {
        var lane = Self.lane(concurrency: 1)
        func start() -> LaneState.Start? { lane.start(at: Self.now) }
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        func close() -> [Int64] { lane.close(at: Self.now).map(\.id) }
        func beginClaim() -> Int? { lane.beginClaim() }
        #expect(add(1...3))
        let first = try #require(start())
        #expect(close() == [2, 3])
        #expect(!add(4...4) && start() == nil && lane.waiting.isEmpty)
        #expect(beginClaim() == nil && lane.underWay == 1)
        #expect(close().isEmpty)
        lane.finished(first, .alive, at: Self.now)
        lane.reopen()
        #expect(lane.isAccepting && add(5...5) && start()?.delivery.id == 5)
    }

    @Test("A lost lease: what waited is forgotten, the lane stays open")
    func forgetting() {
        var lane = Self.lane(concurrency: 1)
        func start() -> Int64? { lane.start(at: Self.now)?.delivery.id }
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        func forget() -> [Int64] { lane.forget().map(\.id) }
        #expect(add(1...3))
        #expect(start() == 1)
        #expect(forget() == [2, 3])
        #expect(lane.isAccepting && lane.underWay == 1 && forget().isEmpty)
        #expect(add(4...4))
    }

    @Test("An open breaker starts nothing but the probe that was granted, and claims no more than that needs")
    func openBreaker() throws {
        var lane = Self.lane(concurrency: 16)
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        func start() -> LaneState.Start? { lane.start(at: Self.now) }
        func action() -> Breaker.Action? { lane.nextAction() }
        func beginClaim() -> Int? { lane.beginClaim() }
        #expect(add(1...3))
        lane.apply(SharedBreaker(isProbeDue: true), readAt: Self.now)
        #expect(start() == nil && beginClaim() == nil)
        #expect(action() == .requestProbe)
        lane.actionDone(isGranted: true, at: Self.now)
        let probe = try #require(start())
        #expect(probe.isProbe && probe.delivery.id == 1 && start() == nil)
        lane.finished(probe, .failing("answered 503"), at: Self.now)
        #expect(start() == nil && action() == .publishProbeEnded)
        lane.actionDone(at: Self.now)
        _ = lane.forget()
        #expect(beginClaim() == Limits.claimDeliveriesMax, "there must be something to try")
    }

    @Test("Without anything to send it asks for no probe")
    func noProbe() {
        var lane = Self.lane(concurrency: 16)
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        func start() -> LaneState.Start? { lane.start(at: Self.now) }
        func action() -> Breaker.Action? { lane.nextAction() }
        lane.apply(SharedBreaker(isProbeDue: true), readAt: Self.now)
        #expect(action() == nil)
        #expect(add(1...1))
        #expect(action() == .requestProbe)
        _ = lane.close(at: Self.now)
        lane.actionDone(isGranted: true, at: Self.now)
        #expect(action() == nil, "closed")
        lane.reopen()
        #expect(add(2...2))
        #expect(start() == nil, "the probe that was granted to the closed lane is over by now")
        #expect(action() == .publishProbeEnded)
    }

    @Test("What was read before it closed does not open it again")
    func outdatedReadings() {
        var lane = Self.lane(concurrency: 1)
        #expect(lane.mayReopen(readAt: Self.now), "it never closed")
        _ = lane.close(at: Self.now)
        #expect(!lane.mayReopen(readAt: Self.now - .seconds(1)) && !lane.mayReopen(readAt: Self.now))
        #expect(lane.mayReopen(readAt: Self.now + .seconds(1)))
    }

    @Test("A pause that an answer begins while the lane is still paused closes it anew, and is new by its reason")
    func pausedAnew() {
        var lane = Self.lane(concurrency: 1)
        func pause(_ reason: String, after seconds: Int64, beganNow: Bool) -> Bool {
            lane.pause(reason, beganNow: beganNow, at: Self.now + .seconds(seconds)).isNew
        }
        func mayReopen(readAfter seconds: Int64) -> Bool { lane.mayReopen(readAt: Self.now + .seconds(seconds)) }
        _ = lane.add(deliveries(1...2))
        let first = lane.pause("paused by hand", beganNow: false, at: Self.now + .seconds(1))
        #expect(first.isNew && first.waited.map(\.id) == [1, 2] && !lane.isAccepting)
        #expect(mayReopen(readAfter: 2))
        #expect(pause("answered 410", after: 3, beganNow: true))
        #expect(!mayReopen(readAfter: 2), "it was resumed then, and is paused again")
        #expect(lane.pauseReason == "answered 410")
        #expect(!pause("answered 410", after: 4, beganNow: true) && !pause("paused by hand", after: 5, beganNow: false))
        #expect(mayReopen(readAfter: 5), "a poll that finds it paused closes nothing")
        lane.reopen()
        #expect(lane.pauseReason == nil && pause("answered 410", after: 6, beganNow: false))
    }

    @Test("While the daemon starts nothing, the lane asks for no slots and has nothing to wake up for")
    func heldUp() {
        var lane = Self.lane(concurrency: 16, rate: RateLimit(count: 10, period: .seconds(1)))
        func start() -> LaneState.Start? { lane.start(at: Self.now) }
        func reserve() -> RateSlots.Reservation? { lane.beginReservation(at: Self.now) }
        _ = lane.add(deliveries(1...3))
        lane.mayStartAttempts = false
        #expect(reserve() == nil)
        lane.mayStartAttempts = true
        #expect(reserve()?.count == 1)
        lane.endReservation(first: Self.now, count: 1, askedAt: Self.now, at: Self.now)
        lane.mayStartAttempts = false
        #expect(start() == nil && reserve() == nil)
        #expect(lane.wakeUp(after: Self.now) == nil, "an alarm for a slot whose time has come would ring for ever")
        lane.mayStartAttempts = true
        #expect(lane.wakeUp(after: Self.now) == Self.now)
        #expect(start()?.delivery.id == 1)
    }

    @Test("A probe under a slow rate is sent, however many polls come before its slot")
    func ratedProbe() throws {
        var lane = Self.lane(concurrency: 16, rate: RateLimit(count: 6, period: .seconds(60)))
        func action() -> Breaker.Action? { lane.nextAction() }
        #expect(lane.slotWaitMax == .seconds(70.5))
        _ = lane.add(deliveries(1...3))
        var now = Self.now
        lane.apply(SharedBreaker(isProbeDue: true), readAt: now)
        #expect(action() == .requestProbe)
        lane.actionDone(isGranted: true, at: now)
        let begun = lane.beginReservation(at: now)
        #expect(begun?.count == 1, "one probe, one slot")
        // Another daemon has the slot before it.
        lane.endReservation(first: now + .milliseconds(10_500), count: 1, askedAt: now, at: now)
        var probe: LaneState.Start?
        var reservations = 1
        for _ in 0..<20 where probe == nil {
            now = min(now + .seconds(1), max(now, lane.wakeUp(after: now) ?? now + .seconds(1)))
            lane.apply(SharedBreaker(isProbeDue: false), readAt: now)
            if lane.beginReservation(at: now) != nil { reservations += 1 }
            probe = lane.start(at: now)
        }
        #expect(probe?.isProbe == true && reservations == 1)
        #expect(now == Self.now + .milliseconds(10_500))
        // Fails: the next probe needs a slot of its own.
        lane.finished(try #require(probe), .failing("answered 503"), at: now)
        #expect(action() == .publishProbeEnded)
        // The breaker that opens gives up what was reserved for a closed one.
        var other = Self.lane(concurrency: 16, rate: RateLimit(count: 10, period: .seconds(1)))
        _ = other.add(deliveries(1...3))
        _ = other.beginReservation(at: Self.now)
        other.endReservation(first: Self.now, count: 1, askedAt: Self.now, at: Self.now)
        other.apply(SharedBreaker(isProbeDue: true), readAt: Self.now)
        _ = other.nextAction()
        other.actionDone(isGranted: true, at: Self.now)
        let early = other.start(at: Self.now)
        #expect(early == nil)
    }

    @Test("A breaker that opens here gives up the slots, too, and its probes reserve one at a time")
    func ratedBreaker() throws {
        var lane = Self.lane(concurrency: 16, rate: RateLimit(count: 1_000, period: .seconds(1)))
        var now = Self.now
        func reserve() -> Int? {
            let begun = lane.beginReservation(at: now)
            guard let begun else { return nil }
            lane.endReservation(first: now, count: begun.count, askedAt: now, at: now)
            return begun.count
        }
        func start() -> LaneState.Start? { lane.start(at: now) }
        func action() -> Breaker.Action? { lane.nextAction() }
        _ = lane.add(deliveries(1...100))
        #expect(reserve() == 1)
        for _ in 0..<Limits.breakerAttemptsNeeded {
            now = now + .milliseconds(2)
            let failing = try #require(start())
            _ = reserve()
            lane.finished(failing, .failing("answered 503"), at: now)
        }
        now = now + .milliseconds(2)
        #expect(lane.wakeUp(after: now) == nil && start() == nil, "open")
        #expect(action() != nil)
        lane.actionDone(at: now)
        for _ in 0..<3 {
            now = now + .seconds(5)
            lane.apply(SharedBreaker(isProbeDue: true), readAt: now)
            #expect(action() == .requestProbe)
            lane.actionDone(isGranted: true, at: now)
            #expect(start() == nil, "nothing that was reserved before is left")
            #expect(reserve() == 1)
            let probe = try #require(start())
            #expect(probe.isProbe)
            lane.finished(probe, .failing("answered 503"), at: now)
            #expect(action() == .publishProbeEnded)
            lane.actionDone(at: now)
        }
    }

    @Test("Under a rate nothing starts without a slot, and what waits for one waits in the lane")
    func rated() throws {
        var lane = Self.lane(concurrency: 16, rate: RateLimit(count: 10, period: .seconds(1)))
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        func start(_ later: TimeAmount) -> LaneState.Start? { lane.start(at: Self.now + later) }
        func reserve() -> RateSlots.Reservation? { lane.beginReservation(at: Self.now) }
        #expect(reserve() == nil && lane.wakeUp(after: Self.now) == nil, "nothing waits")
        #expect(add(1...3))
        #expect(start(.zero) == nil)
        #expect(reserve() == RateSlots.Reservation(count: 1, notBefore: .zero))
        #expect(start(.zero) == nil && reserve() == nil && lane.waiting.count == 3)
        lane.endReservation(first: Self.now + .milliseconds(30), count: 1, askedAt: Self.now, at: Self.now)
        #expect(start(.milliseconds(29)) == nil)
        #expect(lane.wakeUp(after: Self.now) == Self.now + .milliseconds(30))
        let first = try #require(start(.milliseconds(30)))
        #expect(first.delivery.id == 1 && lane.waiting.count == 2 && start(.milliseconds(30)) == nil)
    }

    @Test("Claims one at a time, while it runs low and something may be there")
    func claims() {
        var lane = Self.lane(concurrency: 1)
        func beginClaim() -> Int? { lane.beginClaim() }
        let limit = Limits.claimDeliveriesMax
        #expect(beginClaim() == limit, "at first nobody knows what the table holds")
        #expect(beginClaim() == nil, "one is under way")
        lane.endClaim(isDrained: false)
        #expect(beginClaim() == limit)
        _ = lane.add(deliveries(1...Int64(limit)), areClaimed: true)
        lane.endClaim(isDrained: false)
        #expect(beginClaim() == nil, "there is enough to do")
        while lane.waiting.count > limit / 2 {
            #expect(beginClaim() == nil)
            guard let start = lane.start(at: Self.now) else { break }
            lane.finished(start, .alive, at: Self.now)
        }
        #expect(beginClaim() == limit)
        lane.endClaim(isDrained: true)
        #expect(beginClaim() == nil, "the end was reached")
        lane.expectBacklog()
        #expect(beginClaim() == limit)
    }

    @Test("While new messages stream, a quarter of the starts are those of retries and the backlog")
    func fairShare() throws {
        var lane = Self.lane(concurrency: 1)
        _ = lane.add(deliveries(1...Int64(Limits.laneDeliveriesMax)))
        let begun = lane.beginClaim()
        #expect(begun == Limits.claimDeliveriesMax, "however many fresh ones wait")
        _ = lane.add(deliveries(100_000...100_099), areClaimed: true)
        lane.endClaim(isDrained: true)
        var started: [Int64] = []
        for _ in 0..<600 {
            let begun = lane.start(at: Self.now)
            let start = try #require(begun)
            started.append(start.delivery.id)
            lane.finished(start, .alive, at: Self.now)
        }
        #expect(started.prefix(400).filter { $0 >= 100_000 } == Array(100_000...100_099))
        #expect(started.filter { $0 < 100_000 } == Array(1...500), "each in its order, and none waits for the other")
        #expect(lane.waiting.count == Limits.laneDeliveriesMax - 500)
    }

    @Test("A hint that comes while a claim is under way is not lost for the next poll")
    func hintedMeanwhile() {
        var lane = Self.lane(concurrency: 1)
        func beginClaim() -> Int? { lane.beginClaim() }
        _ = lane.beginClaim()
        lane.expectBacklog()
        lane.endClaim(isDrained: false)
        #expect(lane.mayHaveBacklog && beginClaim() != nil)
        _ = lane.close(at: Self.now)
        lane.reopen()
        #expect(lane.mayHaveBacklog)
    }
}
