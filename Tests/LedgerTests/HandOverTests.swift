import Testing
import Vocabulary

@testable import Ledger

@Suite("The hand-over between the ledger and the lanes")
struct HandOverTests {
    @Test("Slots are granted up to the bound, and only while the lane is open")
    func slots() {
        let handOver = HandOver(slotsPerLane: 3)
        #expect(handOver.reserve(1, upTo: 5) == 0)
        handOver.open(1) { _ in }
        #expect(handOver.reserve(1, upTo: 2) == 2)
        #expect(handOver.reserve(1, upTo: 2) == 1)
        #expect(handOver.reserve(1, upTo: 1) == 0)
        #expect(handOver.reserve(2, upTo: 1) == 0)
        handOver.free(1, 2)
        #expect(handOver.reserve(1, upTo: 9) == 2)
        handOver.close(1)
        #expect(handOver.reserve(1, upTo: 1) == 0)
    }

    @Test("Slots from before a lane was closed and opened again do not widen the bound")
    func reopened() {
        let handOver = HandOver(slotsPerLane: 3)
        handOver.open(1) { _ in }
        #expect(handOver.reserve(1, upTo: 3) == 3)
        handOver.close(1)
        handOver.open(1) { _ in }
        handOver.free(1, 3)
        #expect(handOver.reserve(1, upTo: 9) == 3)
        handOver.free(2, 1)
        handOver.close(1)
        handOver.free(1, 1)
    }

    @Test("Bytes bound a lane, too: it takes a message while there is any room")
    func bytes() {
        let handOver = HandOver(slotsPerLane: 100, bytesPerLane: 1_000)
        handOver.open(1) { _ in }
        #expect(handOver.reserve(1, upTo: 1, bytesEach: 999) == 1 && handOver.room(1) == 1)
        #expect(handOver.reserve(1, upTo: 1, bytesEach: 5_000) == 1 && handOver.room(1) < 0)
        #expect(handOver.reserve(1, upTo: 1) == 0)
        handOver.free(1, 1, bytes: 5_000)
        #expect(handOver.reserve(1, upTo: 1) == 1)
        handOver.charge([.sample(1, bytes: 400)])
        #expect(handOver.reserve(1, upTo: 1) == 0)
        handOver.free(1, 2, bytes: 999 + 400)
        #expect(handOver.room(1) == 1_000)
    }

    @Test("Each lane has its part of the bytes of all; however many there are, it is enough for a message")
    func parts() {
        let handOver = HandOver(bytesPerLane: Limits.laneBytesMax)
        for lanes in 1...300 {
            handOver.open(Int32(lanes)) { _ in }
            let part = handOver.room(1)
            #expect(lanes > 4 || part == Limits.laneBytesMax)
            #expect(lanes > 256 || part * lanes <= Limits.handOverBytesMax)
            #expect(part >= Limits.laneBytesMin)
        }
        #expect(handOver.room(1) == Limits.laneBytesMin)
        // What lies in one lane takes nothing from another.
        #expect(handOver.reserve(1, upTo: 1, bytesEach: Limits.requestBodyBytesMax) == 1)
        #expect(handOver.reserve(1, upTo: 1) == 0 && handOver.room(2) == Limits.laneBytesMin)
    }

    @Test("A claim that ends after its lane was closed and opened again costs the new opening nothing")
    func replacedWhileClaiming() throws {
        let handOver = HandOver(slotsPerLane: 3, bytesPerLane: 1_000)
        handOver.open(1) { _ in }
        let (slots, opening) = try #require(handOver.reserveForClaim(1, upTo: 2))
        #expect(slots == 2)
        handOver.close(1)
        handOver.charge([.sample(1, bytes: 900)], of: opening)
        handOver.open(1) { _ in }
        #expect(handOver.reserve(1, upTo: 2) == 2)
        handOver.charge([.sample(1, bytes: 900), .sample(2, bytes: 900)], of: opening)
        #expect(handOver.room(1) == 1_000)
        handOver.free(1, 2, of: opening)
        #expect(handOver.reserve(1, upTo: 9) == 1)
        #expect(handOver.reserveForClaim(1, upTo: 1) == nil, "full")
        handOver.free(1, 1)
        let (_, new) = try #require(handOver.reserveForClaim(1, upTo: 1))
        handOver.charge([.sample(1, bytes: 900)], of: new)
        #expect(handOver.room(1) == 100 && new != opening)
    }

    @Test("Deliveries go to their lanes; those of a closed one come back")
    func hand() {
        let handOver = HandOver()
        let inbox = Inbox()
        handOver.open(1) { inbox.put($0) }
        handOver.open(2) { inbox.put($0) }
        handOver.close(2)
        let refused = handOver.hand([
            .sample(1, integration: 1), .sample(2, integration: 2), .sample(3, integration: 1),
            .sample(4, integration: 3),
        ])
        #expect(inbox.take().map(\.id) == [1, 3])
        #expect(refused.map(\.id).sorted() == [2, 4])
        #expect(handOver.hand([]).isEmpty)
    }

    @Test("What is held is known until it is dropped")
    func held() {
        let handOver = HandOver()
        handOver.hold([1, 2, 3], under: 7)
        handOver.hold([3], under: 7)
        #expect(handOver.heldCount == 3 && handOver.holds(3, under: 7))
        handOver.drop([3, 4], under: 7)
        #expect(!handOver.holds(3, under: 7) && handOver.heldCount == 2)
        handOver.dropAll()
        #expect(handOver.heldCount == 0 && !handOver.holds(1, under: 7))
    }

    @Test("What arrives late under a lost lease is not held under the next, and takes nothing from it as it ends")
    func heldUnderTwoLeases() {
        let handOver = HandOver()
        handOver.dropAll()
        handOver.hold([1, 2], under: 7)
        handOver.hold([2, 3], under: 8)
        #expect(!handOver.holds(1, under: 8) && handOver.holds(2, under: 8))
        handOver.drop([1, 2, 3], under: 7)
        #expect(handOver.holds(2, under: 8) && handOver.holds(3, under: 8) && handOver.heldCount == 2)
    }

    @Test("Hints come at most once in a while")
    func hints() {
        let handOver = HandOver()
        #expect(handOver.mayHint())
        #expect(!handOver.mayHint())
    }
}
