import Linux
package import NIOCore
import NIOPosix
import NIOSSL
package import Vocabulary

/// One listener with its connections.
package final class HTTPListener: Sendable {
    /// "127.0.0.1:8080", "[::1]:8080" or "unix:/path", with the port that the kernel chose where it was 0.
    package let boundAddress: String

    private let channel: any Channel
    private let connections: Connections
    /// nil: it was started without one and stays so.
    private let certificate: Replaceable<TLSCertificate?>

    private init(
        channel: any Channel, boundAddress: String, connections: Connections, certificate: Replaceable<TLSCertificate?>
    ) {
        self.channel = channel
        self.boundAddress = boundAddress
        self.connections = connections
        self.certificate = certificate
    }

    package var openConnections: Int { connections.openCount }
    /// False after `drain`, and once NIO has closed the socket at an error that it takes for lasting.
    package var isListening: Bool { channel.isActive }

    /// Starts to listen and serve. Connections are spread over the loops of `group`, which stays the caller's.
    /// - Parameters:
    ///   - accepting: false: connections wait in the kernel's queue until `accept()`.
    ///   - shortage: called on a loop when connections cannot be accepted for want of descriptors.
    ///   - failed: called once on a loop when the socket has closed without `drain`: no further connection is accepted.
    package static func start(
        listener: Listen, handler: some IncomingHandler, group: any EventLoopGroup, tls: TLSFiles? = nil,
        limits: HTTPServerLimits = HTTPServerLimits(), accepting: Bool = true,
        shortage: @escaping @Sendable (AcceptFailure) -> Void = { _ in },
        failed: @escaping @Sendable () -> Void = {}
    ) async throws(HTTPServerError) -> HTTPListener {
        RequestDecoder.prepare()
        let connections = Connections()
        let certificate = Replaceable(try tls?.load())
        let bootstrap = bootstrap(
            handler: handler, group: group, connections: connections, certificate: certificate, limits: limits,
            shortage: shortage
        ).serverChannelOption(.autoRead, value: accepting)
        let channel = try await bind(bootstrap, to: listener)
        if case .address(.unix(let path)) = listener {
            do { try SocketFile.open(path) } catch {
                channel.close(mode: .all, promise: nil)
                throw error
            }
        }
        channel.closeFuture.whenComplete { _ in if !connections.hasStoppedAccepting { failed() } }
        return HTTPListener(
            channel: channel, boundAddress: channel.localAddress?.listenAddress?.text ?? listener.text,
            connections: connections, certificate: certificate)
    }

    /// Begins to accept, where it was started without.
    package func accept() async {
        // Fails only if it is closed already.
        try? await channel.setOption(.autoRead, value: true).get()
    }

    /// Whether it was started with a certificate; it then speaks TLS for as long as it listens.
    package var speaksTLS: Bool { certificate.current != nil }

    /// Gives new connections this certificate; open ones keep theirs. Does nothing on a listener that was started
    /// without TLS.
    /// - Returns: whether it differs from the one before.
    @discardableResult
    package func replaceTLS(_ next: TLSCertificate) -> Bool {
        certificate.change { certificate in
            guard let former = certificate else { return false }
            certificate = next
            return former.chain != next.chain
        }
    }

    /// Stops accepting, answers requests under way with `Connection: close`, closes idle connections, and returns when
    /// none is left. The rest is cut at the deadline; returns how many that were.
    @discardableResult
    package func drain(upTo limit: Duration) async -> Int {
        await stopAccepting(upTo: limit)
        // Before the listener closes: once a client finds it closed, every answer says `Connection: close`.
        connections.drain()
        // Fails only if it is closed already, by an earlier drain.
        try? await channel.close(mode: .all).get()
        let loop = channel.eventLoop
        let gone = loop.makePromise(of: Void.self)
        let cut = loop.scheduleTask(in: TimeAmount(limit)) { [connections] in connections.cut() }
        connections.whenEmpty(gone)
        try? await gone.futureResult.get()
        cut.cancel()
        // If it was cancelled in time, nothing was cut: the future of a cancelled task fails.
        return (try? await cut.futureResult.get()) ?? 0
    }
}

extension HTTPListener {
    /// Stops accepting without losing accepted connections. Closing a listener resets those that it has accepted and
    /// not yet passed to their loops, so they are waited for. Connections in the kernel's queue stay there, for the
    /// next process if systemd holds the socket.
    private func stopAccepting(upTo limit: Duration) async {
        connections.stopAccepting()
        // Fails only if it is closed already, by an earlier drain.
        try? await channel.setOption(.autoRead, value: false).get()
        let loop = channel.eventLoop
        let setUp = loop.makePromise(of: Void.self)
        let timeout = loop.scheduleTask(in: TimeAmount(limit)) { [connections] in connections.giveUpSetUps() }
        connections.whenSetUp(setUp)
        try? await setUp.futureResult.get()
        timeout.cancel()
    }
}

// MARK: Setting up

extension HTTPListener {
    private static func bootstrap(
        handler: some IncomingHandler, group: any EventLoopGroup, connections: Connections,
        certificate: Replaceable<TLSCertificate?>, limits: HTTPServerLimits,
        shortage: @escaping @Sendable (AcceptFailure) -> Void
    ) -> ServerBootstrap {
        let waits = Waits(limits)
        let acceptBatch = AcceptGate.batch(connectionsMax: limits.connectionsMax)
        return ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: Int32(clamping: limits.backlog))
            .serverChannelOption(.maxMessagesPerRead, value: UInt(acceptBatch))
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        AcceptGate(
                            connections, limits: limits,
                            descriptors: { Descriptors.shortage(reserve: limits.descriptorsReserved) },
                            shortage: shortage))
                }
            }
            // A client may close its side after its request; it still gets its answer.
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .limitingReads(limits)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let certificate = certificate.current {
                        try pipeline.addHandler(NIOSSLServerHandler(context: certificate.context))
                    }
                    let connection = IncomingConnection(
                        handler: handler, connections: connections, limits: limits, waits: waits, now: .now())
                    try pipeline.addHandlers(
                        WholeRequestReader(connection, limits), RequestDecoder.make(limits), connection)
                }
            }
    }

    private static func bind(
        _ bootstrap: ServerBootstrap, to listener: Listen
    ) async throws(HTTPServerError) -> any Channel {
        do {
            switch listener {
            case .address(.tcp(let host, let port)):
                return try await bootstrap.serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                    .bind(to: SocketAddress(ipAddress: host, port: port)).get()
            case .address(.unix(let path)):
                try SocketFile.makeWay(at: path)
                return try await bootstrap.bind(unixDomainSocketPath: path).get()
            case .inherited(let descriptor):
                try InheritedSocket.check(descriptor)
                return try await bootstrap.withBoundSocket(descriptor).get()
            }
        } catch let error as HTTPServerError {
            throw error
        } catch {
            throw HTTPServerError(binding: listener, error)
        }
    }
}

extension ServerBootstrap {
    /// Limits a burst of reading to one read: `IncomingConnection` keeps whatever of it comes before its turn.
    func limitingReads(_ limits: HTTPServerLimits) -> ServerBootstrap {
        childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(
                    minimum: 64, initial: min(2_048, limits.readBytesMax), maximum: limits.readBytesMax))
    }
}
