import NIOCore

/// Counts open connections and stops accepting while there are as many as allowed. Further ones wait in the kernel's
/// queue, where they cost nothing, until one closes. Sits in the listening channel, before the handler that passes
/// connections to their loops.
final class AcceptGate: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never
    typealias OutboundOut = Never

    private let connections: Connections
    private let connectionsMax: Int
    /// Connections that one read may bring; accepting stops this many below the limit.
    private let batch: Int
    private var isReadHeld = false
    private var context: ChannelHandlerContext?

    init(_ connections: Connections, limits: FrontLimits) {
        self.connections = connections
        connectionsMax = limits.connectionsMax
        batch = Self.batch(connectionsMax: limits.connectionsMax)
    }

    /// Up to 16, but never more than a 64th of the limit, so that small limits are exact.
    static func batch(connectionsMax: Int) -> Int { max(1, min(16, connectionsMax / 64)) }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func read(context: ChannelHandlerContext) {
        if connections.isShut || connections.openCount + batch > connectionsMax {
            isReadHeld = true
        } else {
            context.read()
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let child = unwrapInboundIn(data)
        connections.joined(child)
        let gate = NIOLoopBound(self, eventLoop: context.eventLoop)
        child.closeFuture.hop(to: context.eventLoop).whenComplete { _ in
            gate.value.connections.left(child)
            gate.value.reopen()
        }
        context.fireChannelRead(data)
    }

    private func reopen() {
        guard isReadHeld, let context else { return }
        isReadHeld = false
        read(context: context)
    }
}
