import CLibpq
import Linux
import Synchronization

/// A serial executor on its own thread. The jobs of one connection run there, in order, and may block without holding
/// up Swift's own threads.
///
/// The thread keeps the executor alive until `stop()`; then it runs the queued jobs and ends.
final class ThreadExecutor: SerialExecutor {
    private struct Queue {
        var jobs: [UnownedJob] = []
        var isStopping = false
        /// The thread waits for the alarm, or is about to.
        var isAsleep = false
    }

    private enum Step {
        case run([UnownedJob])
        case sleep
        case end
    }

    private let name: String
    private let queue = Mutex(Queue())
    private let alarm: WakeUp

    private init(name: String) throws(DatabaseError) {
        self.name = name
        alarm = try WakeUp.ofConnection()
    }

    /// Starts the thread. `name` is cut to the 15 bytes that Linux keeps of a thread's name.
    static func start(name: String) throws(DatabaseError) -> ThreadExecutor {
        let executor = try ThreadExecutor(name: String(name.prefix(15)))
        do throws(DetachedThread.Failure) { try DetachedThread.start { executor.run() } } catch {
            throw .connectFailed(reason: "no thread for a connection: \(error)")
        }
        return executor
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        change { $0.jobs.append(job) }
    }

    /// Lets the thread end once its queue is empty. Called when no job can be enqueued any more.
    func stop() { change { $0.isStopping = true } }

    /// Changes the queue and wakes the thread if it sleeps; most jobs find it running.
    private func change(_ change: (inout Queue) -> Void) {
        let wasAsleep = queue.withLock { queue in
            change(&queue)
            defer { queue.isAsleep = false }
            return queue.isAsleep
        }
        if wasAsleep { alarm.raise() }
    }

    private func run() {
        posthouse_name_this_thread(name)
        while true {
            switch next() {
            case .run(let jobs): for job in jobs { job.runSynchronously(on: asUnownedSerialExecutor()) }
            case .sleep: alarm.wait()
            case .end: return
            }
        }
    }

    private func next() -> Step {
        queue.withLock { queue in
            guard queue.jobs.isEmpty else {
                defer { queue.jobs = [] }
                return .run(queue.jobs)
            }
            queue.isAsleep = !queue.isStopping
            return queue.isStopping ? .end : .sleep
        }
    }
}
