import Glibc
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// A receiver that does exactly what a test says, byte for byte: raw TCP (or TLS) on loopback.
final class MisbehavingServer: Sendable {
    /// One request that has come in whole.
    struct Received: Sendable {
        /// From 1: which connection of the server, and which request on it.
        let connection: Int
        let request: Int
        let head: String
        let body: [UInt8]
    }

    typealias Script = @Sendable (Received, any Channel) -> Void

    let port: Int
    private let channel: any Channel
    private let state: State

    private final class State: Sendable {
        let connections = Mutex(0)
        let received = Mutex<[Received]>([])
        let closed = Mutex(0)
        let closings: AsyncStream<Void>
        let onClose: AsyncStream<Void>.Continuation

        init() { (closings, onClose) = AsyncStream.makeStream() }
    }

    var connections: Int { state.connections.withLock { $0 } }
    var received: [Received] { state.received.withLock { $0 } }

    /// Waits until that many connections are closed, by either side.
    func closings(_ count: Int) async {
        var iterator = state.closings.makeAsyncIterator()
        for _ in 0..<count { _ = await iterator.next() }
    }

    /// `greeting` is sent as soon as a connection opens, `readsRequests` false leaves every byte in the kernel.
    static func start(
        tls: NIOSSLContext? = nil, greeting: String? = nil, readsRequests: Bool = true, host: String = "127.0.0.1",
        _ script: @escaping Script
    ) async throws -> MisbehavingServer {
        let state = State()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.autoRead, value: readsRequests)
            .childChannelInitializer { child in
                child.eventLoop.makeCompletedFuture {
                    let number = state.connections.withLock { count in
                        count += 1
                        return count
                    }
                    child.closeFuture.whenComplete { _ in state.onClose.yield() }
                    if let tls { try child.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try child.pipeline.syncOperations.addHandler(
                        Reader(connection: number, greeting: greeting) { received, channel in
                            state.received.withLock { $0.append(received) }
                            script(received, channel)
                        })
                }
            }
            .bind(host: host, port: 0).get()
        return MisbehavingServer(channel: channel, state: state)
    }

    private init(channel: any Channel, state: State) {
        self.channel = channel
        self.state = state
        port = channel.localAddress?.port ?? 0
    }

    func stop() async { try? await channel.close() }

    /// Collects requests; without a content-length they have no body.
    private final class Reader: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let connection: Int
        private let greeting: String?
        private let script: Script
        private var bytes = [UInt8]()
        private var requests = 0

        init(connection: Int, greeting: String?, script: @escaping Script) {
            self.connection = connection
            self.greeting = greeting
            self.script = script
        }

        func channelActive(context: ChannelHandlerContext) {
            if let greeting { context.channel.say(greeting) }
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            bytes += unwrapInboundIn(data).readableBytesView
            while let received = next() { script(received, context.channel) }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

        private func next() -> Received? {
            let end = Array("\r\n\r\n".utf8)
            guard let at = bytes.indices.first(where: { bytes[$0...].starts(with: end) }) else { return nil }
            let head = String(decoding: bytes[..<at], as: UTF8.self)
            let field = head.split(separator: "\r\n").first { $0.hasPrefix("content-length: ") }
            let length = field.flatMap { Int($0.dropFirst(16)) } ?? 0
            guard bytes.count >= at + 4 + length else { return nil }
            let body = Array(bytes[(at + 4)..<(at + 4 + length)])
            bytes.removeFirst(at + 4 + length)
            requests += 1
            return Received(connection: connection, request: requests, head: head, body: body)
        }
    }
}

extension Channel {
    func say(_ text: String) { writeAndFlush(ByteBuffer(string: text), promise: nil) }

    func sayAndClose(_ text: String) {
        writeAndFlush(ByteBuffer(string: text)).whenComplete { _ in self.close(promise: nil) }
    }

    /// RST instead of FIN.
    func reset() {
        guard let socket = self as? any SocketOptionProvider else { return close(promise: nil) }
        socket.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in self.close(promise: nil) }
    }

}
