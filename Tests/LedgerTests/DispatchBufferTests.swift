import Testing
import Vocabulary

@testable import Ledger

@Suite("The dispatch buffer")
struct DispatchBufferTests {
    @Test("Slots are granted up to the bound, and only while the lane is open")
    func slots() {
        let dispatchBuffer = DispatchBuffer(slotsPerLane: 3)
        #expect(dispatchBuffer.reserve(1, upTo: 5) == 0)
        dispatchBuffer.open(1) { _ in }
        #expect(dispatchBuffer.reserve(1, upTo: 2) == 2)
        #expect(dispatchBuffer.reserve(1, upTo: 2) == 1)
        #expect(dispatchBuffer.reserve(1, upTo: 1) == 0)
        #expect(dispatchBuffer.reserve(2, upTo: 1) == 0)
        dispatchBuffer.release(1, 2)
        #expect(dispatchBuffer.reserve(1, upTo: 9) == 2)
        dispatchBuffer.close(1)
        #expect(dispatchBuffer.reserve(1, upTo: 1) == 0)
    }

    @Test("Slots from before a lane was closed and opened again do not widen the bound")
    func reopened() {
        let dispatchBuffer = DispatchBuffer(slotsPerLane: 3)
        dispatchBuffer.open(1) { _ in }
        #expect(dispatchBuffer.reserve(1, upTo: 3) == 3)
        dispatchBuffer.close(1)
        dispatchBuffer.open(1) { _ in }
        dispatchBuffer.release(1, 3)
        #expect(dispatchBuffer.reserve(1, upTo: 9) == 3)
        dispatchBuffer.release(2, 1)
        dispatchBuffer.close(1)
        dispatchBuffer.release(1, 1)
    }

    @Test("Bytes bound a lane, too: it takes a message while there is any room")
    func bytes() {
        let dispatchBuffer = DispatchBuffer(slotsPerLane: 100, bytesPerLane: 1_000)
        dispatchBuffer.open(1) { _ in }
        #expect(dispatchBuffer.reserve(1, upTo: 1, bytesEach: 999) == 1 && dispatchBuffer.room(1) == 1)
        #expect(dispatchBuffer.reserve(1, upTo: 1, bytesEach: 5_000) == 1 && dispatchBuffer.room(1) < 0)
        #expect(dispatchBuffer.reserve(1, upTo: 1) == 0)
        dispatchBuffer.release(1, 1, bytes: 5_000)
        #expect(dispatchBuffer.reserve(1, upTo: 1) == 1)
        dispatchBuffer.reserveBytes(of: [.sample(1, bytes: 400)])
        #expect(dispatchBuffer.reserve(1, upTo: 1) == 0)
        dispatchBuffer.release(1, 2, bytes: 999 + 400)
        #expect(dispatchBuffer.room(1) == 1_000)
    }

    @Test("Of the messages of a batch each gets a slot, in their order, whose lane is open and has room")
    func batch() {
        let dispatchBuffer = DispatchBuffer(slotsPerLane: 2, bytesPerLane: 1_000)
        dispatchBuffer.open(1) { _ in }
        dispatchBuffer.open(3) { _ in }
        let granted = dispatchBuffer.reserve([(1, 400), (2, 0), (3, 1_000), (1, 0), (3, 0), (1, 0)])
        #expect(granted == [true, false, true, true, false, false])
        #expect(dispatchBuffer.room(1) == 600 && dispatchBuffer.room(3) == 0)
        #expect(dispatchBuffer.reservedSlots(1) == 2 && dispatchBuffer.reservedSlots(3) == 1)
    }

    @Test("Each lane has its part of the bytes of all; however many there are, it is enough for a message")
    func parts() {
        let dispatchBuffer = DispatchBuffer(bytesPerLane: Limits.laneBytesMax)
        for lanes in 1...300 {
            dispatchBuffer.open(Int32(lanes)) { _ in }
            let part = dispatchBuffer.room(1)
            #expect(lanes > 4 || part == Limits.laneBytesMax)
            #expect(lanes > 256 || part * lanes <= Limits.dispatchBufferBytesMax)
            #expect(part >= Limits.laneBytesMin)
        }
        #expect(dispatchBuffer.room(1) == Limits.laneBytesMin)
        // What lies in one lane takes nothing from another.
        #expect(dispatchBuffer.reserve(1, upTo: 1, bytesEach: Limits.requestBodyBytesMax) == 1)
        #expect(dispatchBuffer.reserve(1, upTo: 1) == 0 && dispatchBuffer.room(2) == Limits.laneBytesMin)
    }

