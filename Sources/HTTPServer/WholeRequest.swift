import NIOCore
import Vocabulary

/// A request that came in one read and has the plainest form of RFC 9112, as most webhooks have: POST of a path, fields
/// of one line each, among them one Host and one Content-Length, and a body of that length. It says what the HTTP
/// decoder and `Framing` would say, for a small part of the time. Whatever has any other form is the decoder's.
///
/// A connection's first read takes 2 KiB at most, so longer webhooks (Apple's, most of Stripe's) are the decoder's.
/// With 8 KiB fewer are, but ten thousand idle connections took 68 MB more.
struct WholeRequest {
    /// Goes to the beginning of the body.
    let head: [UInt8]
    let target: String
    let fields: [FieldLine]

    /// - Parameters:
    ///   - bytes: all of a read.
    ///   - headBytesMax: of a head with its separators. The decoder does not count those: it never allows less.
    init?(_ bytes: UnsafeRawBufferPointer, headBytesMax: Int, fieldsMax: Int) {
        guard bytes.starts(with: Self.method), let lineEnd = FieldLine.lineEnd(bytes, from: 0),
            lineEnd >= Self.method.count + Self.version.count,
            bytes[(lineEnd - Self.version.count)..<lineEnd].elementsEqual(Self.version)
        else { return nil }
        // From the slash on.
        let path = (Self.method.count - 1)..<(lineEnd - Self.version.count)
        if bytes[path].contains(where: { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "#") }) { return nil }
        var (place, hosts, length): (Int, Int, Int?) = (lineEnd + 2, 0, nil)
        var fields: [FieldLine] = []
        fields.reserveCapacity(16)
        while let end = FieldLine.lineEnd(bytes, from: place), end > place {
            guard fields.count < fieldsMax, let field = FieldLine(bytes, place..<end) else { return nil }
            if field.isNamed("host", in: bytes) {
                hosts += 1
            } else if field.isNamed("content-length", in: bytes) {
                guard length == nil, let number = FieldLine.number(bytes, field.value) else { return nil }
                length = number
            } else if field.isNamed("connection", in: bytes) {
                guard field.hasValue("keep-alive", in: bytes) else { return nil }
            } else if Self.decisive.contains(where: { field.isNamed($0, in: bytes) }) {
                return nil
            }
            fields.append(field)
            place = end + 2
        }
        // The empty line, or one of another form.
        guard FieldLine.lineEnd(bytes, from: place) == place else { return nil }
        let bodyStart = place + 2
        guard hosts == 1, length == bytes.count - bodyStart, bodyStart <= headBytesMax else { return nil }
        head = Array(UnsafeRawBufferPointer(rebasing: bytes[..<bodyStart]))
        target = String(decoding: head[path], as: UTF8.self)
        self.fields = fields
    }

    private static let method = Array("POST /".utf8)
    private static let version = Array(" HTTP/1.1".utf8)
    /// Other fields that decide where a request ends, what is answered before that, or what becomes of its connection.
    private static let decisive: [StaticString] = [
        "transfer-encoding", "expect", "upgrade", "proxy-connection", "trailer",
    ]
}

/// Sits between the socket (or TLS) and the HTTP decoder: a read that is a `WholeRequest` goes to the connection at
/// once. From the first other read on all are the decoder's, which may hold the beginning of the next request.
final class WholeRequestReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let connection: IncomingConnection
    private let headBytesMax: Int
    private let fieldsMax: Int
    private var isDecoding = false

    init(_ connection: IncomingConnection, _ limits: HTTPServerLimits) {
        self.connection = connection
        headBytesMax = limits.headBytesMax
        fieldsMax = limits.headFieldsMax
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isDecoding, connection.takesWholeRequests {
            var read = unwrapInboundIn(data)
            let request = read.withUnsafeReadableBytes {
                WholeRequest($0, headBytesMax: headBytesMax, fieldsMax: fieldsMax)
            }
            if let request {
                read.moveReaderIndex(forwardBy: request.head.count)
                return connection.take(request, body: read)
            }
        }
        isDecoding = true
        context.fireChannelRead(data)
    }
}
