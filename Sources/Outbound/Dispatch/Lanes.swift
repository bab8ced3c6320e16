import Ledger
import NIOCore
import Synchronization
import Vocabulary

/// The lanes that run and those that are ending: a reload changes them, a stop drains them.
final class Lanes: Sendable {
    /// A lane and its event loop; the lane may be used on that loop only.
    final class Bound: Sendable {
        let route: RoutedIntegration
        let loop: any EventLoop
        let lane: NIOLoopBound<Lane>

        fileprivate init(_ route: RoutedIntegration, _ loop: any EventLoop, _ lane: NIOLoopBound<Lane>) {
            self.route = route
            self.loop = loop
            self.lane = lane
        }
    }

    /// Margin after the time-out of the last attempt; a replaced lane has ended by itself by then.
    private static let retirementMargin: Duration = .seconds(1)

    private let running = Mutex<[Int32: Bound]>([:])
    /// Lanes that were replaced or removed, with attempts under way.
    private let retiring = Mutex<[Bound]>([])

    var all: [Bound] { running.withLock { Array($0.values) } }

    subscript(row: Int32) -> Bound? { running.withLock { $0[row] } }

    func forEach(_ body: @escaping @Sendable (Lane) -> Void) {
        for bound in all { bound.loop.execute { body(bound.lane.value) } }
    }

    /// Makes these the lanes that run. A lane whose integration is unchanged continues and trusts the authorities that
    /// were read for the new plan. A lane whose integration was changed or removed gives back what waits in it and
    /// finishes what is under way, beside its successor.
    /// - Parameter make: called on the new lane's loop.
    func adopt(
        _ lanes: [PlannedLane], on group: any EventLoopGroup,
        make: @escaping @Sendable (PlannedLane, any EventLoop) -> Lane
    ) async -> LaneChanges {
        let present = running.withLock { $0 }
        let changes = LaneChanges.between(present: present.values.map(\.route), wanted: lanes.map(\.route))
        let begins = Set((changes.added + changes.changed).map(\.row))
        for planned in lanes where !begins.contains(planned.route.row) {
            guard let bound = present[planned.route.row] else { continue }
            bound.loop.execute { bound.lane.value.renew(planned.plan.trust) }
        }
        for planned in lanes where begins.contains(planned.route.row) {
            let loop = group.next()
            // Fails only if the loop is shut down, and then nothing runs on it.
            guard let lane = try? await loop.submit({ NIOLoopBound(make(planned, loop), eventLoop: loop) }).get()
            else { continue }
            if let former = present[planned.route.row], let reason = await retire(former) {
                // The journal has it already.
                loop.execute { _ = lane.value.pause(reason, beganNow: false) }
            }
            running.withLock { $0[planned.route.row] = Bound(planned.route, loop, lane) }
        }
        for route in changes.removed {
            if let former = present[route.row] { await retire(former) }
            _ = running.withLock { $0.removeValue(forKey: route.row) }
        }
        return changes
    }

    /// Returns once the lane accepts and starts nothing more; it ends by itself.
    /// - Returns: why it is paused; nil: it is not.
    @discardableResult
    private func retire(_ bound: Bound) async -> String? {
        retiring.withLock { $0.append(bound) }
        // Fails only if the loop is shut down, and then nothing runs on it.
        let pauseReason = try? await bound.loop.submit { () -> String? in
            bound.lane.value.retire()
            return bound.lane.value.pauseReason
        }.get()
        Task { [self] in
            _ = await Self.drain(bound, upTo: bound.route.integration.timeout + Self.retirementMargin)
            retiring.withLock { $0.removeAll { $0 === bound } }
        }
        return pauseReason
    }

    /// Drops what waits in the lanes; returns when no lane holds any of it.
    func forget() async {
        for bound in all {
            // Fails only if the loop is shut down, and then nothing waits.
            try? await bound.loop.submit { bound.lane.value.forget() }.get()
        }
    }

    /// Finishes what is under way in all lanes.
    /// - Returns: the number of attempts that were cut at the deadline.
    func drain(upTo limit: Duration) async -> Int {
        let bound = all + retiring.withLock { $0 }
        return await withTaskGroup { group in
            for lane in bound {
                group.addTask { await Self.drain(lane, upTo: limit) }
            }
            return await group.reduce(0, +)
        }
    }

    private static func drain(_ bound: Bound, upTo limit: Duration) async -> Int {
        let (loop, lane) = (bound.loop, bound.lane)
        let deadline = loop.scheduleTask(in: TimeAmount(limit)) {
            defer { lane.value.cancel() }
            return lane.value.underWay
        }
        try? await loop.flatSubmit { lane.value.drain() }.get()
        deadline.cancel()
        loop.execute { lane.value.closeClient() }
        // If it was cancelled in time, nothing was cut: the future of a cancelled task fails.
        return (try? await deadline.futureResult.get()) ?? 0
    }
}
