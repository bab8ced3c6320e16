import Dispatch
import Glibc
import NIOCore
import NIOPosix
import Testing
import Vocabulary

@testable import HTTPClient

/// The client against receivers that fail: each failure is typed by the stage at which it happened.
@Suite(.timeLimit(.minutes(30)))
struct EndpointFailureTests {
    /// Long enough for a busy machine to connect in, or the stage would be another one.
    private let soon = Duration.seconds(10)

    @Test func hangsBeforeTheHead() async throws {
        let server = try await MisbehavingServer.start { _, _ in }
        try await expect(.timedOut(.head), from: server)
    }

    /// One timer serves all requests of a connection: a nearer deadline must move it.
    @Test func hangsOnAKeptAliveConnection() async throws {
        let server = try await MisbehavingServer.start { if $0.request == 1 { $1.say($1.okText) } }
        let client = try await ClientHarness.make(port: server.port)
        #expect(try await client.send(timeout: .seconds(1_200)).status == 200)
        let began = ContinuousClock.now
        #expect(try await client.send(timeout: soon).failure == .timedOut(.head))
        #expect(ContinuousClock.now - began < .seconds(600))
        // The server has read what came before the end.
        await server.closings(1)
        // Once only: a deadline that has passed is no reason to send again.
        #expect(server.received.count == 2)
        await server.stop()
    }

