import NIOCore
import NIOPosix
import Testing

@testable import HTTPServer

/// How much of a connection is read before somebody can stop it. Oracle: NIO's own bounds of a burst, seen by a handler
/// on a real socket.
@Suite struct ReadBurstTests {
    /// Adds up what comes from one `channelReadComplete` to the next.
    private final class Bursts: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        struct Seen: Sendable {
            var largest = 0
            var total = 0
        }

        private let ended: AsyncStream<Seen>.Continuation
        private var seen = Seen()
        private var burst = 0

        init(_ ended: AsyncStream<Seen>.Continuation) { self.ended = ended }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            burst += unwrapInboundIn(data).readableBytes
        }

        func channelReadComplete(context: ChannelHandlerContext) {
            seen.largest = max(seen.largest, burst)
            seen.total += burst
            burst = 0
            context.fireChannelReadComplete()
        }

        func channelInactive(context: ChannelHandlerContext) {
            ended.yield(seen)
            ended.finish()
            context.fireChannelInactive()
        }
    }

    @Test("A client that sends as much as it can is read in bursts of the limit")
    func bursts() async throws {
        let limits = HTTPServerLimits()
        let (ends, ended) = AsyncStream<Bursts.Seen>.makeStream()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .limitingReads(limits)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Bursts(ended))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        let client = try RawClient("127.0.0.1:\(port)")
        let bytes = 4 << 20
        try await client.send(String(repeating: "x", count: bytes))
        client.endOutput()
        let seen = try #require(await ends.first { _ in true })
        try await server.close().get()
        #expect(seen.total == bytes)
        #expect(seen.largest > 0 && seen.largest <= limits.readBytesMax, "\(seen)")
    }
}
