import NIOCore
import Testing
import Vocabulary

@testable import Outbound

@Suite("What a lane may do next")
struct LaneStateTests {
    private func delivery(_ id: Int64) -> Delivery {
        Delivery(
            id: id, integration: 1,
            message: Message(
                row: id, id: "msg_\(id)", event: id, eventID: "evt_\(id)", type: "RENEWED", source: "shop",
                transaction: nil, purchase: nil, purchaseKey: nil, transferID: nil, envelope: [], original: [],
                derivedBody: nil),
            attemptsMade: 0, createdAt: Timestamp(milliseconds: 0))
    }

    private func deliveries(_ ids: ClosedRange<Int64>) -> [Delivery] { ids.map(delivery) }

    @Test("Starts in order of arrival, no more at once than its concurrency")
    func starts() {
        var lane = LaneState(concurrency: 2)
        func start() -> Int64? { lane.start()?.id }
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        #expect(start() == nil)
        #expect(add(1...4))
        #expect(start() == 1 && start() == 2)
        #expect(start() == nil && lane.underWay == 2 && lane.waiting.count == 2)
        lane.finished()
        #expect(start() == 3 && start() == nil)
        lane.finished()
        lane.finished()
        #expect(lane.underWay == 0 && start() == 4 && start() == nil)
    }

    @Test("Closed it takes and starts nothing, gives back what waited, and lets end what is under way")
    func closing() {
        var lane = LaneState(concurrency: 1)
        func start() -> Int64? { lane.start()?.id }
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        func close() -> [Int64] { lane.close().map(\.id) }
        func beginClaim() -> Int? { lane.beginClaim() }
        #expect(add(1...3))
        #expect(start() == 1)
        #expect(close() == [2, 3])
        #expect(!add(4...4) && start() == nil && lane.waiting.isEmpty)
        #expect(beginClaim() == nil && lane.underWay == 1)
        #expect(close().isEmpty)
        lane.finished()
        lane.reopen()
        #expect(lane.isOpen && add(5...5) && start() == 5)
    }

    @Test("A lost lease: what waited is forgotten, the lane stays open")
    func forgetting() {
        var lane = LaneState(concurrency: 1)
        func start() -> Int64? { lane.start()?.id }
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        func forget() -> [Int64] { lane.forget().map(\.id) }
        #expect(add(1...3))
        #expect(start() == 1)
        #expect(forget() == [2, 3])
        #expect(lane.isOpen && lane.underWay == 1 && forget().isEmpty)
        #expect(add(4...4))
    }

    @Test("Claims one at a time, while it runs low and something may be there")
    func claims() {
        var lane = LaneState(concurrency: 1)
        func add(_ ids: ClosedRange<Int64>) -> Bool { lane.add(deliveries(ids)) }
        func beginClaim() -> Int? { lane.beginClaim() }
        let limit = Limits.claimDeliveriesMax
        #expect(beginClaim() == limit, "at first nobody knows what the table holds")
        #expect(beginClaim() == nil, "one is under way")
        lane.endClaim(isDrained: false)
        #expect(beginClaim() == limit)
        #expect(add(1...Int64(limit)))
        lane.endClaim(isDrained: false)
        #expect(beginClaim() == nil, "there is enough to do")
        while lane.waiting.count > limit / 2 {
            #expect(beginClaim() == nil)
            _ = lane.start()
            lane.finished()
        }
        #expect(beginClaim() == limit)
        lane.endClaim(isDrained: true)
        #expect(beginClaim() == nil, "the end was reached")
        lane.expectBacklog()
        #expect(beginClaim() == limit)
    }

    @Test("A hint that comes while a claim is under way is not lost for the next poll")
    func hintedMeanwhile() {
        var lane = LaneState(concurrency: 1)
        func beginClaim() -> Int? { lane.beginClaim() }
        _ = lane.beginClaim()
        lane.expectBacklog()
        lane.endClaim(isDrained: false)
        #expect(lane.mayHaveBacklog && beginClaim() != nil)
        _ = lane.close()
        lane.reopen()
        #expect(lane.mayHaveBacklog)
    }
}
