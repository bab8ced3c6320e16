import NIOCore
import Synchronization

/// The open connections of one listener and what happened on them. Event loops and whoever reads the figures meet
/// here; the hot path touches one relaxed counter a request.
final class Connections: Sendable {
    private struct Members {
        var channels: [ObjectIdentifier: any Channel] = [:]
        /// Accepted, and not yet in the hands of their loops.
        var beingSetUp: Set<ObjectIdentifier> = []
        var whenEmpty: [EventLoopPromise<Void>] = []
        var whenSetUp: [EventLoopPromise<Void>] = []

        mutating func endedSetUp(_ channel: any Channel) -> [EventLoopPromise<Void>] {
            beingSetUp.remove(ObjectIdentifier(channel))
            guard beingSetUp.isEmpty else { return [] }
            defer { whenSetUp = [] }
            return whenSetUp
        }
    }

    private let members = Mutex(Members())
    private let open = Atomic<Int>(0)
    private let accepted = Atomic<Int>(0)
    private let requests = Atomic<Int>(0)
    private let turnedAway = Atomic<Int>(0)
    private let partialBodiesBytes = Atomic<Int>(0)
    private let shut = Atomic<Bool>(false)
    private let draining = Atomic<Bool>(false)

    var openCount: Int { open.load(ordering: .relaxed) }
    /// Nobody more is let in.
    var isShut: Bool { shut.load(ordering: .acquiring) }
    var isDraining: Bool { draining.load(ordering: .acquiring) }

    var figures: FrontFigures {
        FrontFigures(
            openConnections: openCount, connections: accepted.load(ordering: .relaxed),
            requests: requests.load(ordering: .relaxed), turnedAway: turnedAway.load(ordering: .relaxed))
    }

    func countRequest() { requests.wrappingAdd(1, ordering: .relaxed) }
    func countTurnedAway() { turnedAway.wrappingAdd(1, ordering: .relaxed) }

    /// Adds to what all unfinished bodies hold; the sum after it.
    func holdBodyBytes(_ delta: Int) -> Int { partialBodiesBytes.wrappingAdd(delta, ordering: .relaxed).newValue }

    func joined(_ channel: any Channel) {
        open.wrappingAdd(1, ordering: .relaxed)
        accepted.wrappingAdd(1, ordering: .relaxed)
        members.withLock { members in
            members.channels[ObjectIdentifier(channel)] = channel
            members.beingSetUp.insert(ObjectIdentifier(channel))
        }
    }

    func isSetUp(_ channel: any Channel) {
        for promise in members.withLock({ $0.endedSetUp(channel) }) { promise.succeed(()) }
    }

    func left(_ channel: any Channel) {
        let waiting = members.withLock { members -> [EventLoopPromise<Void>] in
            members.channels[ObjectIdentifier(channel)] = nil
            let setUp = members.endedSetUp(channel)
            guard members.channels.isEmpty else { return setUp }
            defer { members.whenEmpty = [] }
            return setUp + members.whenEmpty
        }
        open.wrappingSubtract(1, ordering: .relaxed)
        for promise in waiting { promise.succeed(()) }
    }

    /// Waits for them no longer.
    func giveUpSetUps() {
        let waiting = members.withLock { members in
            defer { members.whenSetUp = [] }
            return members.whenSetUp
        }
        for promise in waiting { promise.succeed(()) }
    }

    func shutDoor() { shut.store(true, ordering: .releasing) }

    /// Succeeds once no accepted connection is still being set up.
    func whenSetUp(_ promise: EventLoopPromise<Void>) {
        let isDone = members.withLock { members in
            if members.beingSetUp.isEmpty { return true }
            members.whenSetUp.append(promise)
            return false
        }
        if isDone { promise.succeed(()) }
    }

    /// Tells every connection that its next answer is its last. One that is only being set up sees `isDraining`.
    func drain() {
        draining.store(true, ordering: .releasing)
        for channel in all { channel.pipeline.fireUserInboundEventTriggered(DrainRequest()) }
    }

    /// Succeeds once no connection is left, at once where there is none.
    func whenEmpty(_ promise: EventLoopPromise<Void>) {
        let isEmpty = members.withLock { members in
            if members.channels.isEmpty { return true }
            members.whenEmpty.append(promise)
            return false
        }
        if isEmpty { promise.succeed(()) }
    }

    /// Closes what is left, whatever it is doing; how many that were.
    func cut() -> Int {
        let channels = all
        for channel in channels { channel.close(mode: .all, promise: nil) }
        return channels.count
    }

    private var all: [any Channel] { members.withLock { Array($0.channels.values) } }
}

/// Sent down a connection's pipeline when the listener drains.
struct DrainRequest: Sendable {}

/// What a listener counted, for metrics. All but the first only ever grow.
package struct FrontFigures: Hashable, Sendable {
    package var openConnections: Int
    package var connections: Int
    /// Heads that were put before the handler.
    package var requests: Int
    /// Answers that the front gave by itself: 400, 408, 413, 431, 503, time-out answers.
    package var turnedAway: Int
}
