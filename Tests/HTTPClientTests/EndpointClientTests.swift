import NIOCore
import Testing
import Vocabulary

@testable import HTTPClient

/// The client against receivers that answer, well or oddly. Oracle: RFC 9112, read by hand into bytes.
@Suite(.timeLimit(.minutes(30)))
struct EndpointClientTests {
    @Test func sendsOneCompleteRequest() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let client = try await ClientHarness.make(
            port: server.port, host: "receiver.test", headers: [.init(name: "x-key", value: Secret(Array("s3".utf8)))])
        let body = [Array("{\"a\":".utf8), Array("1}".utf8)]
        let outcome = try await client.send(body, headers: [("webhook-id", "msg_1")])
        #expect(outcome == .success(EndpointAnswer(status: 200, body: Array("ok".utf8))))
        let received = try #require(server.received.first)
        #expect(
            received.head.split(separator: "\r\n").map(String.init) == [
                "POST /hook?x=1 HTTP/1.1", "host: receiver.test:\(server.port)", "user-agent: posthouse/test",
                "accept: */*", "content-type: application/json", "x-key: s3", "webhook-id: msg_1", "content-length: 7",
            ])
        #expect(String(decoding: received.body, as: UTF8.self) == "{\"a\":1}")
        try await client.close()
        await server.stop()
    }

    @Test func sendsABodyTooLargeToCopyInSequence() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let client = try await ClientHarness.make(port: server.port)
        let parts = [3, 200_000, 0, 70_000].map { [UInt8](repeating: UInt8($0 % 251), count: $0) }
        #expect(try await client.send(parts).status == 200)
        #expect(try #require(server.received.first).body == Array(parts.joined()))
        try await client.close()
        await server.stop()
    }

    @Test func keepsOneConnectionAlive() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let client = try await ClientHarness.make(port: server.port)
        for _ in 0..<20 { #expect(try await client.send().status == 200) }
        #expect(server.connections == 1)
        #expect(try await client.connectionCount() == 1)
        try await client.close()
        #expect(try await client.connectionCount() == 0)
        await server.stop()
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", 200),
        ("HTTP/1.0 202 Accepted\r\ncontent-length: 0\r\n\r\n", 202),
    ]) func opensAnotherConnectionAfterClose(answer: String, status: Int) async throws {
        let server = try await MisbehavingServer.start { $1.say(answer) }
        let client = try await ClientHarness.make(port: server.port)
        for _ in 0..<3 { #expect(try await client.send().status == status) }
        #expect(server.connections == 3)
        try await client.close()
        await server.stop()
    }

    /// Each answer, what is made of it, and whether the connection may carry the next request.
    @Test(arguments: [
        Answer("HTTP/1.1 204 No Content\r\n\r\n", 204),
        Answer("HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n", 304),
        Answer(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nt: 1\r\n\r\n", 200,
            "abcde"),
        Answer(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"
                + "HTTP/1.1 201 C\r\ncontent-length: 1\r\n\r\nx",
            201, "x"),
        Answer("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n", 302),
        Answer("HTTP/1.1 429 Slow\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n", 429, "", "120"),
        Answer("HTTP/1.1 200 OK\r\nupgrade: h2,h2c\r\nconnection: Upgrade\r\ncontent-length: 2\r\n\r\nhi", 200, "hi"),
    ]) func readsAnswers(answer: Answer) async throws {
        let server = try await MisbehavingServer.start { $1.say(answer.text) }
        let client = try await ClientHarness.make(port: server.port)
        for _ in 0..<2 {
            let outcome = try await client.send()
            #expect(
                outcome
                    == .success(
                        EndpointAnswer(
                            status: answer.status, retryAfter: answer.retryAfter, body: Array(answer.body.utf8))))
        }
        #expect(server.connections == 1)
        #expect(server.received.count == 2)
        try await client.close()
        await server.stop()
    }

    struct Answer: Sendable {
        let text: String
        let status: Int
        let body: String
        let retryAfter: String?

        init(_ text: String, _ status: Int, _ body: String = "", _ retryAfter: String? = nil) {
            self.text = text
            self.status = status
            self.body = body
            self.retryAfter = retryAfter
        }
    }

    @Test func readsABodyToTheEndOfTheConnection() async throws {
        let server = try await MisbehavingServer.start { $1.sayAndClose("HTTP/1.1 200 OK\r\n\r\nuntil the end") }
        let client = try await ClientHarness.make(port: server.port)
        let outcome = try await client.send()
        #expect(outcome == .success(EndpointAnswer(status: 200, body: Array("until the end".utf8))))
        try await client.close()
        await server.stop()
    }

    @Test func servesWaitingRequestsOverFewConnections() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let client = try await ClientHarness.make(port: server.port, connectionsMax: 2)
        let futures = (0..<50).map { _ in client.start() }
        for future in futures { #expect(try await future.get().status == 200) }
        #expect(server.connections <= 2)
        #expect(server.received.count == 50)
        try await client.close()
        await server.stop()
    }

    @Test func noticesThatAnIdleConnectionWasClosed() async throws {
        let server = try await MisbehavingServer.start { $1.sayAndClose($1.okText) }
        let client = try await ClientHarness.make(port: server.port)
        for _ in 0..<5 { #expect(try await client.send().status == 200) }
        #expect(server.received.count == 5)
        try await client.close()
        await server.stop()
    }

    @Test func closesIdleConnections() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let client = try await ClientHarness.make(port: server.port, idleTimeout: .milliseconds(50))
        #expect(try await client.send().status == 200)
        await server.closings(1)
        #expect(try await client.connectionCount() == 0)
        #expect(try await client.send().status == 200)
        #expect(server.connections == 2)
        try await client.close()
        await server.stop()
    }

    @Test func sendsAgainWhenAKeptAliveConnectionDiesUnanswered() async throws {
        let server = try await MisbehavingServer.start { received, channel in
            // The second request on a connection meets a reset: the keep-alive race, made certain.
            if received.request == 2 { channel.reset() } else { channel.say(channel.okText) }
        }
        let client = try await ClientHarness.make(port: server.port, idleTimeout: .seconds(600))
        for _ in 0..<3 { #expect(try await client.send().status == 200) }
        #expect(server.connections == 3)
        #expect(server.received.count == 5)
        #expect(try await client.connectionCount() == 1)
        try await client.close()
        await server.stop()
    }

    @Test func doesNotSendAgainOnceAnAnswerHasBegun() async throws {
        let server = try await MisbehavingServer.start { received, channel in
            if received.request == 2 { channel.sayAndClose("HTTP/1.1 2") } else { channel.say(channel.okText) }
        }
        let client = try await ClientHarness.make(port: server.port)
        #expect(try await client.send().status == 200)
        #expect(try await client.send().failure == .connectionLost(.head))
        #expect(server.received.count == 2)
        try await client.close()
        await server.stop()
    }

    /// A second answer in the same bytes must never be taken for the answer to the next request.
    @Test func distrustsAConnectionThatAnswersTwice() async throws {
        let server = try await MisbehavingServer.start { received, channel in
            channel.say(received.connection == 1 ? channel.okText + channel.okText : "HTTP/1.1 500 No\r\n\r\n")
            if received.connection == 2 { channel.close(promise: nil) }
        }
        // The second request waits for the first one's connection, so it takes over the moment that one is free.
        let client = try await ClientHarness.make(port: server.port, connectionsMax: 1)
        let (first, second) = (client.start(), client.start())
        #expect(try await first.get().status == 200)
        #expect(try await second.get().status == 500)
        #expect(server.connections == 2)
        try await client.close()
        await server.stop()
    }

    @Test("What comes without a request ends the connection, also where it is only part of an answer")
    func distrustsWhatComesUnasked() async throws {
        let (channels, opened) = AsyncStream<any Channel>.makeStream()
        let server = try await MisbehavingServer.start { received, channel in
            if received.connection == 1 { opened.yield(channel) }
            channel.say(received.connection == 1 ? channel.okText : "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")
        }
        let client = try await ClientHarness.make(port: server.port, connectionsMax: 1)
        #expect(try await client.send().status == 200)
        var iterator = channels.makeAsyncIterator()
        let channel = await iterator.next()
        try #require(channel).say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n")
        await server.closings(1)
        #expect(try await client.send().status == 500)
        #expect(server.connections == 2)
        try await client.close()
        await server.stop()
    }

    @Test("A GET brings an answer, and says whether its body is whole")
    func get() async throws {
        let server = try await MisbehavingServer.start { $1.say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcde") }
        let client = try await ClientHarness.make(port: server.port, method: .get, target: "/status")
        #expect(try await client.send([]) == .success(EndpointAnswer(status: 200, body: Array("abcde".utf8))))
        #expect(
            try await client.send([], keptBytesMax: 4)
                == .success(EndpointAnswer(status: 200, body: Array("abcd".utf8), isWhole: false)))
        #expect(server.connections == 1)
        #expect(try #require(server.received.last).head.hasPrefix("GET /status HTTP/1.1\r\n"))
        try await client.close()
        await server.stop()
    }

    @Test("One client sends to several paths of its origin and to no other origin")
    func origins() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let client = try await ClientHarness.make(port: server.port)
        func head(_ host: String, _ port: Int, isTLS: Bool = false) throws -> RequestHead {
            try RequestHead(
                .post, EndpointURL(isTLS: isTLS, host: host, port: port, target: "/other"), userAgent: "p")
        }
        #expect(try await client.send(to: head("127.0.0.1", server.port)).status == 200)
        #expect(try #require(server.received.first).head.hasPrefix("POST /other "))
        for other in try [
            head("127.0.0.2", server.port), head("127.0.0.1", server.port + 1),
            head("127.0.0.1", server.port, isTLS: true),
        ] {
            guard case .unsendable = try await client.send(to: other).failure else {
                Issue.record("a request for another origin was sent")
                continue
            }
        }
        #expect(server.received.count == 1)
        try await client.close()
        await server.stop()
    }

    @Test func refusesHeadersThatNoRequestCanCarry() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let client = try await ClientHarness.make(port: server.port)
        for header in [("x", "a\r\nhost: b"), ("x", "a\nb"), ("x", "a\0b"), ("x y", "a"), ("", "a"), ("x\r\n", "a")] {
            guard case .unsendable = try await client.send(headers: [header]).failure else {
                Issue.record("\(header) was sent")
                continue
            }
        }
        #expect(server.connections == 0)
        try await client.close()
        await server.stop()
    }
}

extension Channel {
    var okText: String { "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" }
}
