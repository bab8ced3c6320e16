import Glibc
import Linux
import Synchronization

/// Signals as a stream. A handler may do almost nothing: it writes the number into a pipe, from which a thread yields
/// it.
///
/// Not by Dispatch: until its source is registered, which on a busy machine may take longer than the first steps of a
/// start, a signal is lost.
enum Signals {
    /// Who gets each signal, by its number.
    private static let receivers = Mutex<[Int32: AsyncStream<Int32>.Continuation]>([:])

    /// Yields each of `numbers` when it arrives; their default action is switched off for good.
    static func stream(_ numbers: [Int32]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            receivers.withLock { for number in numbers { $0[number] = continuation } }
            continuation.onTermination = { _ in
                receivers.withLock { for number in numbers { $0[number] = nil } }
            }
            guard hasReader else { return }
            for number in numbers {
                var action = sigaction()
                action.__sigaction_handler.sa_handler = { number in
                    let before = errno
                    var byte = UInt8(truncatingIfNeeded: number)
                    _ = write(pipeEnd, &byte, 1)
                    errno = before
                }
                action.sa_flags = SA_RESTART
                sigaction(number, &action, nil)
            }
        }
    }

    /// Lets signals end a command that is the first process of a container: there the kernel ignores those without a
    /// handler. `stream` may replace it.
    static func endFirstProcess() {
        guard getpid() == 1 else { return }
        // The status that a shell gives of a process that a signal has ended.
        for number in [SIGTERM, SIGINT] { signal(number) { _exit(128 + $0) } }
    }

    /// Makes the pipe and the thread that reads it, once. Without them signals keep their default action.
    private static let hasReader: Bool = {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return false }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // The handler must never wait.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        let readEnd = ends[0]
        pipeEnd = ends[1]
        do {
            try DetachedThread.start {
                takeSignals()
                var byte: UInt8 = 0
                while true {
                    let count = read(readEnd, &byte, 1)
                    if count == 1 { _ = receivers.withLock { $0[Int32(byte)]?.yield(Int32(byte)) } }
                    if count == 0 || count < 0 && errno != EINTR { return }
                }
            }
            return true
        } catch {
            return false
        }
    }()

    /// Other threads may block all signals, the main thread may have ended: this one takes what nobody else does.
    private static func takeSignals() {
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
    }
}

/// Where the handler writes. Unsafe only in name: it is written once, before the first handler is installed, by
/// `Signals.hasReader`, and only read from then on.
private nonisolated(unsafe) var pipeEnd: Int32 = -1
