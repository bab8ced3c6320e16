import NIOCore
import NIOHTTP1

/// Reads requests from the bytes of one connection, within limits.
enum RequestDecoder {
    static func make(_ limits: HTTPServerLimits) -> ByteToMessageHandler<HTTPRequestDecoder> {
        ByteToMessageHandler(
            HTTPRequestDecoder(limitConfiguration: limits.decoder), maximumBufferSize: limits.headBytesMax)
    }

    /// Completes the decoder's types, once in a process and on one thread; to be called before a loop makes a decoder.
    ///
    /// Swift 6.3 reads a null pointer where two threads need `ByteToMessageHandler<HTTPRequestDecoder>` for the first
    /// time at once: while one completes the types that `HTTPDecoder` is made of, the other asks whether `HTTPDecoder`
    /// is a `ByteToMessageDecoder`, and looks for the superclass of a class that has none
    /// (`getSuperclassForMaybeIncompleteMetadata` in stdlib/public/runtime/ProtocolConformance.cpp).
    static func prepare() { withExtendedLifetime(types) {} }

    private static let types: [Any.Type] = [HTTPRequestDecoder.self, ByteToMessageHandler<HTTPRequestDecoder>.self]
}

extension HTTPServerLimits {
    fileprivate var decoder: NIOHTTPDecoderLimitConfiguration {
        var configuration = NIOHTTPDecoderLimitConfiguration()
        configuration.maxHeaderFieldSize = headBytesMax
        configuration.maxHeaderListSize = headBytesMax
        configuration.maxHeaderFieldCount = headFieldsMax
        return configuration
    }
}
