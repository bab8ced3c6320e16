import Synchronization

/// The steps that undo what a failed start has begun, the last first.
final class StartUndo: Sendable {
    typealias Step = @Sendable () async -> Void

    private let steps = Mutex<[Step]>([])

    func add(_ step: @escaping Step) { steps.withLock { $0.append(step) } }

    func run() async {
        let steps = steps.withLock { steps in
            defer { steps = [] }
            return steps
        }
        for step in steps.reversed() { await step() }
    }
}
