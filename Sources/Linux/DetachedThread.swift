internal import Glibc

/// Runs one blocking job on a thread of its own that nobody waits for, so that it blocks no thread of a pool.
package enum DetachedThread {
    package struct Failure: Error, CustomStringConvertible {
        package let errorNumber: Int32
        package var description: String { "cannot start a thread: " + String(cString: strerror(errorNumber)) }
    }

    private final class Job: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Throws when the system has no thread left; `body` is not called then.
    package static func start(_ body: @escaping @Sendable () -> Void) throws(Failure) {
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
            throw Failure(errorNumber: result)
        }
        pthread_detach(thread)
    }
}
