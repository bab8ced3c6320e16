import NIOCore
import Synchronization

/// The open connections of one listener. Its event loops and the listener share it.
final class Connections: Sendable {
    private struct Members {
        var channels: [ObjectIdentifier: any Channel] = [:]
        /// Accepted, and not yet registered with their loops.
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
    private let partialBodiesBytes = Atomic<Int>(0)
    private let stopped = Atomic<Bool>(false)
    private let draining = Atomic<Bool>(false)

    var openCount: Int { open.load(ordering: .relaxed) }
    /// No further connection is accepted.
    var hasStoppedAccepting: Bool { stopped.load(ordering: .acquiring) }
    var isDraining: Bool { draining.load(ordering: .acquiring) }

    /// Adds to the bytes that all unfinished bodies hold; returns the new sum.
    func holdBodyBytes(_ delta: Int) -> Int { partialBodiesBytes.wrappingAdd(delta, ordering: .relaxed).newValue }

    func joined(_ channel: any Channel) {
        open.wrappingAdd(1, ordering: .relaxed)
        members.withLock { members in
            members.channels[ObjectIdentifier(channel)] = channel
            members.beingSetUp.insert(ObjectIdentifier(channel))
        }
    }

    func isSetUp(_ channel: any Channel) {
        for promise in members.withLock({ $0.endedSetUp(channel) }) { promise.succeed(()) }
    }

    func left(_ channel: any Channel) {
        // First: whoever finds no member left finds none counted.
        open.wrappingSubtract(1, ordering: .relaxed)
        let waiting = members.withLock { members -> [EventLoopPromise<Void>] in
            members.channels[ObjectIdentifier(channel)] = nil
            let setUp = members.endedSetUp(channel)
            guard members.channels.isEmpty else { return setUp }
            defer { members.whenEmpty = [] }
            return setUp + members.whenEmpty
        }
        for promise in waiting { promise.succeed(()) }
    }

    /// Stops waiting for connections that are being set up.
    func giveUpSetUps() {
        let waiting = members.withLock { members in
            defer { members.whenSetUp = [] }
            return members.whenSetUp
        }
        for promise in waiting { promise.succeed(()) }
    }

    func stopAccepting() { stopped.store(true, ordering: .releasing) }

    /// Succeeds once no accepted connection is still being set up.
    func whenSetUp(_ promise: EventLoopPromise<Void>) {
        let isDone = members.withLock { members in
            if members.beingSetUp.isEmpty { return true }
            members.whenSetUp.append(promise)
            return false
        }
        if isDone { promise.succeed(()) }
    }

    /// Notifies every connection that its next answer is its last. One that is still being set up reads `isDraining`.
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

    /// Closes the remaining connections, whatever they are doing; returns how many there were.
    func cut() -> Int {
        let channels = all
        for channel in channels { channel.close(mode: .all, promise: nil) }
        return channels.count
    }

    private var all: [any Channel] { members.withLock { Array($0.channels.values) } }
}

/// Sent down a connection's pipeline when the listener drains.
struct DrainRequest: Sendable {}
