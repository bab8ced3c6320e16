import Dispatch
import Glibc
import Synchronization

/// Signals as a stream, because a signal handler may do almost nothing.
enum Signals {
    /// Yields each of `numbers` when it arrives; their default action is switched off for good.
    static func stream(_ numbers: [Int32]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let watches = numbers.map { Watch($0, continuation) }
            continuation.onTermination = { _ in watches.forEach { $0.cancel() } }
        }
    }

    /// One signal's dispatch source. The mutex only makes it sendable: Dispatch's protocols are not, on Linux.
    private final class Watch: Sendable {
        private let source: Mutex<any DispatchSourceSignal>

        init(_ number: Int32, _ continuation: AsyncStream<Int32>.Continuation) {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler { continuation.yield(number) }
            source.resume()
            self.source = Mutex(source)
        }

        func cancel() {
            source.withLock { $0.cancel() }
        }
    }
}
