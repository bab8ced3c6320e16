import HTTPServer
import NIOPosix
import Testing

/// Oracle: each client gets the answer that it was owed, and the number of connections cut.
@Suite(.timeLimit(.minutes(30))) struct DrainTests {
    private func start(
        _ handler: TestHandler, limits: HTTPServerLimits = .patient
    ) async throws -> HTTPListener {
        try await HTTPListener.start(
            listener: .tcp(host: "127.0.0.1", port: 0), handler: handler, group: MultiThreadedEventLoopGroup.singleton,
            limits: limits)
    }

    @Test func closesIdleConnectionsAndAcceptsNoMore() async throws {
        let server = try await start(TestHandler())
        let used = try RawClient(server.boundAddress)
        _ = try await used.exchange(post("/echo", "x"))
        let fresh = try RawClient(server.boundAddress)
        let cut = await server.drain(upTo: .seconds(1_200))
        #expect(cut == 0)
        #expect(try await used.rest() == "")
        // It was accepted or still in the kernel's queue: an end or a reset, never an answer.
        #expect((try? await fresh.rest()) ?? "" == "")
        #expect(server.openConnections == 0)
        // A program that another test is starting may still have the listening socket, until it runs.
        while !RawClient.isRefused(server.boundAddress) { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test func waitsForTheFirstRequestOfAConnection() async throws {
        var limits = HTTPServerLimits.patient
        limits.drainFreshGrace = .seconds(600)
        let server = try await start(TestHandler(), limits: limits)
        let used = try RawClient(server.boundAddress)
        _ = try await used.exchange(post("/echo", "x"))
        let fresh = try RawClient(server.boundAddress)
        while server.openConnections < 2 { try await Task.sleep(for: .milliseconds(1)) }
        async let cut = server.drain(upTo: .seconds(1_200))
        // The idle one has had its time; the fresh one still has some.
        #expect(try await used.rest() == "")
        let answer = try await fresh.exchange(post("/echo", "late"))
        #expect(answer.body == "late" && answer.headers["connection"] == "close")
        #expect(await cut == 0)
    }

    @Test func answersWhatIsUnderWay() async throws {
        let handler = TestHandler()
        let server = try await start(handler)
        let client = try RawClient(server.boundAddress)
        try await client.send(post("/held", "1"))
        let held = try await handler.nextHeld()
        let half = try RawClient(server.boundAddress)
        try await half.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nha")
        while handler.headsCount < 2 { try await Task.sleep(for: .milliseconds(1)) }
        async let cut = server.drain(upTo: .seconds(1_200))
        // The listening socket is closed once no one can connect any more.
        while !RawClient.isRefused(server.boundAddress) { try await Task.sleep(for: .milliseconds(1)) }
        try await half.send("lf")
        let answer = try await half.answer()
        #expect(answer.body == "half")
        #expect(answer.headers["connection"] == "close")
        held.responder.respond(.text(200, "done\n"))
        let rest = try await client.rest()
        #expect(rest.hasSuffix("\r\n\r\ndone\n"))
        #expect(rest.contains("connection: close\r\n"))
        #expect(await cut == 0)
    }

    @Test func cutsWhatIsNotAnsweredInTime() async throws {
        let handler = TestHandler()
        let server = try await start(handler)
        let client = try RawClient(server.boundAddress)
        try await client.send(post("/held", "1"))
        let held = try await handler.nextHeld()
        let cut = await server.drain(upTo: .milliseconds(50))
        #expect(cut == 1)
        #expect(server.openConnections == 0)
        held.responder.respond(.text(200, "nobody is there\n"))
        #expect((try? await client.rest()) ?? "" == "")
    }

    @Test func canBeAskedTwice() async throws {
        let server = try await start(TestHandler())
        async let first = server.drain(upTo: .seconds(1_200))
        async let second = server.drain(upTo: .seconds(1_200))
        #expect(await [first, second] == [0, 0])
    }
}
