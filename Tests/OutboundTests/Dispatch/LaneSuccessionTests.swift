import HTTPClient
import NIOCore
import NIOPosix
import Postgres
import Testing
import Vocabulary

@testable import Ledger
@testable import Outbound

@Suite("A lane that another one replaces")
struct LaneSuccessionTests {
    /// A queue whose database is never asked: nothing that waits in these lanes was leased.
    private static func queue(_ dispatchBuffer: DispatchBuffer) throws -> (Queue, DatabaseClock) {
        let settings = try ConnectionSettings(
            "host=127.0.0.1 port=1", connectTimeout: .seconds(1), statementTimeout: .seconds(1),
            deadlineMargin: .seconds(1))
        let pool = Pool(
            settings, size: 1, waiting: Pool.Waiting(waitersMax: 1, limit: .seconds(1)),
            backoff: Limits.reconnectBackoff)
        let clock = DatabaseClock()
        let registration = Registration(
            pool: pool, key: nil, version: "0", clock: clock, leaseDuration: .seconds(3_600))
        let queue = Queue(
            pool: pool, dispatchBuffer: dispatchBuffer, registration: registration, routes: Routes(RouteTable()),
            observe: { _ in })
        return (queue, clock)
    }

    /// A lane that sends nothing. Call it on `loop`.
    static func lane(
        _ route: RoutedIntegration, _ plan: LanePlan, of queue: Queue, clock: DatabaseClock,
        calls: LaneCallLimit = LaneCallLimit(), loop: any EventLoop
    ) -> Lane {
        let client = EndpointClient(
            endpoint: route.integration.url, allowsPrivateAddresses: true, trust: plan.trust,
            resolver: NameResolver().resolver, connectionsMax: 1, eventLoop: loop)
        let path = OutboundPath(
            route: route, client: client, head: plan.head, signer: plan.signer, sources: SourceSignings([:]),
            clock: clock, settlements: SettlementBuffer(), confirmations: queue.dispatchBuffer.confirmations,
            observe: { _ in })
        return Lane(
            route: route, path: path, queue: queue, dispatchBuffer: queue.dispatchBuffer,
            registration: queue.registration, calls: calls, loop: loop)
    }

    @Test("Its second close, as it drains, leaves its successor's slot in the dispatch buffer alone")
    func successor() async throws {
        let dispatchBuffer = DispatchBuffer()
        let (queue, clock) = try Self.queue(dispatchBuffer)
        let route = LaneChangesTests.route(7, "a")
        let plan = try #require(try LanePlan.make([route.integration], version: "0")["a"])
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let drained = try await loop.submit {
            let old = Self.lane(route, plan, of: queue, clock: clock, loop: loop)
            let new = Self.lane(route, plan, of: queue, clock: clock, loop: loop)
            old.open()
            old.retire()
            new.open()
            #expect(dispatchBuffer.reserve(7, upTo: 1) == 1)
            return NIOLoopBound(old.drain(), eventLoop: loop)
        }.get()
        try await loop.flatSubmit { drained.value }.get()
        #expect(dispatchBuffer.reserve(7, upTo: 1) == 1)
    }
}
