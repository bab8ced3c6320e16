import NIOCore
import NIOHTTP1

/// Sits between the socket (or TLS) and the HTTP decoder. Outbound it replaces an encoder: the request's bytes are
/// rendered already, so it passes buffers on and drops the head part, which only makes the decoder expect an answer.
/// Inbound it reports raw bytes before they are decoded.
final class RequestBytes: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = ByteBuffer

    private let mayDecode: (Int) -> Bool

    /// - Parameter mayDecode: called with the number of bytes of a read; false: they are dropped.
    init(mayDecode: @escaping (Int) -> Bool) { self.mayDecode = mayDecode }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .body(.byteBuffer(let buffer)) = unwrapOutboundIn(data) {
            context.write(wrapOutboundOut(buffer), promise: promise)
        } else {
            promise?.succeed()
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if mayDecode(unwrapInboundIn(data).readableBytes) { context.fireChannelRead(data) }
    }
}
