import CLibpq
import Glibc

/// A serial executor on one thread of its own: the jobs of one connection run there, in order, and may block there
/// without holding up Swift's own threads.
///
/// The thread keeps the executor alive until `stop()`; after it the thread runs what is queued and ends.
///
/// `@unchecked Sendable`: `jobs` and `stopping` are touched only between `pthread_mutex_lock` and `…_unlock` of `lock`;
/// everything else is constant.
final class ThreadExecutor: SerialExecutor, @unchecked Sendable {
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let jobArrived = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private let name: String
    private var jobs: [UnownedJob] = []
    private var stopping = false

    private init(name: String) {
        self.name = name
        pthread_mutex_init(lock, nil)
        pthread_cond_init(jobArrived, nil)
    }

    deinit {
        pthread_cond_destroy(jobArrived)
        pthread_mutex_destroy(lock)
        jobArrived.deallocate()
        lock.deallocate()
    }

    /// Starts the thread. `name` is cut to the 15 bytes that Linux keeps of a thread's name.
    static func start(name: String) throws(DatabaseError) -> ThreadExecutor {
        let executor = ThreadExecutor(name: String(name.prefix(15)))
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
        pthread_mutex_lock(lock)
        jobs.append(job)
        pthread_cond_signal(jobArrived)
        pthread_mutex_unlock(lock)
    }

    /// Lets the thread end once its queue is empty. Called when nobody can enqueue any more.
    func stop() {
        pthread_mutex_lock(lock)
        stopping = true
        pthread_cond_signal(jobArrived)
        pthread_mutex_unlock(lock)
    }

    private func run() {
        // Signals are for the daemon's own threads.
        var all = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, nil)
        posthouse_name_this_thread(name)
        while let batch = nextBatch() {
            for job in batch { job.runSynchronously(on: asUnownedSerialExecutor()) }
        }
    }

    /// All jobs that wait, after waiting for one; nil at the end.
    private func nextBatch() -> [UnownedJob]? {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while jobs.isEmpty {
            if stopping { return nil }
            pthread_cond_wait(jobArrived, lock)
        }
        defer { jobs.removeAll(keepingCapacity: true) }
        return jobs
    }
}
