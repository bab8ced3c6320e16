internal import Glibc

/// Runs one blocking job on a detached thread, so that it blocks no thread of a pool.
enum WriterThread {
    private final class Job: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    static func start(_ body: @escaping @Sendable () -> Void) throws(JournalWriterFailure) {
        let job = Unmanaged.passRetained(Job(body))
        var thread = pthread_t()
        // Signals are handled on the main thread, so the new thread inherits a mask that blocks all of them.
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_BLOCK, &all, &before)
        let result = pthread_create(
            &thread, nil,
            { argument in
                argument.map { Unmanaged<Job>.fromOpaque($0).takeRetainedValue().body() }
                return nil
            }, job.toOpaque())
        pthread_sigmask(SIG_SETMASK, &before, nil)
        guard result == 0 else {
            job.release()
            throw JournalWriterFailure(
                description: "cannot start the journal's thread: " + String(cString: strerror(result)))
        }
        pthread_detach(thread)
    }
}
