internal import Glibc
internal import Synchronization

/// A thread that runs jobs one after the other, so that what blocks holds up no thread of a pool. Each job may post
/// further ones.
package final class WorkThread: Sendable {
    package typealias Job = @Sendable () -> Void

    private struct State {
        var jobs: [Job] = []
        var isStopping = false
    }

    private let state = Mutex(State())
    private let wakeUp: WakeUp

    private init(_ wakeUp: WakeUp) { self.wakeUp = wakeUp }

    /// Starts the thread. It keeps this object alive until `stop`.
    package static func start() throws -> WorkThread {
        let thread = WorkThread(try WakeUp())
        try DetachedThread.start { thread.run() }
        return thread
    }

    /// Adds a job; false: the thread is stopping, and the job will not run.
    @discardableResult
    package func post(_ job: @escaping Job) -> Bool {
        let isTaken = state.withLock { state in
            if !state.isStopping { state.jobs.append(job) }
            return !state.isStopping
        }
        wakeUp.raise()
        return isTaken
    }

    /// Runs `body` on the thread; nil: the thread is stopping.
    package func value<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value? {
        await withCheckedContinuation { continuation in
            if !post({ continuation.resume(returning: body()) }) { continuation.resume(returning: nil) }
        }
    }

    /// Takes no further jobs; the thread ends behind those that it has.
    package func stop() {
        state.withLock { $0.isStopping = true }
        wakeUp.raise()
    }

    private func run() {
        while true {
            let (jobs, isStopping) = state.withLock { state in
                defer { state.jobs = [] }
                return (state.jobs, state.isStopping)
            }
            for job in jobs { job() }
            if jobs.isEmpty {
                if isStopping { return }
                wakeUp.wait()
            }
        }
    }
}
