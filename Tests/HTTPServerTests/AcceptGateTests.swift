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
        let gate = AcceptGate(Connections(), limits: HTTPServerLimits()) { failure in
            reports.withLock { $0.append(failure) }
        }
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
}
