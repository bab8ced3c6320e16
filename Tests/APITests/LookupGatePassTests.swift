import Ledger
import Synchronization
import Testing

@testable import API

/// Oracle: a count of who is inside. Nothing sleeps: those inside wait to be let go.
@Suite("The gate before the database")
struct LookupGatePassTests {
    @Test("Never more than allowed inside; all get through in turn; who finds the queue full gets an error")
    func bounds() async throws {
        let gate = LookupGate(ofConnections: 3)
        let room = Room()
        let (answers, answered) = AsyncStream<Bool>.makeStream()
        var answer = answers.makeAsyncIterator()
        @Sendable func enter() {
            Task {
                do throws(APIFailure) {
                    try await gate.pass(timeout: .seconds(3_600)) { () async throws(LookupFailure) in
                        await room.stay()
                    }
                    answered.yield(true)
                } catch {
                    #expect(error.status == 503 && error.code == .unavailable)
                    answered.yield(false)
                }
            }
        }
        for _ in 0..<2 { enter() }
        await room.isFull()
        for _ in 0..<258 { enter() }
        // Of these, 256 wait; the other two are refused before anybody is let go.
        #expect(await answer.next() == false)
        #expect(await answer.next() == false)
        await room.letAllGo()
        for _ in 0..<258 { #expect(await answer.next() == true) }
        let most = await room.most
        #expect(most == 2)
        // The places are free again.
        #expect(try await gate.pass { () async throws(LookupFailure) in 7 } == 7)
    }
}

/// Where those are who passed the gate; two fill it.
private actor Room {
    private(set) var most = 0
    private var inside = 0
    private var isOpen = false
    private var staying: [CheckedContinuation<Void, Never>] = []
    private var watching: [CheckedContinuation<Void, Never>] = []

    func stay() async {
        inside += 1
        most = max(most, inside)
        if inside == 2 {
            for watcher in watching { watcher.resume() }
            watching = []
        }
        if !isOpen { await withCheckedContinuation { staying.append($0) } }
        inside -= 1
    }

    func isFull() async {
        if inside < 2 { await withCheckedContinuation { watching.append($0) } }
    }

    func letAllGo() {
        isOpen = true
        for one in staying { one.resume() }
        staying = []
    }
}
