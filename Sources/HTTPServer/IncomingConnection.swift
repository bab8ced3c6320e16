import NIOCore
import NIOHTTP1
import NIOSSL

/// One connection: passes what the HTTP decoder or `WholeRequestReader` reads to `Exchange` and performs its actions.
/// Lives on its event loop.
final class IncomingConnection: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = Never
    typealias OutboundOut = ByteBuffer

    /// Input that came before its turn. It is limited by one burst of reading (`HTTPServerLimits.keptBytesMax`): no
    /// more is read while something is kept. But once a client has ended its side, NIO reads all that the kernel has of
    /// it, whether it is asked to or not; what is beyond the limit is dropped then.
    private enum BufferedPart {
        case head(HTTPRequestHead, arrived: NIODeadline)
        case body(ByteBuffer)
        case end
        case unservable(Unservable)
        case inputEnd

        /// As sent, at least; a chunk's own line is as long as this says of an end.
        var bytes: Int {
            switch self {
            case .head(let head, _):
                head.headers.reduce(head.uri.utf8.count + 16) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
            case .body(let bytes): bytes.readableBytes + 6
            case .end: 6
            case .unservable, .inputEnd: 0
            }
        }
    }

    private let handler: any IncomingHandler
    private let connections: Connections
    private let partialBodiesBytesMax: Int
    private let keptBytesMax: Int
    private var exchange: Exchange
    private var context: ChannelHandlerContext?
    private var kept = CircularBuffer<BufferedPart>()
    private var keptBytes = 0
    /// What came beyond `keptBytesMax` was dropped: for what is kept the client has ended its side there.
    private var isKeptCut = false
    /// This connection's part of `Connections.holdBodyBytes`.
    private var heldBytes = 0
    /// Set from the first part of a read to its end; answers are flushed together then.
    private var isReading = false
    private var sawPart = false
    private var needsFlush = false
    private var isReadHeld = false
    private var isWorkingOffKept = false
    private var timer = LazyTimer()

    init(
        handler: any IncomingHandler, connections: Connections, limits: HTTPServerLimits, waits: Waits, now: NIODeadline
    ) {
        self.handler = handler
        self.connections = connections
        partialBodiesBytesMax = limits.partialBodiesBytesMax
        keptBytesMax = limits.keptBytesMax
        exchange = Exchange(now: now, waits: waits, limits: limits)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if connections.isDraining { exchange.drain(now: .now()) }
        setTimer()
    }

    func channelActive(context: ChannelHandlerContext) {
        connections.isSetUp(context.channel)
        context.fireChannelActive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        kept.removeAll()
        countHeldBytes(0)
        timer.cancel()
    }

    // MARK: Reading

    /// Reads on, unless something is kept back or the client does not take its answers.
    func read(context: ChannelHandlerContext) {
        if canRead { context.read() } else { isReadHeld = true }
    }

    private var canRead: Bool { kept.isEmpty && (context?.channel.isWritable ?? false) }

    private func readOn() {
        guard isReadHeld, canRead else { return }
        isReadHeld = false
        context?.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        isReading = true
        sawPart = true
        switch unwrapInboundIn(data) {
        case .head(let head): take(.head(head, arrived: .now()))
        case .body(let bytes): take(.body(bytes))
        case .end: take(.end)
        }
    }

    /// Whether no request is under way, nothing is kept back, and the client takes its answers.
    var takesWholeRequests: Bool { if case .idle = exchange.phase { canRead } else { false } }

    /// Takes a request that was read whole, in place of its parts.
    func take(_ request: WholeRequest, body: ByteBuffer) {
        isReading = true
        sawPart = true
        let head = IncomingHead(request)
        let framing = Framing(request, bodyBytes: body.readableBytes)
        let now = NIODeadline.now()
        perform(exchange.headCame(head, framing, handler.admit(head), arrived: now, now: now))
        process(.body(body))
        process(.end)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if !sawPart { exchange.bytesCame(now: .now()) }
        isReading = false
        sawPart = false
        countHeldBytes(exchange.heldBytes)
        settle()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable {
            workOffKept()
            settle()
        }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            take(.inputEnd)
            settle()
        case is DrainRequest:
            exchange.drain(now: .now())
            settle()
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case let error as HTTPParserError:
            take(.unservable(Unservable(error)))
        case is ByteToMessageDecoderError.PayloadTooLargeError:
            take(.unservable(Unservable(.headTooLarge, "the head is too large")))
        case ByteToMessageDecoderError.dataReceivedInErrorState(_, let bytes):
            perform(exchange.dropped(bytes: bytes.readableBytes))
        // The client has ended its side without saying so in TLS; the end of input follows, and its answer may, too.
        case NIOSSLError.uncleanShutdown: break
        default:
            // The connection itself failed (reset, TLS): nobody is left to answer.
            context.close(promise: nil)
        }
        settle()
    }

    private func take(_ part: BufferedPart) {
        if kept.isEmpty, exchange.takesParts, context?.channel.isWritable ?? false || exchange.isEnding {
            process(part)
        } else {
            exchange.bytesCame(now: .now())
            keep(part)
        }
    }

    private func keep(_ part: BufferedPart) {
        if isKeptCut { return }
        keptBytes += part.bytes
        isKeptCut = keptBytes > keptBytesMax
        kept.append(isKeptCut ? .inputEnd : part)
    }

    private func workOffKept() {
        guard !isWorkingOffKept else { return }
        isWorkingOffKept = true
        while let context, exchange.takesParts, context.channel.isWritable || exchange.isEnding, !kept.isEmpty {
            let part = kept.removeFirst()
            keptBytes -= part.bytes
            process(part)
        }
        isWorkingOffKept = false
    }

    private func process(_ part: BufferedPart) {
        switch part {
        case .head(let head, let arrived): process(head, arrived: arrived)
        case .body(let bytes): perform(exchange.bodyCame(bytes, now: .now()))
        case .end:
            noteDrain()
            perform(exchange.messageEnded(now: .now()))
        case .unservable(let error): perform(exchange.unservable(error, now: .now()))
        case .inputEnd: perform(exchange.inputEnded(now: .now()))
        }
    }

    private func process(_ head: HTTPRequestHead, arrived: NIODeadline) {
        guard !exchange.isEnding else { return }
        let framing: Framing
        do { framing = try Framing(head) } catch {
            perform(exchange.unservable(error, now: .now()))
            return
        }
        let method = framing.isHead ? "GET" : head.method.rawValue
        let incomingHead = IncomingHead(method: method, target: framing.target, headers: head.headers)
        perform(exchange.headCame(incomingHead, framing, handler.admit(incomingHead), arrived: arrived, now: .now()))
    }

    // MARK: Answering

    /// Called by `Responder`, on the loop.
    func answer(_ answer: HTTPAnswer, to sequence: UInt64) {
        guard context != nil else { return }
        noteDrain()
        perform(exchange.answered(answer, to: sequence, now: .now()))
        workOffKept()
        settle()
    }

    /// Applies a drain whose `DrainRequest` is still on its way: a late loop reads before it runs submitted tasks, and
    /// the answer to a request that came after the listener closed must say `Connection: close`.
    private func noteDrain() {
        if connections.isDraining, !exchange.isDraining { exchange.drain(now: .now()) }
    }

    private func perform(_ action: Exchange.Action) {
        guard let context else { return }
        switch action {
        case .nothing: break
        case .respond(let request, let sequence):
            handler.respond(to: request, with: Responder(self, on: context.eventLoop, sequence: sequence))
        case .sendContinue:
            write(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n"), in: context)
        case .send(let answer, let style): send(answer, style, in: context)
        case .reject(let answer, let style, let head, let reason):
            handler.rejected(head, status: answer.status, reason: reason)
            send(answer, style, in: context)
        // Without content: it is written when everything before it is.
        case .sendNoMore: writeLast(context.channel.allocator.buffer(capacity: 0), in: context)
        case .closeOutput: context.close(mode: .output, promise: nil)
        case .close: context.close(promise: nil)
        }
    }

    private func send(_ answer: HTTPAnswer, _ style: AnswerStyle, in context: ChannelHandlerContext) {
        var buffer = context.channel.allocator.buffer(capacity: answer.renderedBytesEstimate(style))
        answer.render(style, into: &buffer)
        guard style.closes else { return write(buffer, in: context) }
        // Input that was kept back is not answered any more.
        kept.removeAll()
        writeLast(buffer, in: context)
    }

    /// Closing the channel would drop what is not written yet.
    private func writeLast(_ buffer: ByteBuffer, in context: ChannelHandlerContext) {
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { result in
            switch result {
            case .success: self.perform(self.exchange.lastAnswerWritten(now: .now()))
            case .failure: self.context?.close(promise: nil)
            }
            self.settle()
        }
        write(buffer, promise: written, in: context)
    }

    private func write(_ buffer: ByteBuffer, promise: EventLoopPromise<Void>? = nil, in context: ChannelHandlerContext)
    {
        context.write(wrapOutboundOut(buffer), promise: promise)
        needsFlush = true
    }

    /// Flushes what was written, resumes reading, and makes sure that the timer fires early enough.
    private func settle() {
        if needsFlush, !isReading {
            needsFlush = false
            context?.flush()
        }
        readOn()
        setTimer()
    }

    private func setTimer() {
        guard let context else { return }
        timer.set(noLaterThan: exchange.deadline, on: context.eventLoop) { self.timerFired() }
    }

    private func timerFired() {
        timer.fired()
        perform(exchange.timeIsUp(now: .now()))
        workOffKept()
        settle()
    }

    /// Updates the listener's sum of unfinished bodies. A body that came in one read is not counted.
    private func countHeldBytes(_ bytes: Int) {
        guard bytes != heldBytes else { return }
        let sum = connections.holdBodyBytes(bytes - heldBytes)
        let grew = bytes > heldBytes
        heldBytes = bytes
        if grew, sum > partialBodiesBytesMax {
            perform(exchange.bodiesOverflowed(now: .now()))
            countHeldBytes(exchange.heldBytes)
        }
    }
}
