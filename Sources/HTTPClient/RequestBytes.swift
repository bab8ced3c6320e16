import NIOCore
import NIOHTTP1

/// Sits between the socket (or TLS) and the HTTP decoder. Outbound it replaces an encoder: the request's bytes are
/// rendered already, so it passes buffers on and drops the head part, which only makes the decoder expect an answer.
/// Inbound it counts raw bytes.
final class RequestBytes: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = ByteBuffer

    private let onRead: (Int) -> Void

    init(onRead: @escaping (Int) -> Void) { self.onRead = onRead }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .body(.byteBuffer(let buffer)) = unwrapOutboundIn(data) {
            context.write(wrapOutboundOut(buffer), promise: promise)
        } else {
            promise?.succeed()
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        onRead(unwrapInboundIn(data).readableBytes)
        context.fireChannelRead(data)
    }
}
