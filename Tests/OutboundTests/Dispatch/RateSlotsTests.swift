import NIOCore
import Testing
import Vocabulary

@testable import Outbound

/// Oracle: a count of the arrivals in every stretch of time as long as the period.
@Suite("The slots of a rate")
struct RateSlotsTests {
    private static let epoch = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    /// The row that daemons share, and the machine around one lane's slots, by a clock of its own.
    private struct World {
        var slots: RateSlots
        var now = RateSlotsTests.epoch
        /// The first slot that nobody has.
        var nextAt = RateSlotsTests.epoch
        var reservations: [Int] = []
        var starts: [NIODeadline] = []
        var arrivals: [NIODeadline] = []
        /// How long the database takes to commit a reservation.
        var commit = TimeAmount.zero
        private var reserving: (first: NIODeadline, count: Int, askedAt: NIODeadline)?
        private var underWay: [(number: Int, endsAt: NIODeadline)] = []

        init(_ count: Int, per period: Duration = .seconds(1)) {
            slots = RateSlots(RateLimit(count: count, period: period))
        }

        mutating func reserve(wanted: Int = .max) {
            guard let wanted = slots.beginReservation(wanted: wanted, at: now) else { return }
            reservations.append(wanted.count)
            let first = max(nextAt, now + wanted.notBefore)
            nextAt = first + .nanoseconds(slots.interval.nanoseconds * Int64(wanted.count))
            reserving = (first, wanted.count, now)
            answer()
        }

        private mutating func answer() {
            guard let reserving, reserving.askedAt + commit <= now else { return }
            slots.endReservation(first: reserving.first, count: reserving.count, askedAt: reserving.askedAt, at: now)
            self.reserving = nil
        }

        /// Sends as fast as may be for so long, looking every `step`.
        /// - Parameter latency: from start to answer; the request arrives at some time between.
        mutating func run(
            _ length: TimeAmount, step: (Int) -> TimeAmount = { _ in .milliseconds(1) },
            latency: (Int) -> TimeAmount = { _ in .milliseconds(2) }, arrival: (Int) -> Double = { _ in 0.5 }
        ) {
            let end = now + length
            var steps = 0
            while now < end {
                for ended in underWay where ended.endsAt <= now { slots.ended(ended.number, at: now) }
                underWay.removeAll { $0.endsAt <= now }
                answer()
                while let number = slots.useSlot(at: now) {
                    let taken = latency(starts.count)
                    underWay.append((number, now + taken))
                    arrivals.append(now + .nanoseconds(Int64(Double(taken.nanoseconds) * arrival(starts.count))))
                    starts.append(now)
                }
                reserve()
                now = now + step(steps)
                steps += 1
            }
        }

        /// The most arrivals in any stretch as long as the period.
        func most(in period: TimeAmount) -> Int {
            let sorted = arrivals.sorted()
            var (most, first) = (0, 0)
            for (index, arrival) in sorted.enumerated() {
                while sorted[first] + period <= arrival { first += 1 }
                most = max(most, index - first + 1)
            }
            return most
        }
    }

    @Test("Evenly spaced, a little below the limit", arguments: [1, 2, 7, 100, 1_000])
    func even(count: Int) {
        var world = World(count)
        world.run(.seconds(20))
        #expect(world.most(in: .seconds(1)) <= count)
        #expect(world.arrivals.count <= count * 20)
        #expect(world.arrivals.count >= count * 20 * 90 / 100 - 1, "\(world.arrivals.count)")
    }

    @Test("By the minute it is as even")
    func byTheMinute() {
        var world = World(60, per: .seconds(60))
        world.run(.seconds(600), step: { _ in .milliseconds(10) })
        #expect(world.most(in: .seconds(60)) <= 60)
        #expect((560...600).contains(world.arrivals.count))
    }

    @Test("Never above it, however the machine stalls and wherever between start and answer requests arrive")
    func stalls() {
        for seed in 0..<50 {
            var generator = Generator(state: UInt64(seed))
            var world = World(20)
            world.run(
                .seconds(15),
                step: { _ in
                    // A quarter of the time it does nothing.
                    let stalls = Int.random(in: 0..<200, using: &generator) == 0
                    return .milliseconds(stalls ? Int64.random(in: 20...400, using: &generator) : 3)
                },
                latency: { _ in .milliseconds(Int64.random(in: 1...450, using: &generator)) },
                arrival: { _ in Double.random(in: 0...1, using: &generator) })
            #expect(world.most(in: .seconds(1)) <= 20, "seed \(seed)")
            #expect(world.arrivals.count > 150, "seed \(seed): \(world.arrivals.count)")
        }
    }

    @Test("A receiver that takes long to answer is asked less often, but still two thirds as often")
    func slowReceiver() {
        var world = World(10)
        world.run(.seconds(60), latency: { _ in .seconds(5) }, arrival: { _ in 0.01 })
        #expect((380...600).contains(world.arrivals.count), "\(world.arrivals.count)")
    }

    @Test("A slot that was missed goes unused: no burst after a pause")
    func missed() {
        var world = World(100)
        world.run(.seconds(2))
        let before = world.starts.count
        world.now = world.now + .seconds(1)
        world.run(.milliseconds(1))
        #expect(world.starts.count <= before + 1)
        world.run(.seconds(1))
        #expect(world.starts.count <= before + 100)
    }

