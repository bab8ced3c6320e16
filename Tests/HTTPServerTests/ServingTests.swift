import Foundation
import HTTPServer
import NIOCore
import NIOPosix
import Testing

/// Oracle: RFC 9110 and 9112, read off the bytes of a raw socket.
@Suite struct ServingTests {
    @Test func answersAndKeepsTheConnection() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            for number in 1...3 {
                let answer = try await client.exchange(post("/echo", "body \(number)"))
                #expect(
                    answer == .init(status: 200, headers: ["content-length": "6"], body: "body \(number)"))
            }
            #expect(server.openConnections == 1)
        }
    }

    @Test func showsTheHandlerPathQueryAndFields() async throws {
        let handler = TestHandler()
        try await withServer(handler: handler) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(post("/held?a=%20&b", "x", headers: "X-Thing: one\r\nx-thing: two\r\n"))
            let held = try await handler.nextHeld()
            #expect(held.request.head.method == "POST")
            #expect(held.request.head.path == "/held")
            #expect(held.request.head.query == "a=%20&b")
            #expect(held.request.head.first("X-THING") == "one")
            #expect(held.request.head.all("x-Thing") == ["one", "two"])
            #expect(held.request.head.first("absent") == nil)
            #expect(held.request.body == [UInt8(ascii: "x")])
            held.responder.respond(.json(202, Array("{}".utf8)))
            let answer = try await client.answer()
            #expect(answer.status == 202)
            #expect(answer.headers["content-type"] == "application/json")
        }
    }

    @Test func answersPipelinedRequestsInOrder() async throws {
        let handler = TestHandler()
        try await withServer(handler: handler) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(post("/held", "1") + post("/echo", "2") + post("/held", "3") + post("/echo", "4"))
            for number in ["1", "3"] {
                let held = try await handler.nextHeld()
                #expect(String(decoding: held.request.body, as: UTF8.self) == number)
                held.responder.respond(HTTPAnswer(status: 200, body: held.request.body))
            }
            for number in ["1", "2", "3", "4"] { #expect(try await client.answer().body == number) }
        }
    }

    @Test func answersThousandsOfPipelinedRequests() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            async let sent: Void = client.send(String(repeating: post("/echo", "x"), count: 5_000))
            let answers = try await client.answers(5_000)
            #expect(answers.allSatisfy { $0.body == "x" })
            try await sent
        }
    }

    @Test func takesAChunkedBody() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            let head = "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
            // In one piece, and in pieces that cut through the chunks.
            #expect(try await client.exchange(head + "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n").body == "abcde")
            for piece in [head, "3\r\nab", "c\r\n0\r\n", "Trailer: t\r\n\r\n"] { try await client.send(piece) }
            #expect(try await client.answer().body == "abc")
        }
    }

    @Test func answersHeadWithoutABody() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            try await client.send("HEAD /hello HTTP/1.1\r\nHost: test\r\n\r\n")
            let answer = try await client.answer(hasBody: false)
            #expect(answer.status == 200)
            #expect(answer.headers["content-length"] == "10")
            // What follows on the connection is the next answer and no body.
            #expect(try await client.exchange(post("/echo", "next")).body == "next")
        }
    }

    @Test func refusesAndKeepsTheConnection() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            #expect(try await client.exchange("GET /nowhere HTTP/1.1\r\nHost: test\r\n\r\n").status == 404)
            #expect(try await client.exchange(post("/nowhere", "small body")).status == 404)
            let answer = try await client.exchange("PUT /echo HTTP/1.1\r\nHost: test\r\n\r\n")
            #expect(answer.status == 405)
            #expect(answer.headers["allow"] == "POST")
            #expect(try await client.exchange(post("/echo", "still here")).body == "still here")
        }
    }

    @Test func sends100ContinueWhereItIsExpected() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(
                "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            #expect(try await client.answer().status == 100)
            #expect(try await client.exchange("ok").body == "ok")
            // Refused, it is answered at once, and whether the body still comes is unknown: the connection ends.
            try await client.send(
                "POST /nowhere HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            #expect(try await client.rest().hasPrefix("HTTP/1.1 404 "))
        }
    }

    @Test func closesWhereTheClientAsks() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(post("/echo", "last", headers: "Connection: close\r\n"))
            let rest = try await client.rest()
            #expect(rest.contains("connection: close\r\n"))
            #expect(rest.hasSuffix("\r\n\r\nlast"))
        }
    }

    @Test func speaksToOldClients() async throws {
        try await withServer { server in
            let old = try RawClient(server.boundAddress)
            try await old.send("GET /hello HTTP/1.0\r\n\r\n")
            #expect(try await old.rest().hasSuffix("\r\n\r\nhello you\n"))
            let kept = try RawClient(server.boundAddress)
            let request = "GET /hello?v HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
            #expect(try await kept.exchange(request).headers["connection"] == "keep-alive")
            #expect(try await kept.exchange(request).body == "hello v\n")
        }
    }

    @Test func answersAClientThatHasEndedItsSide() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(post("/echo", "1") + post("/echo", "2"))
            client.endOutput()
            let rest = try await client.rest()
            #expect(rest.components(separatedBy: "HTTP/1.1 200 OK").count == 3)
        }
    }

    @Test func answersInHTTP11WhereAnotherProtocolIsOffered() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(
                "GET /hello HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
            #expect(try await client.rest().hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test func sendsALargeAnswerWhole() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            let body = String(repeating: "0123456789abcdef", count: 65_536)
            #expect(try await client.exchange(post("/echo", body)).body == body)
        }
    }

    @Test func servesHundredsOfConnections() async throws {
        try await withServer { server in
            let clients = try (0..<300).map { _ in try RawClient(server.boundAddress) }
            for client in clients { try await client.send(post("/echo", "x")) }
            for client in clients { #expect(try await client.answer().body == "x") }
            #expect(server.openConnections == 300)
        }
    }
}
