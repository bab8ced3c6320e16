import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import HTTPServer

/// Oracle: the HTTP decoder, and `Framing` of what it reads. (The fuzzer compares the two over whatever it finds.)
@Suite("A request that is read in place")
struct WholeRequestTests {
    private static let limits = HTTPServerLimits.patient

    private func read(
        _ bytes: [UInt8], headBytesMax: Int = Self.limits.headBytesMax, fieldsMax: Int = Self.limits.headFieldsMax
    ) -> WholeRequest? {
        bytes.withUnsafeBytes { WholeRequest($0, headBytesMax: headBytesMax, fieldsMax: fieldsMax) }
    }

    /// What the decoder makes of it; nil: not one whole request.
    private func decoded(_ bytes: [UInt8]) throws -> (head: HTTPRequestHead, body: [UInt8])? {
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        try channel.pipeline.syncOperations.addHandler(RequestDecoder.make(Self.limits))
        var (head, body, ends): (HTTPRequestHead?, [UInt8], Int) = (nil, [], 0)
        do { try channel.writeInbound(ByteBuffer(bytes: bytes)) } catch { return nil }
        while let part = try channel.readInbound(as: HTTPServerRequestPart.self) {
            switch part {
            case .head(let read): head = read
            case .body(let bytes): body += bytes.readableBytesView
            case .end: ends += 1
            }
        }
        guard let head, ends == 1 else { return nil }
        return (head, body)
    }

    /// Compares a request that is read in place with what the decoder reads.
    /// - Returns: whether it is read in place.
    private func isSame(_ bytes: [UInt8]) throws -> Bool {
        guard let request = read(bytes) else { return false }
        let said = "\(String(decoding: bytes, as: UTF8.self).debugDescription)"
        let oracle = try #require(try decoded(bytes), "\(said)")
        let framing = try Framing(oracle.head)
        let body = Array(bytes[request.head.count...])
        #expect(Framing(request, bodyBytes: body.count) == framing && body == oracle.body, "\(said)")
        let head = IncomingHead(request)
        let expected = IncomingHead(
            method: oracle.head.method.rawValue, target: framing.target, headers: oracle.head.headers)
        #expect(head.method == expected.method && head.path == expected.path && head.query == expected.query, "\(said)")
        let names = oracle.head.headers.map { $0.name.uppercased() } + ["absent"]
        #expect(names.map(head.first) == names.map(expected.first), "\(said)")
        #expect(names.map(head.all) == names.map(expected.all), "\(said)")
        return true
    }

    private static let plain = [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "POST /ingest/a?b=%20c HTTP/1.1\r\nHost: h:8080\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\n{}",
        "POST /a HTTP/1.1\r\nhost:h\r\nConnection: Keep-Alive\r\nX-A: b, c\r\nx-a:\r\ncontent-length:02\r\n\r\n\r\n",
        "POST //a HTTP/1.1\r\nContent-Length: 4\r\nauthorization: Bearer a\"b\r\nHOST: h\r\n\r\nPOST",
    ]

    private static let bytes: [UInt8] = [0, 9, 10, 13, 32, 35, 44, 45, 47, 48, 57, 58, 63, 65, 95, 122, 127, 200]

    @Test("The plainest form says what the decoder says", arguments: plain)
    func same(_ text: String) throws { #expect(try isSame(Array(text.utf8))) }

    @Test("Any other form is left to the decoder: each plain one with one byte less, more, or another")
    func others() throws {
        var (all, inPlace) = (0, 0)
        for text in Self.plain {
            let bytes = Array(text.utf8)
            for end in bytes.indices { #expect(read(Array(bytes[..<end])) == nil) }
            for place in bytes.indices {
                for byte in Self.bytes where byte != bytes[place] {
                    var other = bytes
                    other[place] = byte
                    for changed in [other, bytes[..<place] + [byte] + bytes[place...]] {
                        all += 1
                        if try isSame(changed) { inPlace += 1 }
                    }
                }
            }
        }
        #expect(all > 10_000 && inPlace > 1_000, "\(all) \(inPlace)")
    }

    @Test(
        "What decides otherwise where a request ends, and what is answered, is the decoder's",
        arguments: [
            "Host: h\r\n", "Host: h\r\nHost: h\r\nContent-Length: 2\r\n", "Content-Length: 2\r\n",
            "Host: h\r\nContent-Length: 2\r\nContent-Length: 2\r\n", "Host: h\r\nContent-Length: 2, 2\r\n",
            "Host: h\r\nContent-Length: +2\r\n", "Host: h\r\nContent-Length: 1\r\n", "Host: h\r\nContent-Length: 3\r\n",
            "Host: h\r\nContent-Length: 0000000002\r\n", "Host: h\r\nContent-Length : 2\r\n",
            "Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n",
            "Host: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n",
            "Host: h\r\nConnection: close\r\nContent-Length: 2\r\n",
            "Host: h\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n",
            "Host: h\r\nProxy-Connection: close\r\nContent-Length: 2\r\n",
            "Host: h\r\nUpgrade: h2c\r\nContent-Length: 2\r\n", "Host: h\r\nTrailer: a\r\nContent-Length: 2\r\n",
            "Host: h\r\nA: b\r\n c\r\nContent-Length: 2\r\n", "Host: h\nContent-Length: 2\r\n",
            "Host: h\r\nA: é\r\nContent-Length: 2\r\n", "Host: h\r\nA_B: c\r\nContent-Length: 2\r\n",
        ])
    func refused(_ fields: String) {
        #expect(read(Array("POST /a HTTP/1.1\r\n\(fields)\r\nok".utf8)) == nil)
    }

    @Test(
        "So is any other method, version or target",
        arguments: [
            "GET /a HTTP/1.1", "post /a HTTP/1.1", "POST /a HTTP/1.0", "POST /a HTTP/2.0", "POST /a", "POST a HTTP/1.1",
            "POST http://h/a HTTP/1.1", "POST * HTTP/1.1", "POST /a b HTTP/1.1", "POST /a#b HTTP/1.1",
            "POST  /a HTTP/1.1", "\r\nPOST /a HTTP/1.1",
        ])
    func refusedLine(_ line: String) {
        #expect(read(Array("\(line)\r\nHost: h\r\nContent-Length: 2\r\n\r\nok".utf8)) == nil)
    }

    @Test("Its head and the number of its fields are within the listener's limits")
    func withinLimits() {
        let bytes = Array(post("/echo", "x", headers: "A: b\r\nA: b\r\nA: b\r\n").utf8)
        let head = bytes.count - 1
        #expect(read(bytes, headBytesMax: head, fieldsMax: 5) != nil)
        #expect(read(bytes, headBytesMax: head - 1, fieldsMax: 5) == nil)
        #expect(read(bytes, headBytesMax: head, fieldsMax: 4) == nil)
    }

    // MARK: The connection

    /// Counts the reads that come to the decoder.
    private final class Reads: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private(set) var count = 0

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            count += 1
            context.fireChannelRead(data)
        }
    }

