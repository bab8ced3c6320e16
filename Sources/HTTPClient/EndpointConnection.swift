import NIOCore
import NIOHTTP1
import NIOSSL
import NIOTLS
import Vocabulary

/// One connection, the last handler of its pipeline: sends one request at a time and reads its answer.
///
/// States: opened → busy → idle → busy … → gone. The client owns it until it is gone, and is notified of that at most
/// once. An answer is reported at the end of the read that completed it, never in the middle: further bytes of that
/// read were sent without a request, and must not be taken for the answer to the next request. Nor must bytes that
/// come while it is idle.
final class EndpointConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private enum State {
        /// No request yet.
        case opened
        case busy(Exchange)
        case idle(until: NIODeadline)
        case gone
    }

    private let client: EndpointClient
    private var state: State = .opened
    /// Of the request under way, or of the last one.
    private var reader = AnswerReader(bodyBytesMax: 0, keptBytesMax: 0)
    private var requests = 0
    /// An answer that comes later is its last (`Limits.receiverConnectionAge`).
    private let reusableUntil: NIODeadline
    private let tls: NIOSSLClientHandler?
    private var isHandshaking: Bool
    private var context: ChannelHandlerContext?
    private var bytes: RequestBytes?
    /// Whether the decoder expects the answer to the request under way.
    private var isAnnounced = false
    /// One timer for all requests: it is not moved when a deadline moves back, but checks again when it fires.
    private var timer: (at: NIODeadline, callback: NIOScheduledCallback)?
    /// Whether the request under way has had its time to read after its deadline.
    private var hasReadLate = false

    init(client: EndpointClient, tls: NIOSSLClientHandler?) {
        self.client = client
        self.tls = tls
        reusableUntil = client.eventLoop.now + client.connectionAge
        isHandshaking = tls != nil
    }

    /// Builds the pipeline of a new channel, this handler last.
    func install(on channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        if let tls { try pipeline.addHandler(tls) }
        let bytes = RequestBytes { [unowned self] in mayDecode($0) }
        self.bytes = bytes
        try pipeline.addHandler(bytes)
        try pipeline.addHandler(AnswerDecoder.make())
        try pipeline.addHandler(self)
    }

    // MARK: What the client asks

    /// Sends a request. A connection that has died unnoticed is reported like any other loss.
    func start(_ exchange: Exchange) {
        switch state {
        case .opened, .idle: break
        case .busy: preconditionFailure("a connection carries one request at a time")
        case .gone:
            client.lost(self, exchange, .connectionLost(.connecting), mayRepeat: requests > 0)
            return
        }
        exchange.placed()
        exchange.begin(now: client.eventLoop.now)
        state = .busy(exchange)
        reader = exchange.reader()
        requests += 1
        hasReadLate = false
        watch(exchange.deadline)
        if !isHandshaking { proceed(with: exchange) }
    }

    /// Goes on once the handshake is done, or where there is none.
    private func proceed(with exchange: Exchange) {
        guard exchange.isHandshakeOnly else { return write(exchange) }
        exchange.certificateEnd = tls?.peerCertificate.map { Timestamp(milliseconds: Int64($0.notValidAfter) * 1_000) }
        state = .opened
        client.answered(self, exchange, EndpointAnswer(status: 200), reusable: false)
    }

    private func write(_ exchange: Exchange) {
        guard context != nil, let bytes else { return fail(.connectionLost(.sending)) }
        isAnnounced = false
        bytes.send(exchange.head, exchange.body)
    }

    /// Makes the decoder expect an answer that may have a body, as those to GET and POST may. The request's bytes do
    /// not come from this.
    private static let announcement = HTTPRequestHead(version: .http1_1, method: .POST, uri: "/")

    func becomeIdle() {
        let until = client.eventLoop.now + client.idleTimeout
        state = .idle(until: until)
        watch(until)
    }

    /// Closes the connection and ends the request on it with `.cancelled`.
    func cancel() {
        if case .busy = state { fail(.cancelled) } else { close() }
    }

    /// Closes the connection without notifying the client.
    func close() {
        state = .gone
        timer?.callback.cancel()
        timer = nil
        context?.close(promise: nil)
    }

    // MARK: What the channel reports

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// The request waits for the handshake, so that no byte of it is shown to the wrong server.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event {
            handshaken()
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// Nobody has asked for what comes to an idle connection, or behind an answer. The decoder would keep a part of a
    /// head, and give it out as the answer to the next request.
    private func mayDecode(_ read: ByteBuffer) -> Bool {
        if case .idle = state {
            leave()
            return false
        }
        let isFirst = reader.isUntouched
        reader.count(rawBytes: read.readableBytes)
        guard case .busy = state else { return true }
        if reader.isFinished {
            reader.distrust()
            return false
        }
        if isFirst, let answer = read.withUnsafeReadableBytes({ WholeAnswer($0) }) {
            reader.whole(answer, in: read)
            return false
        }
        if !isAnnounced {
            isAnnounced = true
            context?.write(wrapOutboundOut(.head(Self.announcement)), promise: nil)
        }
        return true
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .busy = state else {
            if case .idle = state { leave() }
            return
        }
        do throws(RequestFailure) {
            switch unwrapInboundIn(data) {
            case .head(let head):
                let retryAfter = head.status.code < 400 ? nil : head.headers.first(name: "retry-after")
                try reader.head(
                    status: Int(head.status.code), keepsAlive: head.isKeepAlive, retryAfter: retryAfter,
                    cacheControl: head.headers.first(name: "cache-control"))
            case .body(let bytes): reader.body(bytes.readableBytesView)
            case .end: reader.end()
            }
        } catch {
            fail(error)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        guard case .busy = state else { return }
        do throws(RequestFailure) { try reader.readComplete() } catch { return fail(error) }
        reportAnswer(isOpen: true)
    }

    func channelInactive(context: ChannelHandlerContext) {
        switch state {
        case .busy:
            if reader.isFinished { reportAnswer(isOpen: false) } else { fail(.connectionLost(stage)) }
        case .opened, .idle: leave()
        case .gone: break
        }
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The peer closed without TLS's close_notify: `channelInactive` follows and knows whether the body was
        // complete.
        if case NIOSSLError.uncleanShutdown = error { return }
        switch state {
        case .busy where reader.isFinished: reader.distrust()
        case .busy: fail(failure(for: error))
        case .opened, .idle: leave()
        case .gone: break
        }
    }

    private func handshaken() {
        let isRightHost =
            client.literal != nil
            || tls?.peerCertificate.map { HostCheck.certificate($0, isFor: client.endpoint.host) } ?? false
        switch state {
        case .busy where !isRightHost: fail(.tlsFailed(EndpointTrust.wrongHost))
        case .opened where !isRightHost, .idle where !isRightHost: leave()
        case .busy(let exchange):
            isHandshaking = false
            proceed(with: exchange)
        case .opened, .idle, .gone: isHandshaking = false
        }
    }

    // MARK: Endings

    private func reportAnswer(isOpen: Bool) {
        guard case .busy(let exchange) = state, let (answer, keepsAlive) = reader.answer else { return }
        // A server may answer before it has read everything: what is unsent would garble the next request.
        let unsent = (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
        let isYoung = client.eventLoop.now < reusableUntil
        state = .opened
        client.answered(self, exchange, answer, reusable: isOpen && keepsAlive && unsent == 0 && isYoung)
    }

    private func fail(_ failure: RequestFailure) {
        guard case .busy(let exchange) = state else { return }
        var mayRepeat = false
        if case .connectionLost = failure { mayRepeat = requests > 1 && reader.isUntouched }
        close()
        client.lost(self, exchange, failure, mayRepeat: mayRepeat)
    }

    /// Closes a connection that has no request, and notifies the client.
    private func leave() {
        close()
        client.left(self)
    }

    private func failure(for error: any Error) -> RequestFailure {
        if let reason = EndpointTrust.explain(error), reader.isUntouched { return .tlsFailed(reason) }
        switch error {
        case HTTPParserError.invalidEOFState: return .connectionLost(stage)
        case let error as HTTPParserError: return .malformedAnswer("not HTTP/1.1 (\(error))")
        case is NIOHTTPDecoderError: return .malformedAnswer("two answers to one request")
        default: return .connectionLost(stage)
        }
    }

    private var stage: RequestStage {
        if isHandshaking { return .handshaking }
        if reader.hasHead { return .body }
        let unsent = (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
        return unsent > 0 && reader.isUntouched ? .sending : .head
    }
}

extension EndpointConnection: NIOScheduledCallbackHandler {
    private func watch(_ deadline: NIODeadline) {
        if let timer {
            if timer.at <= deadline { return }
            timer.callback.cancel()
        }
        // Throws only while the event loop shuts down, which closes every channel.
        timer = try? (deadline, client.eventLoop.assumeIsolated().scheduleCallback(at: deadline, handler: self))
    }

    func handleScheduledCallback(eventLoop: some EventLoop) {
        timer = nil
        let now = client.eventLoop.now
        switch state {
        case .busy(let exchange):
            if now < exchange.deadline {
                watch(exchange.deadline)
            } else if now > exchange.deadline + HTTPClientLimits.lateness, !hasReadLate {
                // The machine stood still, and timers come before what has arrived meanwhile: a request that was
                // answered in time would be sent again.
                hasReadLate = true
                watch(now + HTTPClientLimits.timeToReadLate)
            } else {
                fail(.timedOut(stage))
            }
        case .idle(let until):
            if now >= until { leave() } else { watch(until) }
        case .opened, .gone: break
        }
    }
}
