import NIOCore
import Synchronization

/// The open connections of one listener and what happened on them. Event loops and whoever reads the figures meet
/// here; the hot path touches one relaxed counter a request.
final class Connections: Sendable {
    private struct Members {
        var channels: [ObjectIdentifier: any Channel] = [:]
        var whenEmpty: [EventLoopPromise<Void>] = []
    }

    private let members = Mutex(Members())
    private let open = Atomic<Int>(0)
    private let accepted = Atomic<Int>(0)
    private let requests = Atomic<Int>(0)
    private let turnedAway = Atomic<Int>(0)
    private let partialBodiesBytes = Atomic<Int>(0)
    private let draining = Atomic<Bool>(false)

    var openCount: Int { open.load(ordering: .relaxed) }
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
        members.withLock { $0.channels[ObjectIdentifier(channel)] = channel }
    }

    func left(_ channel: any Channel) {
        let waiting = members.withLock { members -> [EventLoopPromise<Void>] in
            members.channels[ObjectIdentifier(channel)] = nil
            guard members.channels.isEmpty else { return [] }
            defer { members.whenEmpty = [] }
            return members.whenEmpty
        }
        open.wrappingSubtract(1, ordering: .relaxed)
        for promise in waiting { promise.succeed(()) }
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
