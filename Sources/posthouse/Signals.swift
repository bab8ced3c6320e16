import Dispatch
import Glibc

/// Signals as a stream, instead of handlers that may do next to nothing.
enum Signals {
    /// Yields each of `numbers` when it arrives; their default action is switched off for good.
    static func stream(_ numbers: [Int32]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let sources = numbers.map { number in
                signal(number, SIG_IGN)
                let source = DispatchSource.makeSignalSource(signal: number)
                source.setEventHandler { continuation.yield(number) }
                source.resume()
                return Box(source)
            }
            continuation.onTermination = { _ in sources.forEach { $0.source.cancel() } }
        }
    }

    /// Dispatch documents its sources as safe to use from any thread; the protocol is not marked so on Linux.
    private final class Box: @unchecked Sendable {
        let source: any DispatchSourceSignal
        init(_ source: any DispatchSourceSignal) { self.source = source }
    }
}
