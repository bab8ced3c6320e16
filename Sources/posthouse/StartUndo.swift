import Synchronization

/// The steps that undo what a failed start has begun, the last first.
final class StartUndo: Sendable {
    typealias Step = @Sendable () async -> Void

    private let steps = Mutex<[Step]>([])

    func add(_ step: @escaping Step) { steps.withLock { $0.append(step) } }

    /// Not cancelled with the start: giving leases back needs the database.
    /// - Returns: whether all steps ended within `limit`.
    func run(within limit: Duration) async -> Bool {
        let steps = steps.withLock { steps in
            defer { steps = [] }
            return steps
        }
        return await TimeLimit.value(
            of: Task { for step in steps.reversed() { await step() } }, within: limit) != nil
    }
}
