import NIOCore
import NIOHTTP1
import Vocabulary

/// Reads answers from the bytes of one connection, within limits.
enum AnswerDecoder {
    static func make() -> ByteToMessageHandler<HTTPResponseDecoder> {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = Limits.responseHeadBytesMax
        limits.maxHeaderListSize = Limits.responseHeadBytesMax
        limits.maxHeaderFieldCount = HTTPClientLimits.responseFieldsMax
        return ByteToMessageHandler(HTTPResponseDecoder(limitConfiguration: limits))
    }

    /// Completes the decoder's types, once in a process and on one thread; to be called before a loop makes a decoder.
    ///
    /// Swift 6.3 reads a null pointer where two threads need them for the first time at once: see `RequestDecoder` of
    /// the HTTP server.
    static func prepare() { withExtendedLifetime(types) {} }

    private static let types: [Any.Type] = [HTTPResponseDecoder.self, ByteToMessageHandler<HTTPResponseDecoder>.self]
}
