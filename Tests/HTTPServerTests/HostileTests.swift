import HTTPServer
import Testing

/// Requests that two programs could read differently, and what is no HTTP at all. Oracle: RFC 9112 sections 2.2, 3.2,
/// 5.1, 5.2, 6.1, 6.3 and 7.1. Each must be answered with the status given, and the connection must end there: nothing
/// that follows may be taken for a request.
@Suite struct HostileTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let name: String
        let status: Int
        let request: String
        var testDescription: String { name }

        init(_ name: String, _ status: Int, _ request: String) {
            self.name = name
            self.status = status
            self.request = request
        }
    }

    static let chunked = "Transfer-Encoding: chunked\r\n"
    static let smuggled = "GET /hello HTTP/1.1\r\nHost: test\r\n\r\n"

    static func request(_ fields: String, _ body: String = "") -> String {
        "POST /echo HTTP/1.1\r\nHost: test\r\n\(fields)\r\n\(body)"
    }

    static let cases: [Case] = [
        .init("length, then encoding", 400, request("Content-Length: 4\r\n" + chunked, "0\r\n\r\n")),
        .init("encoding, then length", 400, request(chunked + "Content-Length: 4\r\n", "0\r\n\r\n")),
        .init("two lengths", 400, request("Content-Length: 4\r\nContent-Length: 5\r\n", "abcde")),
        .init("the same length twice", 400, request("Content-Length: 4\r\nContent-Length: 4\r\n", "abcd")),
        .init("a list of lengths", 400, request("Content-Length: 4, 4\r\n", "abcd")),
        .init("a signed length", 400, request("Content-Length: +4\r\n", "abcd")),
        .init("a hexadecimal length", 400, request("Content-Length: 0x4\r\n", "abcd")),
        .init("an empty length", 400, request("Content-Length:\r\n", "abcd")),
        .init("a space before the colon", 400, request("Content-Length : 4\r\n", "abcd")),
        .init("a folded field", 400, request("X: a\r\n b\r\nContent-Length: 0\r\n")),
        .init("another encoding before chunked", 501, request("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")),
        .init("chunked twice", 400, request("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n")),
        .init("chunked in two fields", 400, request(chunked + chunked, "0\r\n\r\n")),
        .init("chunked not last", 400, request("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n")),
        .init("an unknown encoding", 501, request("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")),
        .init("chunks in HTTP/1.0", 400, "POST /echo HTTP/1.0\r\n\(chunked)\r\n0\r\n\r\n"),
        .init("a chunk size that is no number", 400, request(chunked, "zz\r\nabc\r\n0\r\n\r\n")),
        .init("a chunk longer than its size", 400, request(chunked, "2\r\nabc\r\n0\r\n\r\n")),
        .init("an endless chunk size", 400, request(chunked, "fffffffffffffffff\r\nabc\r\n0\r\n\r\n")),
        .init("a bare line feed in the head", 400, "GET /hello HTTP/1.1\nHost: test\n\n"),
        .init("a bare carriage return", 400, "GET /hello HTTP/1.1\r\nHost: test\rX: y\r\n\r\n"),
        .init("a NUL in a value", 400, request("X: a\0b\r\n")),
        .init("no host", 400, "GET /hello HTTP/1.1\r\n\r\n"),
        .init("two hosts", 400, "GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        .init("a target without a slash", 400, "GET hello HTTP/1.1\r\nHost: test\r\n\r\n"),
        .init("CONNECT", 501, "CONNECT test:443 HTTP/1.1\r\nHost: test:443\r\n\r\n"),
        .init("another expectation", 417, request("Expect: the-unexpected\r\nContent-Length: 1\r\n", "x")),
        .init("garbage", 400, "\u{1}\u{2}\u{3} garbage\r\n\r\n"),
        .init("a greeting in TLS", 400, "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}"),
        .init("HTTP/2 with prior knowledge", 400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        .init("a method that does not exist", 400, "BREW /hello HTTP/1.1\r\nHost: test\r\n\r\n"),
    ]

    @Test(arguments: cases)
    func isAnsweredAndEnds(_ hostile: Case) async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(hostile.request + Self.smuggled)
            let rest = try await client.rest()
            #expect(rest.hasPrefix("HTTP/1.1 \(hostile.status) "), "\(rest)")
            #expect(rest.contains("connection: close\r\n"))
            #expect(!rest.contains("hello you"), "a request was smuggled in")
        }
    }

    @Test func aBrokenRequestDoesNotHarmTheOneBeforeIt() async throws {
        let handler = TestHandler()
        try await withServer(handler: handler) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(post("/held", "1") + "\u{1}garbage\r\n\r\n")
            try await handler.nextHeld().responder.respond(.text(200, "first\n"))
            #expect(try await client.answer().body == "first\n")
            #expect(try await client.rest().hasPrefix("HTTP/1.1 400 "))
        }
    }

    @Test func aValueCannotAddFieldsToAnAnswer() async throws {
        let handler = TestHandler()
        try await withServer(handler: handler) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(post("/held", "1"))
            let answer = HTTPAnswer(
                status: 200, headers: [("x-echo", "a\r\nset-cookie: b"), ("Content-Length", "99"), ("connection", "x")])
            try await handler.nextHeld().responder.respond(answer)
            #expect(try await client.answer().headers == ["x-echo": "a??set-cookie: b", "content-length": "0"])
        }
    }

    @Test func aClientThatLeavesTakesNothingWithIt() async throws {
        let handler = TestHandler()
        try await withServer(handler: handler) { server in
            var client: RawClient? = try RawClient(server.boundAddress)
            try await client?.send(post("/held", "1"))
            let held = try await handler.nextHeld()
            client = nil
            held.responder.respond(.text(200, "nobody reads this\n"))
            let next = try RawClient(server.boundAddress)
            #expect(try await next.exchange(post("/echo", "x")).body == "x")
        }
    }
}
