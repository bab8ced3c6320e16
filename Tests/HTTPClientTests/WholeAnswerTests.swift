import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import HTTPClient

/// Oracle: the HTTP decoder. (The fuzzer compares the two over whatever it finds.)
@Suite("An answer that is read in place")
struct WholeAnswerTests {
    private func read(_ text: String) -> WholeAnswer? {
        Array(text.utf8).withUnsafeBytes { WholeAnswer($0) }
    }

    /// What the decoder makes of it: status, Cache-Control, body; nil: not one whole answer with a connection to keep.
    private func decoded(_ bytes: [UInt8]) throws -> (status: Int, cache: String?, body: [UInt8])? {
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandler(AnswerDecoder.make())
        let request = HTTPRequestHead(version: .http1_1, method: .POST, uri: "/")
        try channel.writeOutbound(HTTPClientRequestPart.head(request))
        var (head, body, isWhole): (HTTPResponseHead?, [UInt8], Bool) = (nil, [], false)
        do { try channel.writeInbound(ByteBuffer(bytes: bytes)) } catch { return nil }
        while let part = try channel.readInbound(as: HTTPClientResponsePart.self) {
            switch part {
            case .head(let read): head = read
            case .body(let bytes): body += bytes.readableBytesView
            case .end: isWhole = true
            }
        }
        guard let head, isWhole, head.isKeepAlive else { return nil }
        return (Int(head.status.code), head.headers.first(name: "cache-control"), body)
    }

    private static let plain = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nok",
        "HTTP/1.1 202 \r\nServer: nginx/1.22\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nDate: Sat, 28 Nov 2026 10:00:00 GMT\r\n\r\n",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600, public\r\nX-Empty:\r\nContent-Length: 3\r\n\r\n{ }",
        "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
    ]

    private static let bytes: [UInt8] = [0, 9, 10, 13, 32, 45, 48, 57, 58, 65, 122, 127, 200]

    @Test("The plainest form says what the decoder says", arguments: plain)
    func same(_ text: String) throws {
        let answer = try #require(read(text))
        let oracle = try #require(try decoded(Array(text.utf8)))
        #expect(answer.status == oracle.status && answer.cacheControl == oracle.cache)
        #expect(Array(Array(text.utf8)[answer.bodyStart...]) == oracle.body)
    }

    @Test("Any other form is left to the decoder: each plain one with one byte less, more, or another")
    func others() throws {
        for text in Self.plain {
            let bytes = Array(text.utf8)
            for end in bytes.indices { #expect(read(String(decoding: bytes[..<end], as: UTF8.self)) == nil) }
            for place in bytes.indices {
                for byte in Self.bytes where byte != bytes[place] {
                    var other = bytes
                    other[place] = byte
                    for changed in [other, bytes[..<place] + [byte] + bytes[place...]] {
                        guard let answer = changed.withUnsafeBytes({ WholeAnswer($0) }) else { continue }
                        let said = "\(String(decoding: changed, as: UTF8.self).debugDescription)"
                        let oracle = try #require(try decoded(changed), "\(said)")
                        #expect(answer.status == oracle.status && answer.cacheControl == oracle.cache, "\(said)")
                        #expect(Array(changed[answer.bodyStart...]) == oracle.body, "\(said)")
                    }
                }
            }
        }
    }

    @Test(
        "What decides otherwise where an answer ends is the decoder's",
        arguments: [
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nProxy-Connection: close\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "",
        ])
    func refused(_ text: String) { #expect(read(text) == nil) }

    @Test("Its bytes and fields are few")
    func limits() {
        func answer(fields: Int, body: Int) -> String {
            let fields = String(repeating: "a: b\r\n", count: fields)
            return "HTTP/1.1 200 OK\r\n\(fields)Content-Length: \(body)\r\n\r\n" + String(repeating: "x", count: body)
        }
        #expect(read(answer(fields: WholeAnswer.fieldsMax - 1, body: 0)) != nil)
        #expect(read(answer(fields: WholeAnswer.fieldsMax, body: 0)) == nil)
        #expect(read(answer(fields: 0, body: WholeAnswer.bytesMax)) == nil)
    }
}