    @Test("No more is reserved than can be used, a quarter of a second at most, more only when all was used")
    func reservations() {
        var world = World(100)
        world.run(.seconds(2))
        #expect(world.reservations.prefix(4) == [1, 2, 4, 8])
        #expect(world.reservations.allSatisfy { $0 <= 23 } && world.reservations.contains { $0 > 10 })
        var slots = RateSlots(RateLimit(count: 100, period: .seconds(1)))
        func begin(_ wanted: Int) -> Int? { slots.beginReservation(wanted: wanted, at: Self.epoch)?.count }
        #expect(begin(0) == nil)
        #expect(begin(5) == 1)
        #expect(begin(5) == nil, "one is under way")
        slots.endReservation(first: Self.epoch, count: 1, askedAt: Self.epoch, at: Self.epoch)
        _ = slots.useSlot(at: Self.epoch)
        #expect(begin(5) == 2)
        slots.failReservation()
        #expect(begin(5) == nil && slots.wakeUp(after: Self.epoch) == nil)
        slots.polled()
        #expect(begin(1) == 1)
    }

    @Test("What cannot be used shrinks the next reservation: others may have the slots")
    func shrinks() {
        var world = World(100)
        world.run(.seconds(2))
        world.now = world.now + .seconds(1)
        world.reserve()
        #expect(world.reservations.last ?? 0 > 1, "one that was used before")
        world.now = world.now + .seconds(1)
        world.reserve()
        world.now = world.now + .seconds(1)
        world.reserve()
        #expect(world.reservations.last == 1)
    }

    @Test("After a rest it starts small, and what comes of a reservation from before is a slot like any other")
    func rests() {
        var world = World(100)
        world.run(.seconds(2))
        var slots = world.slots
        let now = world.now + .seconds(1)
        func begin() -> Int? { slots.beginReservation(wanted: 100, at: now)?.count }
        func takes(_ later: TimeAmount = .zero) -> Bool { slots.useSlot(at: now + later) != nil }
        #expect(begin() ?? 0 > 1)
        slots.dropReservedSlots()
        #expect(begin() == nil, "one is under way")
        slots.endReservation(first: now, count: 2, askedAt: now, at: now)
        #expect(takes() && !takes(), "the second has not come yet")
        slots.dropReservedSlots()
        #expect(!takes(.milliseconds(11)), "given up")
        #expect(begin() == 1)
    }

    @Test("The end of a request that is counted no more changes nothing")
    func endedLate() {
        var world = World(2)
        world.run(.seconds(10))
        var slots = world.slots
        let before = slots.wakeUp(after: world.now)
        slots.ended(0, at: Self.epoch)
        slots.ended(.max, at: Self.epoch)
        slots.ended(-1, at: Self.epoch)
        #expect(world.starts.count > 10 && slots.wakeUp(after: world.now) == before)
    }

    @Test("Two lanes with one row stay below it together, each with its share")
    func twoDaemons() {
        var worlds = [World(50), World(50)]
        for _ in 0..<10_000 {
            for index in worlds.indices {
                worlds[index].nextAt = max(worlds[0].nextAt, worlds[1].nextAt)
                worlds[index].run(.milliseconds(1))
            }
        }
        var both = worlds[0]
        both.arrivals += worlds[1].arrivals
        #expect(both.most(in: .seconds(1)) <= 50)
        #expect(both.arrivals.count >= 440)
        #expect(worlds.allSatisfy { $0.arrivals.count >= 150 })
    }

    @Test("A slow database: slots are asked for ahead of its answer, and none is lost to it")
    func slowDatabase() throws {
        var slots = RateSlots(RateLimit(count: 100, period: .seconds(1)))
        var now = Self.epoch
        var used = 0
        for round in 0..<10 {
            let begun = slots.beginReservation(wanted: 1, at: now)
            let wanted = try #require(begun)
            let asked = now
            now = now + .milliseconds(60)
            let first = asked + .milliseconds(30) + wanted.notBefore
            slots.endReservation(first: first, count: wanted.count, askedAt: asked, at: now)
            now = max(now, slots.wakeUp(after: now) ?? now)
            if slots.useSlot(at: now) != nil { used += 1 }
            now = now + .milliseconds(Int64(100 + round))
        }
        #expect(used >= 9, "the first may be missed: nothing is known then")
    }

    @Test(
        "A commit that takes long, of a distant standby: the rate is reached all the same, and never exceeded",
        arguments: [30, 100, 400, 1_000])
    func slowCommit(milliseconds: Int64) {
        var world = World(100)
        world.commit = .milliseconds(milliseconds)
        world.run(.seconds(10))
        let before = world.arrivals.count
        world.run(.seconds(20))
        #expect(world.most(in: .seconds(1)) <= 100)
        #expect(world.arrivals.count - before >= 1_600, "\(world.arrivals.count - before)")
    }

    @Test("Two lanes with one row and slow commits stay below it together")
    func slowCommits() {
        var worlds = [World(50), World(50)]
        worlds[0].commit = .milliseconds(300)
        worlds[1].commit = .milliseconds(40)
        for _ in 0..<20_000 {
            for index in worlds.indices {
                worlds[index].nextAt = max(worlds[0].nextAt, worlds[1].nextAt)
                worlds[index].run(.milliseconds(1))
            }
        }
        var both = worlds[0]
        both.arrivals += worlds[1].arrivals
        #expect(both.most(in: .seconds(1)) <= 50)
        #expect(both.arrivals.count >= 700, "\(both.arrivals.count)")
        #expect(worlds.allSatisfy { $0.arrivals.count >= 150 })
    }

    /// SplitMix64.
    private struct Generator: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
            return mixed ^ mixed >> 31
        }
    }
}
