import NIOCore
import NIOPosix
import Synchronization
import Testing
import Vocabulary

@testable import HTTPClient

/// Names, addresses and the egress guard, over the client.
@Suite(.timeLimit(.minutes(30)))
struct EndpointReachTests {
    @Test(arguments: ["127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "0.0.0.0"])
    func refusesInsideAddresses(address: String) async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        // As a literal and behind a name.
        let literal = try await ClientHarness.make(port: server.port, host: address, allowsPrivate: false)
        let named = try await ClientHarness.make(
            port: server.port, host: "evil.test", allowsPrivate: false, resolver: .loopback([address]))
        for client in [literal, named] {
            guard case .refusedAddress = try await client.send().failure else {
                Issue.record("\(address) was not refused")
                continue
            }
        }
        #expect(server.connections == 0)
        await server.stop()
    }

    /// getaddrinfo reads these as 127.0.0.1; the guard judges what it says, not the text.
    @Test(arguments: ["127.1", "2130706433", "0x7f.1", "localhost"])
    func refusesOddSpellings(host: String) async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let names = NameResolver()
        let client = try await ClientHarness.make(
            port: server.port, host: host, allowsPrivate: false, resolver: names.resolver)
        guard case .refusedAddress = try await client.send().failure else {
            Issue.record("\(host) was not refused")
            return
        }
        let allowed = try await ClientHarness.make(port: server.port, host: host, resolver: names.resolver)
        #expect(try await allowed.send().status == 200)
        try await allowed.close()
        names.close()
        await server.stop()
    }

    /// The allowed candidate of a mixed answer is taken: 203.0.113.1 is refused, so nothing else is tried.
    @Test func dropsForbiddenCandidates() throws {
        let mixed = try ["10.0.0.1", "9.9.9.9", "::1", "9.9.9.9"].map { try SocketAddress(ipAddress: $0, port: 1) }
        let admitted = try Dial.admit(mixed, host: "h", allowsPrivate: false).get()
        #expect(admitted == [try SocketAddress(ipAddress: "9.9.9.9", port: 1)])
        let many = try (1...20).map { try SocketAddress(ipAddress: "9.9.9.\($0)", port: 1) }
        #expect(try Dial.admit(many, host: "h", allowsPrivate: false).get().count == HTTPClientLimits.candidatesMax)
    }

    @Test func aSilentAddressHasAShareOfTheTimeAndTheLastOneTheRest() {
        let margin = TimeAmount.milliseconds(HTTPClientLimits.connectMarginMilliseconds)
        #expect(Dial.timeout(.seconds(15), others: 0) == TimeAmount.seconds(15) + margin)
        #expect(Dial.timeout(.seconds(15), others: 1) == HTTPClientLimits.connectShareMax)
        #expect(Dial.timeout(.seconds(120), others: 7) == HTTPClientLimits.connectShareMax)
        #expect(Dial.timeout(.seconds(3), others: 1) == .milliseconds(1_500))
        #expect(Dial.timeout(.seconds(2), others: 7) == .milliseconds(250))
        #expect(Dial.timeout(.nanoseconds(1), others: 7) == .nanoseconds(1))
    }

    @Test(arguments: [
        ("h", ["10.0.0.1"], "h is 10.0.0.1 (a private network); `allow_private = true` in its [[integration]] permits"),
        ("127.0.0.1", ["127.0.0.1"], "guard: 127.0.0.1 (loopback); `allow_private = true` in its [[integration]]"),
        ("h", ["0.0.0.0", "::1"], "h is 0.0.0.0 (unspecified); `allow_private = true` in its [[integration]]"),
    ]) func aRefusalNamesTheKeyThatPermits(host: String, addresses: [String], part: String) throws {
        let explanation = try refusal(of: addresses, host: host, allowsPrivate: false)
        #expect(explanation.hasPrefix("refused by the egress guard: "), "\(explanation)")
        #expect(explanation.contains(part), "\(explanation)")
    }

    @Test(arguments: [false, true]) func noKeyIsNamedWhereNoneHelps(allowsPrivate: Bool) throws {
        let explanation = try refusal(of: ["0.0.0.0", "224.0.0.1"], host: "h", allowsPrivate: allowsPrivate)
        #expect(explanation == "refused by the egress guard: h is 0.0.0.0 (unspecified)")
    }