    @Test("A claim that ends after its lane was closed and opened again costs the new opening nothing")
    func replacedWhileClaiming() throws {
        let dispatchBuffer = DispatchBuffer(slotsPerLane: 3, bytesPerLane: 1_000)
        dispatchBuffer.open(1) { _ in }
        let (slots, opening) = try #require(dispatchBuffer.reserveForClaim(1, upTo: 2))
        #expect(slots == 2)
        dispatchBuffer.close(1)
        dispatchBuffer.reserveBytes(of: [.sample(1, bytes: 900)], in: opening)
        dispatchBuffer.open(1) { _ in }
        #expect(dispatchBuffer.reserve(1, upTo: 2) == 2)
        dispatchBuffer.reserveBytes(of: [.sample(1, bytes: 900), .sample(2, bytes: 900)], in: opening)
        #expect(dispatchBuffer.room(1) == 1_000)
        dispatchBuffer.release(1, 2, of: opening)
        #expect(dispatchBuffer.reserve(1, upTo: 9) == 1)
        #expect(dispatchBuffer.reserveForClaim(1, upTo: 1) == nil, "full")
        dispatchBuffer.release(1, 1)
        let (_, new) = try #require(dispatchBuffer.reserveForClaim(1, upTo: 1))
        dispatchBuffer.reserveBytes(of: [.sample(1, bytes: 900)], in: new)
        #expect(dispatchBuffer.room(1) == 100 && new != opening)
    }

    @Test("A claim of a former opening gets no slot")
    func formerOpening() {
        let dispatchBuffer = DispatchBuffer(slotsPerLane: 8)
        let former = dispatchBuffer.open(1) { _ in }
        dispatchBuffer.close(1)
        #expect(dispatchBuffer.reserveForClaim(1, in: former, upTo: 9) == nil, "closed")
        let present = dispatchBuffer.open(1) { _ in }
        #expect(dispatchBuffer.reserveForClaim(1, in: former, upTo: 9) == nil)
        #expect(dispatchBuffer.reserveForClaim(1, in: present, upTo: 9)?.slots == 9, "all its room, and an eighth")
    }

    @Test("Deliveries go to their lanes; those of a closed one come back")
    func passToLanes() {
        let dispatchBuffer = DispatchBuffer()
        let inbox = Inbox()
        dispatchBuffer.open(1) { inbox.put($0) }
        dispatchBuffer.open(2) { inbox.put($0) }
        dispatchBuffer.close(2)
        let refused = dispatchBuffer.passToLanes([
            .sample(1, integration: 1), .sample(2, integration: 2), .sample(3, integration: 1),
            .sample(4, integration: 3),
        ])
        #expect(inbox.take().map(\.id) == [1, 3])
        #expect(refused.map(\.id).sorted() == [2, 4])
        #expect(dispatchBuffer.passToLanes([]).isEmpty)
    }

    private func leased(_ ids: Int64..., by lease: Int64) -> [Delivery] { ids.map { .sample($0, lease: lease) } }

    @Test("What is held is known until it is dropped")
    func held() {
        let dispatchBuffer = DispatchBuffer()
        dispatchBuffer.hold(leased(1, 2, 3, by: 7))
        dispatchBuffer.hold(leased(3, by: 7))
        #expect(dispatchBuffer.heldCount == 3 && dispatchBuffer.holds(3, under: 7))
        dispatchBuffer.drop(leased(3, 4, by: 7))
        #expect(!dispatchBuffer.holds(3, under: 7) && dispatchBuffer.heldCount == 2)
        dispatchBuffer.dropAll()
        #expect(dispatchBuffer.heldCount == 0 && !dispatchBuffer.holds(1, under: 7))
    }

    @Test("What arrives late under a lost lease is not held under the next, and takes nothing from it as it ends")
    func heldUnderTwoLeases() {
        let dispatchBuffer = DispatchBuffer()
        dispatchBuffer.dropAll()
        dispatchBuffer.hold(leased(1, 2, by: 7))
        dispatchBuffer.hold(leased(2, 3, by: 8))
        #expect(!dispatchBuffer.holds(1, under: 8) && dispatchBuffer.holds(2, under: 8))
        dispatchBuffer.drop(leased(1, 2, 3, by: 7))
        #expect(dispatchBuffer.holds(2, under: 8) && dispatchBuffer.holds(3, under: 8) && dispatchBuffer.heldCount == 2)
    }

    @Test("Hints come at most once in a while")
    func hints() {
        let dispatchBuffer = DispatchBuffer()
        #expect(dispatchBuffer.mayHint())
        #expect(!dispatchBuffer.mayHint())
    }
}
