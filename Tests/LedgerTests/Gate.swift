import Dispatch

/// Holds a database's thread until the test lets it go; ends by itself after half a minute.
final class Gate: Sendable {
    private let ready: AsyncStream<Void>
    private let isReady: AsyncStream<Void>.Continuation
    private let release = DispatchSemaphore(value: 0)

    init() { (ready, isReady) = AsyncStream.makeStream() }

    func open() { isReady.yield() }
    func opened() async { for await _ in ready { return } }
    func waitForClose() { _ = release.wait(timeout: .now() + 30) }
    func close() { release.signal() }
}