    /// A connection without a socket. `reads` counts those of its decoder.
    private func connect(_ handler: TestHandler, _ reads: Reads, inPlace: Bool = true) throws -> EmbeddedChannel {
        let connection = IncomingConnection(
            handler: handler, connections: Connections(), limits: Self.limits, waits: Waits(Self.limits), now: .now())
        var handlers: [any ChannelHandler] = [reads, RequestDecoder.make(Self.limits), connection]
        if inPlace { handlers.insert(WholeRequestReader(connection, Self.limits), at: 0) }
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandlers(handlers)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        return channel
    }

    /// What it answers to one burst of reading.
    private func answers(of channel: EmbeddedChannel, to burst: [String]) throws -> String {
        for read in burst { channel.pipeline.fireChannelRead(ByteBuffer(string: read)) }
        channel.pipeline.fireChannelReadComplete()
        return try answers(of: channel)
    }

    private func answers(of channel: EmbeddedChannel) throws -> String {
        var answers = ""
        while let buffer = try channel.readOutbound(as: ByteBuffer.self) { answers += String(buffer: buffer) }
        return answers
    }

    /// What a connection answers and rejects, and how many reads its decoder gets.
    /// - Parameter bursts: of reading, each with its reads.
    private func serve(
        _ bursts: [[String]], inPlace: Bool
    ) throws -> (answers: String, rejected: [TestHandler.Rejected], decoded: Int) {
        let (handler, reads) = (TestHandler(bodyBytesMax: 200), Reads())
        let channel = try connect(handler, reads, inPlace: inPlace)
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        var all = ""
        for burst in bursts where channel.isActive { all += try answers(of: channel, to: burst) }
        return (all, handler.rejected, reads.count)
    }

    private static let one = post("/echo", "one")
    private static let two = post("/echo?b", "two", headers: "X-A: c\r\n")
    private static let begun = "POST /echo HTTP/1.1\r\nHost: test\r\n"

    private static let bursts: [([[String]], Int)] = [
        ([[one], [two], [one]], 0),
        ([[post("/nowhere", "refused")], [one]], 0),
        ([[post("/echo", String(repeating: "x", count: 201))]], 0),
        ([[one], ["GET /hello HTTP/1.1\r\nHost: test\r\n\r\n"], [two]], 2),
        ([[begun], ["Content-Length: 3\r\n\r\none"], [two]], 3),
        // Two at once, and one before the other is answered.
        ([["\(one)\(two)"], [one]], 2),
        ([[post("/held", "1")], [two]], 1),
        // What looks like a request is a body, or the value of a field.
        ([["\(begun)Content-Length: \(two.utf8.count)\r\n\r\n"], [two], [one]], 3),
        ([["\(begun)X: ", two]], 2),
    ]

    @Test(
        "The decoder gets the first read that is no plain request, and all that follow; the answers stay the same",
        arguments: bursts)
    func connection(bursts: [[String]], decoded: Int) throws {
        let (served, oracle) = (try serve(bursts, inPlace: true), try serve(bursts, inPlace: false))
        #expect(served.answers == oracle.answers)
        #expect(served.rejected == oracle.rejected)
        #expect(served.decoded == decoded)
    }

    @Test("What comes while its client takes no answers is the decoder's, and is answered once the client takes them")
    func unwritable() throws {
        let reads = Reads()
        let channel = try connect(TestHandler(), reads)
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        #expect(try answers(of: channel, to: [Self.one]).hasSuffix("one"))
        channel.isWritable = false
        #expect(try answers(of: channel, to: [Self.two]).isEmpty)
        #expect(reads.count == 1)
        channel.isWritable = true
        channel.pipeline.fireChannelWritabilityChanged()
        #expect(try answers(of: channel).hasSuffix("two"))
    }
}
