import NIOCore
import NIOHTTP1

/// Sits between the socket (or TLS) and the HTTP decoder. Outbound it replaces an encoder: the request's bytes are
/// rendered already, and `send` passes them on from here; what comes down the pipeline only makes the decoder expect an
/// answer. Inbound it shows raw bytes before they are decoded.
final class RequestBytes: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = ByteBuffer

    private let mayDecode: (ByteBuffer) -> Bool
    private var context: ChannelHandlerContext?

    /// - Parameter mayDecode: called with the bytes of a read; false: they go no further.
    init(mayDecode: @escaping (ByteBuffer) -> Bool) { self.mayDecode = mayDecode }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func send(_ head: ByteBuffer, _ body: [ByteBuffer]) {
        guard let context else { return }
        context.write(wrapOutboundOut(head), promise: nil)
        for buffer in body { context.write(wrapOutboundOut(buffer), promise: nil) }
        context.flush()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) { promise?.succeed() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if mayDecode(unwrapInboundIn(data)) { context.fireChannelRead(data) }
    }
}
