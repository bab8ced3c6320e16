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

    /// Reads as the HTTP server does; `ended` gets what was seen of a connection.
    private func bootstrap(_ ended: AsyncStream<Bursts.Seen>.Continuation) -> ServerBootstrap {
        ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .limitingReads(HTTPServerLimits())
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Bursts(ended))
                }
            }
    }

    @Test("A client that sends as much as it can is read in bursts of the limit")
    func bursts() async throws {
        let (ends, ended) = AsyncStream<Bursts.Seen>.makeStream()
        let server = try await bootstrap(ended).bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        let client = try RawClient("127.0.0.1:\(port)")
        let bytes = 4 << 20
        try await client.send(String(repeating: "x", count: bytes))
        client.endOutput()
        let seen = try #require(await ends.first { _ in true })
        try await server.close().get()
        #expect(seen.total == bytes)
        #expect(seen.largest > 0 && seen.largest <= HTTPServerLimits().readBytesMax, "\(seen)")
    }

    @Test("What a fresh connection has sent already is one read")
    func first() async throws {
        try await withFolder { folder in
            let (ends, ended) = AsyncStream<Bursts.Seen>.makeStream()
            // What is sent over a socket file is there at once, before the connection is accepted.
            let server = try await bootstrap(ended).serverChannelOption(.autoRead, value: false)
                .bind(unixDomainSocketPath: "\(folder)/a").get()
            let client = try RawClient("unix:\(folder)/a")
            try await client.send(String(repeating: "x", count: 7_500))
            client.endOutput()
            try await server.setOption(.autoRead, value: true).get()
            let seen = try #require(await ends.first { _ in true })
            try await server.close().get()
            #expect(seen.largest == 7_500, "\(seen)")
        }
    }

    @Test("Small reads make none of a connection's later ones smaller")
    func small() {
        var allocator = HTTPServerLimits().readAllocator
        for _ in 0..<9 { _ = allocator.record(actualReadBytes: 100) }
        #expect(allocator.nextBufferSize() == 8_192)
    }
}
