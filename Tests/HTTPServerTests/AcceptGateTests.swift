import Glibc
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import HTTPServer

/// Oracle: accept(2), whose errors EMFILE and ENFILE say which limit is reached.
@Suite struct AcceptGateTests {
    @Test("Accepts that fail for want of descriptors are reported with the first, then once a minute with their number")
    func shortage() throws {
        let reports = Mutex<[AcceptFailure]>([])
        let gate = AcceptGate(
            Connections(), limits: HTTPServerLimits(),
            shortage: { failure in reports.withLock { $0.append(failure) } })
        let channel = EmbeddedChannel(handler: gate)
        func fail(_ code: CInt, times: Int = 1) {
            for _ in 0..<times {
                channel.pipeline.fireErrorCaught(IOError(errnoCode: code, reason: "accept"))
                channel.embeddedEventLoop.advanceTime(by: .milliseconds(500))
            }
        }
        fail(ECONNABORTED)
        #expect(reports.withLock { $0 } == [], "the client's doing")
        fail(EMFILE, times: 120)
        #expect(reports.withLock { $0 } == [AcceptFailure(scope: .process, count: 1)])
        fail(ENFILE, times: 2)
        #expect(
            reports.withLock { $0 } == [
                AcceptFailure(scope: .process, count: 1), AcceptFailure(scope: .machine, count: 120),
            ])
        _ = try? channel.finish()
    }

    /// Counts the reads that reach the listener.
    private final class Reads: ChannelOutboundHandler {
        typealias OutboundIn = Never
        var count = 0
        func read(context: ChannelHandlerContext) {
            count += 1
            context.read()
        }
    }

    @Test("With few descriptors left it does not accept, says so once, and goes on when there are more")
    func fewLeft() throws {
        let reports = Mutex<[AcceptFailure]>([])
        let code = Mutex<CInt?>(nil)
        let gate = AcceptGate(Connections(), limits: HTTPServerLimits(), descriptors: { code.withLock { $0 } }) {
            failure in
            reports.withLock { $0.append(failure) }
        }
        let reads = Reads()
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandlers([reads, gate])
        channel.read()
        #expect(reads.count == 1)
        code.withLock { $0 = EMFILE }
        for _ in 0..<10 {
            channel.read()
            channel.embeddedEventLoop.advanceTime(by: .milliseconds(500))
        }
        #expect(reads.count == 1)
        #expect(reports.withLock { $0 } == [AcceptFailure(scope: .process, count: 1)])
        code.withLock { $0 = nil }
        channel.embeddedEventLoop.advanceTime(by: .milliseconds(500))
        channel.read()
        #expect(reads.count >= 2)
        _ = try? channel.finish()
    }
}
