import CLibpq
import Glibc
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
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        let retained = Unmanaged.passRetained(executor)
        var thread = pthread_t()
        let code = pthread_create(
            &thread, &attributes,
            { argument in
                guard let argument else { return nil }
                Unmanaged<ThreadExecutor>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, retained.toOpaque())
        guard code == 0 else {
            retained.release()
            throw .connectFailed(
                reason: "no thread could be started for a connection: \(String(cString: strerror(code)))")
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
        // Signals are left to the daemon's own threads.
        var all = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, nil)
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