    /// A deadline that is noticed late, because the loop stood still, does not outrun an answer that has arrived.
    @Test func answersWhileTheLoopStandsStill() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let answered = DispatchSemaphore(value: 0)
        let server = try await MisbehavingServer.start { received, channel in
            guard received.request < 3 else { return }
            channel.writeAndFlush(ByteBuffer(string: channel.okText)).whenComplete { _ in
                if received.request == 2 { answered.signal() }
            }
        }
        let client = try await ClientHarness.make(port: server.port, on: group.next())
        #expect(try await client.send().status == 200)
        for isAnswered in [true, false] {
            let outcome = try await client.loop.flatSubmit {
                let answer = client.start(timeout: .milliseconds(600))
                // Begins right behind the sending, with nothing between, and lasts until the answer is there, however
                // slow the machine.
                client.loop.execute {
                    usleep(1_200_000)
                    if isAnswered { answered.wait() }
                }
                return answer
            }.get()
            #expect(isAnswered ? outcome.status == 200 : outcome.failure == .timedOut(.head))
        }
        try await client.close()
        await server.stop()
        try await group.shutdownGracefully()
    }

    @Test func hangsInTheHead() async throws {
        let server = try await MisbehavingServer.start { $1.say("HTTP/1.1 200 OK\r\ncontent-le") }
        try await expect(.timedOut(.head), from: server)
    }

    @Test func hangsInTheBody() async throws {
        let server = try await MisbehavingServer.start { $1.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx") }
        try await expect(.timedOut(.body), from: server)
    }

    /// The deadline is total: a trickle does not push it back.
    @Test func tricklesItsAnswer() async throws {
        let server = try await MisbehavingServer.start { _, channel in
            channel.say("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(20)) { task in
                if channel.isActive { channel.say("x") } else { task.cancel() }
            }
        }
        try await expect(.timedOut(.body), from: server)
    }

    @Test func doesNotReadTheRequest() async throws {
        let server = try await MisbehavingServer.start(readsRequests: false) { _, _ in }
        let client = try await ClientHarness.make(port: server.port)
        let body = [[UInt8](repeating: 0x20, count: 32 << 20)]
        var found: RequestFailure?
        // A busy machine may be late with the connection: then once more, with more time.
        for timeout in [soon, .seconds(60)] where found != .timedOut(.sending) {
            found = try await client.send(body, timeout: timeout).failure
        }
        #expect(found == .timedOut(.sending))
        try await client.close()
        await server.stop()
    }

    @Test func resetsBeforeTheHead() async throws {
        let server = try await MisbehavingServer.start { $1.reset() }
        try await expect(.connectionLost(.head), from: server, timeout: .seconds(300))
    }

    @Test func resetsInTheBody() async throws {
        let server = try await MisbehavingServer.start { _, channel in
            channel.writeAndFlush(ByteBuffer(string: "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx"))
                .whenComplete { _ in channel.reset() }
        }
        let client = try await ClientHarness.make(port: server.port)
        // The kernel may throw the first bytes away with the reset.
        let failure = try await client.send().failure
        #expect(failure == .connectionLost(.body) || failure == .connectionLost(.head))
        try await client.close()
        await server.stop()
    }

    @Test func closesInTheBody() async throws {
        let server = try await MisbehavingServer.start {
            $1.sayAndClose("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx")
        }
        try await expect(.connectionLost(.body), from: server, timeout: .seconds(300))
    }

    @Test(arguments: [
        "SSH-2.0-OpenSSH_9.2p1\r\n", "HTTP/2.0 200 OK\r\n\r\n", "\0\0\0\u{1}\u{2}",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 700 Odd\r\ncontent-length: 0\r\n\r\n",
    ]) func talksGarbage(answer: String) async throws {
        let server = try await MisbehavingServer.start { $1.say(answer) }
        let client = try await ClientHarness.make(port: server.port)
        let failure = try await client.send().failure
        guard case .malformedAnswer = failure else {
            Issue.record("taken for \(String(describing: failure))")
            return
        }
        #expect(failure?.explanation.contains("\n") == false)
        #expect(try await client.connectionCount() == 0)
        await server.stop()
    }

    @Test(arguments: ["x-a: \(String(repeating: "a", count: 1_000))\r\n", "a:b\r\n"])
    func sendsAnEndlessHead(line: String) async throws {
        let server = try await MisbehavingServer.start { _, channel in
            channel.say("HTTP/1.1 200 OK\r\n")
            flood(channel, with: line)
        }
        let client = try await ClientHarness.make(port: server.port)
        guard case .malformedAnswer = try await client.send().failure else {
            Issue.record("an endless head was taken for an answer")
            return
        }
        await server.closings(1)
        await server.stop()
    }

    @Test(arguments: ["HTTP/1.1 103 Early Hints\r\n\r\n", ""])
    func sendsInterimAnswersOrAReasonWithoutEnd(interim: String) async throws {
        let server = try await MisbehavingServer.start { _, channel in
            if interim.isEmpty { channel.say("HTTP/1.1 200 ") }
            flood(channel, with: interim.isEmpty ? "reason " : interim)
        }
        let client = try await ClientHarness.make(port: server.port)
        guard case .malformedAnswer = try await client.send().failure else {
            Issue.record("taken for an answer")
            return
        }
        await server.closings(1)
        await server.stop()
    }

    /// The status counts, the rest of a gigabyte is not read, and the connection is not used again.
    @Test(arguments: ["content-length: 1073741824\r\n\r\n", "\r\n"])
    func sendsAGigabyte(rest: String) async throws {
        let server = try await MisbehavingServer.start { _, channel in
            channel.say("HTTP/1.1 200 OK\r\n\(rest)")
            flood(channel, with: String(repeating: "y", count: 1_024))
        }
        let client = try await ClientHarness.make(port: server.port)
        let outcome = try await client.send()
        #expect(outcome.status == 200)
        #expect(try outcome.get().body.count == 256)
        await server.closings(1)
        #expect(try await client.connectionCount() == 0)
        await server.stop()
    }

    @Test func speaksBeforeItIsAsked() async throws {
        let server = try await MisbehavingServer.start(greeting: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") {
            _, _ in
        }
        let client = try await ClientHarness.make(port: server.port)
        // Whether the greeting comes before or after the request is a race; either way it costs one attempt at most.
        _ = try await client.send(timeout: soon)
        try await client.close()
        #expect(try await client.connectionCount() == 0)
        await server.stop()
    }

    @Test func waitsForAConnectionNoLongerThanItsDeadline() async throws {
        let server = try await MisbehavingServer.start { _, _ in }
        let client = try await ClientHarness.make(port: server.port, connectionsMax: 1)
        let first = client.start(timeout: .seconds(1_200))
        let second = client.start(timeout: soon)
        #expect(try await second.get().failure == .timedOut(.waiting))
        try await client.cancelAll()
        #expect(try await first.get().failure == .cancelled)
        await server.stop()
    }

    @Test func cancelsAndRefusesWhatComesAfterClosing() async throws {
        let server = try await MisbehavingServer.start { _, _ in }
        let client = try await ClientHarness.make(port: server.port, host: "slow.test", connectionsMax: 1)
        let underWay = client.start()
        let waiting = client.start()
        try await client.cancelAll()
        #expect(try await underWay.get().failure == .cancelled)
        #expect(try await waiting.get().failure == .cancelled)
        try await client.close()
        #expect(try await client.send().failure == .cancelled)
        #expect(try await client.connectionCount() == 0)
        await server.stop()
    }

    @Test func closingLetsWhatIsUnderWayFinish() async throws {
        let asked = AsyncStream<any Channel>.makeStream()
        let server = try await MisbehavingServer.start { asked.continuation.yield($1) }
        let client = try await ClientHarness.make(port: server.port)
        let underWay = client.start()
        var channels = asked.stream.makeAsyncIterator()
        let channel = try #require(await channels.next())
        async let closed: Void = client.close()
        #expect(try await client.connectionCount() == 1)
        channel.say(channel.okText)
        #expect(try await underWay.get().status == 200)
        try await closed
        #expect(try await client.connectionCount() == 0)
        await server.stop()
    }

    /// Without a `timeout`: whatever a busy machine is late with, an earlier stage ends the attempt then, and the next
    /// one has more time.
    private func expect(
        _ failure: RequestFailure, from server: MisbehavingServer, timeout: Duration? = nil
    ) async throws {
        let client = try await ClientHarness.make(port: server.port)
        var found: RequestFailure?
        for timeout in timeout.map({ [$0] }) ?? [.seconds(1), .seconds(5), .seconds(20), .seconds(60)] {
            let began = ContinuousClock.now
            found = try await client.send(timeout: timeout).failure
            // It does end, if not to the second on a machine that stands still.
            #expect(ContinuousClock.now - began < timeout + .seconds(300))
            guard found != failure, case .timedOut = found else { break }
        }
        #expect(found == failure)
        #expect(try await client.connectionCount() == 0)
        await server.closings(1)
        await server.stop()
    }
}

/// Writes until the other side hangs up, never more than the socket takes.
private func flood(_ channel: any Channel, with text: String) {
    let block = ByteBuffer(string: String(repeating: text, count: max(1, 32_768 / text.utf8.count)))
    channel.writeAndFlush(block).whenSuccess { flood(channel, with: text) }
}