    private func refusal(of addresses: [String], host: String, allowsPrivate: Bool) throws -> String {
        let resolved = try addresses.map { try SocketAddress(ipAddress: $0, port: 1) }
        guard case .failure(let failure) = Dial.admit(resolved, host: host, allowsPrivate: allowsPrivate) else {
            return "admitted"
        }
        return failure.explanation
    }

    @Test func triesTheNextAddress() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let dead = try await DeadPort(beside: server)
        let client = try await ClientHarness.make(
            port: server.port, host: "two.test",
            resolver: .loopback(["127.0.0.1", "127.0.0.1"], ports: [dead.number, server.port]))
        #expect(try await client.send().status == 200)
        try await client.close()
        try await dead.release()
        await server.stop()
    }

    @Test func saysWhoRefusedTheConnection() async throws {
        let server = try await MisbehavingServer.start { _, _ in }
        let dead = try await DeadPort(beside: server)
        let client = try await ClientHarness.make(port: dead.number, host: "refuses.test")
        #expect(try await client.send().failure == .connectFailed("127.0.0.1:\(dead.number): Connection refused"))
        #expect(try await client.connectionCount() == 0)
        try await dead.release()
        await server.stop()
    }

    @Test func saysThatANameCannotBeResolved() async throws {
        let client = try await ClientHarness.make(
            port: 9, host: "no.test", resolver: .failing("Name or service not known"))
        #expect(try await client.send().failure == .unresolvable("no.test: Name or service not known"))
        let empty = try await ClientHarness.make(port: 9, host: "no.test", resolver: .loopback([]))
        #expect(try await empty.send().failure == .unresolvable("no.test has no address"))
    }

    @Test func stopsWaitingForALookUpAtTheDeadline() async throws {
        let client = try await ClientHarness.make(port: 9, host: "slow.test", resolver: .hanging, connectionsMax: 1)
        for _ in 0..<2 {
            #expect(try await client.send(timeout: .milliseconds(100)).failure == .timedOut(.resolving))
        }
        #expect(try await client.connectionCount() == 0)
        #expect(try await client.lookUpsWaiting() == 0, "it keeps no request that was given up")
    }

    @Test("A connection that is too old carries no further request, and the next one looks the name up")
    func aged() async throws {
        let server = try await MisbehavingServer.start { $1.say($1.okText) }
        let lookUps = Mutex(0)
        let resolver = AddressResolver { host, port, loop in
            lookUps.withLock { $0 += 1 }
            return AddressResolver.loopback().resolve(host, port, loop)
        }
        let client = try await ClientHarness.make(
            port: server.port, host: "moves.test", resolver: resolver, connectionsMax: 1, connectionAge: .zero)
        let futures = (0..<3).map { _ in client.start() }
        for future in futures { #expect(try await future.get().status == 200) }
        #expect(server.connections == 3)
        let count = lookUps.withLock { $0 }
        #expect(count == 3)
        #expect(try await client.connectionCount() == 0)
        try await client.close()
        await server.stop()
    }

    /// A full accept queue leaves the connect hanging: the kernel drops the SYN.
    @Test func timesOutWhileConnecting() async throws {
        let full = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 0)
            .serverChannelOption(.autoRead, value: false)
            .bind(host: "127.0.0.1", port: 0).get()
        let address = try #require(full.localAddress)
        var fillers = [any Channel]()
        let client = try await ClientHarness.make(port: try #require(address.port))
        var found: RequestFailure?
        // A busy machine may be late with a connection that there was room for: then the queue is filled once more.
        for timeout in [Duration.seconds(3), .seconds(30)] where found != .timedOut(.connecting) {
            while let filler = try? await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connectTimeout(.seconds(2)).connect(to: address).get()
            {
                fillers.append(filler)
            }
            found = try await client.send(timeout: timeout).failure
        }
        #expect(found == .timedOut(.connecting))
        #expect(try await client.connectionCount() == 0)
        for filler in fillers { try? await filler.close() }
        try await full.close()
    }

}

/// A port on which nobody listens: this side of a connection to `server`. While that is open no test is given the port.
private struct DeadPort {
    let number: Int
    private let channel: any Channel

    init(beside server: MisbehavingServer) async throws {
        channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: server.port).get()
        number = try #require(channel.localAddress?.port)
    }

    func release() async throws { try await channel.close() }
}
