import Dispatch

/// Holds a database's thread until the test lets it go; ends by itself after some minutes.
final class Gate: Sendable {
    private let ready: AsyncStream<Void>
    private let isReady: AsyncStream<Void>.Continuation
    private let release = DispatchSemaphore(value: 0)

    init() { (ready, isReady) = AsyncStream.makeStream() }

    func open() { isReady.yield() }
    func opened() async { for await _ in ready { return } }
    /// The limit is against hanging alone: what is held must stay held on a machine that stands still for a minute.
    func waitForClose() { _ = release.wait(timeout: .now() + 300) }
    func close() { release.signal() }
}
