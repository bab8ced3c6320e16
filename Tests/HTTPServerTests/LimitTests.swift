import HTTPServer
import NIOCore
import Testing

/// Oracle: the limits that each test passes in, RFC 9110 for the statuses. Waits are short and only ever lower bounds;
/// no test depends on being fast.
@Suite struct LimitTests {
    private func limits(_ change: (inout HTTPServerLimits) -> Void) -> HTTPServerLimits {
        var limits = HTTPServerLimits.patient
        change(&limits)
        return limits
    }

    @Test func refusesABodyByItsAnnouncedLength() async throws {
        let handler = TestHandler(bodyBytesMax: 10)
        try await withServer(handler: handler) { server in
            let client = try RawClient(server.boundAddress)
            #expect(try await client.exchange(post("/echo", "0123456789")).status == 200)
            try await client.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 11\r\n\r\n")
            let answer = try await client.answer()
            #expect(answer.status == 413)
            #expect(answer.headers["connection"] == "close")
            #expect(handler.rejected == [.init(path: "/echo", status: 413)])
            let huge = try RawClient(server.boundAddress)
            try await huge.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 18446744073709551615\r\n\r\n")
            #expect(try await huge.answer().status == 413)
        }
    }

    @Test func refusesAChunkedBodyThatGrowsTooLarge() async throws {
        try await withServer(handler: TestHandler(bodyBytesMax: 10)) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(
                "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\nghijk\r\n")
            #expect(try await client.answer().status == 413)
        }
    }

    @Test func theRefusalOfALargeBodyReachesAClientThatIsStillSending() async throws {
        try await withServer { server in
            let client = try RawClient(server.boundAddress)
            let body = String(repeating: "x", count: 900_000)
            try await client.send(post("/nowhere", body))
            client.endOutput()
            let rest = try await client.rest()  // an abort would throw
            #expect(rest.hasPrefix("HTTP/1.1 404 "))
        }
    }

    @Test(arguments: [
        "GET /hello HTTP/1.1\r\nHost: test\r\nX: " + String(repeating: "x", count: 2_000) + "\r\n\r\n",
        "GET /" + String(repeating: "x", count: 2_000) + " HTTP/1.1\r\nHost: test\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: test\r\nX:" + String(repeating: " ", count: 20_000),
        "GET /hello HTTP/1.1\r\nHost: test\r\n" + String(repeating: "X: y\r\n", count: 200) + "\r\n",
    ])
    func refusesAHeadThatIsTooLarge(request: String) async throws {
        try await withServer(limits: limits { $0.headBytesMax = 1_024 }) { server in
            let client = try RawClient(server.boundAddress)
            #expect(try await client.exchange(request).status == 431)
        }
    }

    @Test func doesNotWaitForASlowHead() async throws {
        // Long enough for the first bytes to come on a busy machine.
        try await withServer(limits: limits { $0.headTimeout = .seconds(12) }) { server in
            let silent = try RawClient(server.boundAddress)
            let slow = try RawClient(server.boundAddress)
            try await slow.send("GET /hello HT")
            #expect(try await slow.rest().hasPrefix("HTTP/1.1 408 "))
            #expect(try await silent.rest() == "")
        }
    }

    @Test func doesNotWaitForASlowSecondHead() async throws {
        try await withServer(limits: limits { $0.headTimeout = .seconds(12) }) { server in
            let client = try RawClient(server.boundAddress)
            _ = try await client.exchange(post("/echo", "x"))
            try await client.send("GET /he")
            #expect(try await client.rest().hasPrefix("HTTP/1.1 408 "))
        }
    }

    @Test(arguments: ["/echo", "/nowhere"])
    func doesNotWaitForASlowBody(path: String) async throws {
        let handler = TestHandler()
        try await withServer(handler: handler, limits: limits { $0.bodyTimeout = .milliseconds(100) }) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send("POST \(path) HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf")
            #expect(try await client.rest().hasPrefix("HTTP/1.1 408 "))
            #expect(handler.rejected.map(\.status) == [408])
        }
    }

    @Test func aSlowBodyIs408AlsoWhereTheAnswersTimeIsUpFirst() async throws {
        try await withServer(handler: TestHandler(answerTimeout: .milliseconds(100))) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf")
            #expect(try await client.rest().hasPrefix("HTTP/1.1 408 "))
        }
    }

    @Test func closesAnIdleConnection() async throws {
        try await withServer(limits: limits { $0.keepAliveIdleTimeout = .milliseconds(100) }) { server in
            let client = try RawClient(server.boundAddress)
            _ = try await client.exchange(post("/echo", "x"))
            #expect(try await client.rest() == "")
        }
    }

    @Test func answersInTimeWithoutTheHandlerAndDropsItsLateAnswer() async throws {
        let handler = TestHandler(answerTimeout: .seconds(1))
        try await withServer(handler: handler) { server in
            let client = try RawClient(server.boundAddress)
            let answer = try await client.exchange(post("/held", "1"))
            #expect(answer.status == 503)
            #expect(answer.body == "too late\n")
            #expect(answer.headers["connection"] == nil)
            try await handler.nextHeld().responder.respond(.text(200, "late\n"))
            #expect(try await client.exchange(post("/echo", "2")).body == "2")
            #expect(handler.rejected == [.init(path: "/held", status: 503)])
        }
    }

    @Test func theFirstOfTwoAnswersCounts() async throws {
        let handler = TestHandler()
        try await withServer(handler: handler) { server in
            let client = try RawClient(server.boundAddress)
            try await client.send(post("/held", "1"))
            let held = try await handler.nextHeld()
            held.responder.respond(.text(200, "first\n"))
            held.responder.respond(.text(200, "second\n"))
            #expect(try await client.answer().body == "first\n")
            #expect(try await client.exchange(post("/echo", "2")).body == "2")
        }
    }

    @Test func connectionsBeyondTheLimitWaitTheirTurn() async throws {
        try await withServer(limits: limits { $0.connectionsMax = 2 }) { server in
            let first = try RawClient(server.boundAddress)
            let second = try RawClient(server.boundAddress)
            for client in [first, second] { _ = try await client.exchange(post("/echo", "x")) }
            // The kernel takes the connection and the request; the server does not look at them yet.
            let third = try RawClient(server.boundAddress)
            try await third.send(post("/echo", "third"))
            _ = try await first.exchange(post("/echo", "x"))
            #expect(server.openConnections == 2)
            try await second.send(post("/echo", "x", headers: "Connection: close\r\n"))
            _ = try await second.rest()
            #expect(try await third.answer().body == "third")
        }
    }

    @Test func boundsTheSumOfUnfinishedBodies() async throws {
        let handler = TestHandler()
        try await withServer(handler: handler, limits: limits { $0.partialBodiesBytesMax = 150 }) { server in
            let half = String(repeating: "x", count: 100)
            let clients = [try RawClient(server.boundAddress), try RawClient(server.boundAddress)]
            for client in clients {
                try await client.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 200\r\n\r\n" + half)
            }
            // The one that is read second is rejected; the other can finish.
            #expect(try await handler.nextRejected() == .init(path: "/echo", status: 503))
            for client in clients { try await client.send(half) }
            var statuses = [Int]()
            for client in clients { statuses.append(try await client.answer().status) }
            #expect(statuses.sorted() == [200, 503])
            // What both held is given back: the next one that comes in halves finds room.
            let third = try RawClient(server.boundAddress)
            try await third.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 200\r\n\r\n" + half)
            #expect(try await third.exchange(half).status == 200)
        }
    }
}
