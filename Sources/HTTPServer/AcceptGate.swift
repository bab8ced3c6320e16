import NIOCore

/// Counts open connections and stops accepting while there are as many as allowed. Further ones wait in the kernel's
/// queue, where they cost nothing, until one closes. Sits in the listening channel, before the handler that passes
/// connections to their loops.
///
/// It rests while few descriptors are left, and after an accept that failed. A listener that stays registered for
/// reading then would be found readable again and again, and its loop would take a whole core: a failed accept leaves
/// NIO's read pending, and only switching off `autoRead` ends the registration.
final class AcceptGate: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never
    typealias OutboundOut = Never

    private let connections: Connections
    private let connectionsMax: Int
    /// Connections that one read may bring; accepting stops this many below the limit.
    private let batch: Int
    private let rest: TimeAmount
    private let descriptors: () -> CInt?
    private let shortage: (AcceptFailure) -> Void
    private let reportInterval: TimeAmount
    /// When a failure was reported last.
    private var reported: NIODeadline?
    /// Failures since then.
    private var unreported = 0
    private var isReadHeld = false
    /// While it rests after a failed accept.
    private var waking: Scheduled<Void>?
    private var context: ChannelHandlerContext?

    /// - Parameters:
    ///   - descriptors: asked before each read: EMFILE or ENFILE where there are too few (`Descriptors`).
    ///   - shortage: called with the first time that nothing can be accepted for want of descriptors, and with a later
    ///     one no more often than every `limits.acceptReportInterval`.
    init(
        _ connections: Connections, limits: HTTPServerLimits, descriptors: @escaping () -> CInt? = { nil },
        shortage: @escaping (AcceptFailure) -> Void = { _ in }
    ) {
        self.descriptors = descriptors
        self.shortage = shortage
        reportInterval = TimeAmount(limits.acceptReportInterval)
        self.connections = connections
        connectionsMax = limits.connectionsMax
        batch = Self.batch(connectionsMax: limits.connectionsMax)
        rest = TimeAmount(limits.acceptRest)
    }

    /// Up to 16, but never more than a 64th of the limit, so that small limits are exact.
    static func batch(connectionsMax: Int) -> Int { max(1, min(16, connectionsMax / 64)) }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        waking?.cancel()
        waking = nil
    }

    private var isClosed: Bool { connections.hasStoppedAccepting || connections.openCount + batch > connectionsMax }

    func read(context: ChannelHandlerContext) {
        if isClosed || waking != nil {
            isReadHeld = true
        } else if let code = descriptors() {
            fail(code, context)
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

    /// Rests. Errors after which NIO goes on listening arrive here, and those after which it closes the listener.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? IOError else { return context.fireErrorCaught(error) }
        fail(error.errnoCode, context)
    }

    private func fail(_ code: CInt, _ context: ChannelHandlerContext) {
        setAutoRead(false, context)
        beginRest(context)
        report(code, at: context.eventLoop.now)
    }

    private func report(_ code: CInt, at now: NIODeadline) {
        guard let scope = AcceptFailure.Scope(code) else { return }
        unreported += 1
        if let reported, now < reported + reportInterval { return }
        shortage(AcceptFailure(scope: scope, count: unreported))
        reported = now
        unreported = 0
    }

    private func beginRest(_ context: ChannelHandlerContext) {
        let gate = NIOLoopBound(self, eventLoop: context.eventLoop)
        waking?.cancel()
        waking = context.eventLoop.scheduleTask(in: rest) { gate.value.endRest() }
    }

    private func endRest() {
        guard let context, waking != nil else { return }
        // Switching `autoRead` on reads at once, past this gate. Once accepting has stopped, nothing is.
        if isClosed { return connections.hasStoppedAccepting ? () : beginRest(context) }
        if let code = descriptors() { return fail(code, context) }
        waking?.cancel()
        waking = nil
        isReadHeld = false
        setAutoRead(true, context)
    }

    private func setAutoRead(_ value: Bool, _ context: ChannelHandlerContext) {
        // Fails only if the listener is closed.
        try? context.channel.syncOptions?.setOption(.autoRead, value: value)
    }

    private func reopen() {
        guard let context else { return }
        // While descriptors are short it rests on: a connection that closes is no accept that fails.
        if waking != nil { return descriptors() == nil ? endRest() : () }
        guard isReadHeld else { return }
        isReadHeld = false
        read(context: context)
    }
}
