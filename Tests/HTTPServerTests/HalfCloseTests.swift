import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOPosix
import Synchronization
import Testing

@testable import HTTPServer

/// Clients that end their side and wait for an answer (RFC 9112 section 9.6). Oracle: the bytes that come out of the
/// socket, and the order of what the channel is asked for: a close before the flush loses the answer.
@Suite struct HalfCloseTests {
    private static let request: [HTTPServerRequestPart] = [
        .head(HTTPRequestHead(version: .http1_1, method: .POST, uri: "/", headers: ["host": "test"])), .end(nil),
    ]

    /// Accepts everything and keeps its responder.
    private final class Holding: IncomingHandler {
        let answerTimeout: Duration
        private let held = Mutex<Responder?>(nil)

        init(answerTimeout: Duration) { self.answerTimeout = answerTimeout }

        var responder: Responder? { held.withLock { $0 } }

        func admit(_ head: IncomingHead) -> Admission {
            .accept(bodyBytesMax: 16, answerTimeout: answerTimeout, timeoutAnswer: .text(503, "too late\n"))
        }

        func respond(to request: IncomingRequest, with responder: Responder) { held.withLock { $0 = responder } }
    }

    /// What the channel is asked for, in order.
    private final class Order: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private(set) var calls: [String] = []

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            calls.append("write")
            context.write(data, promise: promise)
        }

        func flush(context: ChannelHandlerContext) {
            calls.append("flush")
            context.flush()
        }

        func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
            calls.append("close")
            context.close(mode: mode, promise: promise)
        }
    }

    /// Sends a request on a connection without a socket, ends the client's side, and has it answered by `answer`.
    /// - Returns: what the channel was asked for, and the bytes that went out.
    private func serve(
        answerTimeout: Duration, _ answer: (Holding, EmbeddedChannel) throws -> Void
    ) throws -> (calls: [String], bytes: String) {
        let handler = Holding(answerTimeout: answerTimeout)
        let limits = HTTPServerLimits.patient
        let order = Order()
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        try channel.pipeline.syncOperations.addHandlers([
            order,
            IncomingConnection(
                handler: handler, connections: Connections(), limits: limits, waits: Waits(limits), now: .now()),
        ])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        for part in Self.request { try channel.writeInbound(part) }
        channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        #expect(order.calls == [], "it waits for its answer")
        try answer(handler, channel)
        var bytes = ""
        while let buffer = try channel.readOutbound(as: ByteBuffer.self) { bytes += String(buffer: buffer) }
        return (order.calls, bytes)
    }

    @Test("An answer behind the client's end is flushed before the connection is closed")
    func answerIsFlushed() throws {
        let (calls, bytes) = try serve(answerTimeout: .seconds(600)) { handler, _ in
            try #require(handler.responder).respond(.text(200, "stored\n"))
        }
        #expect(calls.suffix(2) == ["flush", "close"], "\(calls)")
        #expect(bytes.hasPrefix("HTTP/1.1 200 OK\r\n") && bytes.hasSuffix("\r\n\r\nstored\n"), "\(bytes)")
    }

    @Test("So is the answer that says that the time is up")
    func timeoutAnswerIsFlushed() throws {
        let (calls, bytes) = try serve(answerTimeout: .zero) { _, channel in
            channel.embeddedEventLoop.advanceTime(to: .now())
        }
        #expect(calls.suffix(2) == ["flush", "close"], "\(calls)")
        #expect(bytes.hasPrefix("HTTP/1.1 503 ") && bytes.hasSuffix("\r\n\r\ntoo late\n"), "\(bytes)")
    }

    /// Bytes of an answer's body; none of its head is an x.
    private static func bodyBytes(_ answer: String) -> Int { answer.utf8.count { $0 == UInt8(ascii: "x") } }

    /// Lets the loops read what the kernel has for their connections.
    private func loopsRead() async throws {
        for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() {
            for _ in 0..<3 { try await loop.submit {}.get() }
        }
    }

    @Test("A client that ends its side before it is answered reads the answer", arguments: [5, 4 << 20])
    func overASocket(bodyBytes: Int) async throws {
        let handler = TestHandler()
        try await withServer(handler: handler) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(post("/held", "x"))
            client.endOutput()
            let held = try await handler.nextHeld()
            try await loopsRead()
            let body = [UInt8](repeating: UInt8(ascii: "x"), count: bodyBytes)
            held.responder.respond(HTTPAnswer(status: 200, body: body))
            // A large one does not fit in the buffers of the socket: it waits for the client, which begins to read.
            let rest = try await client.rest()
            #expect(rest.hasPrefix("HTTP/1.1 200 OK\r\n"), "\(rest.prefix(200))")
            #expect(Self.bodyBytes(rest) == bodyBytes)
        }
    }

    @Test("A large answer that is given at once is not cut off by the client's end")
    func largeAtOnce() async throws {
        try await withServer(handler: TestHandler(bodyBytesMax: 4 << 20)) { server in
            let client = try RawClient(server.boundAddress)
            let body = String(repeating: "x", count: 4 << 20)
            try await client.send(post("/echo", body))
            client.endOutput()
            try await loopsRead()
            let rest = try await client.rest()
            #expect(Self.bodyBytes(rest) == body.utf8.count)
        }
    }

    @Test("What a client sends ahead before its end is kept up to the limit; that is answered, and the rest dropped")
    func sentAhead() throws {
        let (requests, limits) = (100_000, HTTPServerLimits.patient)
        let handler = Holding(answerTimeout: .seconds(600))
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        try channel.pipeline.syncOperations.addHandler(
            IncomingConnection(
                handler: handler, connections: Connections(), limits: limits, waits: Waits(limits), now: .now()))
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        // As NIO passes on what the kernel has of a connection whose client has ended its side: in one go.
        for _ in 0..<requests { for part in Self.request { channel.pipeline.fireChannelRead(part) } }
        channel.pipeline.fireChannelReadComplete()
        channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        var answered = 0
        while channel.isActive, answered <= requests {
            try #require(handler.responder).respond(.text(200, "stored\n"))
            answered += 1
            channel.embeddedEventLoop.run()
            while try channel.readOutbound(as: ByteBuffer.self) != nil {}
        }
        // As it is sent, such a request has 29 bytes at least.
        #expect(answered > 500 && answered <= 1 + limits.keptBytesMax / 29, "\(answered)")
    }
}
