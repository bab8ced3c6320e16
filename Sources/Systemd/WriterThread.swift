internal import Glibc

/// A detached thread for one blocking job, so that no pool's thread ever waits in its place.
enum WriterThread {
    private final class Job: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    static func start(_ body: @escaping @Sendable () -> Void) throws(JournalWriterFailure) {
        let job = Unmanaged.passRetained(Job(body))
        var thread = pthread_t()
        // Signals belong to the main thread's handlers: the new thread inherits a mask with everything blocked.
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
