import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import HTTPServer

/// What a process does for the first time on several event loops at once. Each case has a process of its own, whose end
/// is the oracle.
@Suite struct FirstConnectionTests {
    /// Loops that wait for each other awake, so that they go on at the same instant.
    private final class Line: Sendable {
        private let arrived = Atomic(0)

        func wait(for count: Int) {
            arrived.add(1, ordering: .sequentiallyConsistent)
            while arrived.load(ordering: .sequentiallyConsistent) < count {}
        }
    }

    /// A first use is one in a process: each try is a race of its own, which a process lost in one of few.
    @Test("The first connections of a process, set up on two event loops at once, do not crash it")
    func decoders() async {
        for _ in 0..<15 {
            await #expect(processExitsWith: .success) {
                let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
                let server = try await HTTPListener.start(
                    listener: .tcp(host: "127.0.0.1", port: 0), handler: TestHandler(), group: group)
                let line = Line()
                let made = group.makeIterator().map { loop in
                    loop.submit {
                        line.wait(for: 2)
                        _ = RequestDecoder.make(HTTPServerLimits())
                    }
                }
                for made in made { try await made.get() }
                await server.drain(upTo: .zero)
            }
        }
    }
}
