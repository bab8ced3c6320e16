import Dispatch
import NIOCore
import NIOPosix
import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger
@testable import Outbound

@Suite("What all lanes ask of the database at once", .timeLimit(.minutes(30)))
struct LaneCallLimitTests {
    private final class Numbers: Sendable {
        let all = Mutex<[Int]>([])
    }

    /// Looks until `isReached` holds; the time limit of the suite ends it.
    private func wait(until isReached: () -> Bool) async throws {
        while !isReached() { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test("As many calls as the bound begin at once, the others in the order in which they came")
    func inTurn() async throws {
        let calls = LaneCallLimit(atOnce: 2)
        for _ in 0..<2 { await calls.begin() }
        let begun = Numbers()
        var later: [Task<Void, Never>] = []
        for number in 0..<3 {
            later.append(
                Task {
                    await calls.begin()
                    begun.all.withLock { $0.append(number) }
                })
            try await wait { calls.waiting == number + 1 }
        }
        #expect(begun.all.withLock { $0 } == [])
        for number in 0..<3 {
            calls.end()
            await later[number].value
            #expect(begun.all.withLock { $0 } == Array(0...number))
        }
        // None is lost.
        for _ in 0..<2 { calls.end() }
        for _ in 0..<2 { await calls.begin() }
        #expect(calls.waiting == 0)
    }

    /// A queue that leases over the only connection of its pool, in a database of its own.
    private func leasingQueue() async throws -> (Queue, DatabaseClock) {
        let settings = try ConnectionSettings(
            TestCluster.shared.createDatabase(), connectTimeout: .seconds(120), statementTimeout: .seconds(300),
            deadlineMargin: .seconds(60))
        let connection = try await Connection.open(settings)
        _ = try await connection.withSession { session throws(DatabaseError) in try Migrator.migrate(on: session) }
            .get()
        await connection.close()
        let pool = Pool(
            settings, size: 1, waiting: Pool.Waiting(waitersMax: 2 * Limits.laneCallsMax, limit: .seconds(600)),
            backoff: Limits.reconnectBackoff)
        pool.start()
        let clock = DatabaseClock()
        let registration = Registration(
            pool: pool, key: nil, version: "0", clock: clock, leaseDuration: .seconds(3_600))
        try await registration.register()
        let queue = Queue(
            pool: pool, dispatchBuffer: DispatchBuffer(), registration: registration, routes: Routes(RouteTable()),
            observe: { _ in })
        return (queue, clock)
    }

    /// Takes the connection of the pool until `release`, so that every call waits for it.
    private func take(_ pool: Pool, until release: DispatchSemaphore) async -> Task<Void, any Error> {
        let (isTaken, taken) = AsyncStream<Void>.makeStream()
        let held: Task<Void, any Error> = Task {
            try await pool.withSession { _ throws(DatabaseError) in
                taken.yield()
                // The limit is against hanging alone.
                _ = release.wait(timeout: .now() + 300)
            }
        }
        for await _ in isTaken { break }
        return held
    }

    /// Recording waits where the renewal does.
    @Test("However many lanes open at once, the pool's queue has room for the renewal of the lease")
    func room() async throws {
        let (queue, clock) = try await leasingQueue()
        let release = DispatchSemaphore(value: 0)
        let held = await take(queue.pool, until: release)

        let count: Int32 = 1_100
        let (calls, loop) = (LaneCallLimit(), MultiThreadedEventLoopGroup.singleton.next())
        let plan = try #require(try LanePlan.make([LaneChangesTests.route(1, "a").integration], version: "0")["a"])
        let lanes = try await loop.submit {
            let lanes = (1...count).map { row in
                LaneSuccessionTests.lane(
                    LaneChangesTests.route(row, "a"), plan, of: queue, clock: clock, calls: calls, loop: loop)
            }
            for lane in lanes { lane.open() }
            return NIOLoopBound(lanes, eventLoop: loop)
        }.get()
        try await wait { calls.waiting == Int(count) - Limits.laneCallsMax }
        let renewal = Task { [registration = queue.registration] in try await registration.renew() }
        release.signal()
        #expect(try await renewal.value)
        try await held.value
        try await wait { calls.waiting == 0 }
        try await loop.submit { for lane in lanes.value { lane.retire() } }.get()
        await queue.pool.close()
    }

    @Test("A claim whose turn comes when its lane has a successor ends at once, and the successor's is next")
    func successor() async throws {
        let (queue, clock) = try await leasingQueue()
        let release = DispatchSemaphore(value: 0)
        let held = await take(queue.pool, until: release)

        let (calls, loop) = (LaneCallLimit(atOnce: 1), MultiThreadedEventLoopGroup.singleton.next())
        await calls.begin()
        let route = LaneChangesTests.route(7, "a")
        let plan = try #require(try LanePlan.make([route.integration], version: "0")["a"])
        let lanes = try await loop.submit {
            let lanes = (0..<2).map { _ in
                LaneSuccessionTests.lane(route, plan, of: queue, clock: clock, calls: calls, loop: loop)
            }
            lanes[0].open()
            return NIOLoopBound(lanes, eventLoop: loop)
        }.get()
        try await wait { calls.waiting == 1 }
        try await loop.submit {
            lanes.value[0].retire()
            lanes.value[1].open()
        }.get()
        try await wait { calls.waiting == 2 }
        calls.end()
        // A claim has reserved its slots, and waits for the connection.
        try await wait { queue.dispatchBuffer.reservedSlots(7) > 0 }
        #expect(calls.waiting == 0, "it is the successor's")

        release.signal()
        try await held.value
        try await wait { queue.dispatchBuffer.reservedSlots(7) == 0 }
        try await loop.submit { lanes.value[1].retire() }.get()
        await queue.pool.close()
    }
}
