import Foundation
import TestSupport
import Testing
import Vocabulary

/// PgBouncer between the daemon and PostgreSQL. Oracle: its own setting, `pool_mode`.
@Suite struct PoolerTests {
    /// Runs PgBouncer before a database of a cluster of its own.
    private static func through(
        _ mode: String, settings: String = "", _ body: (_ url: String) throws -> Void
    ) throws {
        let cluster = try TestCluster(durable: true)
        let pooler = try TestPooler(before: cluster, mode: mode, connections: 30, settings: settings)
        try body(pooler.connectionString(for: cluster.createDatabase()))
    }

    @Test(
        "A pooler that shares a session among clients is refused, with the ways out, whatever it has to spare",
        arguments: ["", "default_pool_size = 1", "min_pool_size = 4\nserver_round_robin = 1"])
    func transactions(settings: String) throws {
        try Self.through("transaction", settings: settings) { url in
            let relay = try Relay([], storage: .given(url))
            defer { relay.end() }
            for _ in 1...3 {
                let child = try relay.launch()
                #expect(child.waitForEnd(180) == .exited(1))
                #expect(relay.lines.contains { $0.contains("use session pooling") }, "\(relay.lines)")
                #expect(relay.lines.contains { $0.contains("[database] pooling") }, "\(relay.lines)")
            }
            let migrated = try relay.command("migrate", "--config", relay.configuration)
            #expect(migrated.end == .exited(1) && migrated.errors.contains("use session pooling"), "\(migrated)")
            let doctor = try relay.command("doctor", "--config", relay.configuration)
            #expect(doctor.output.contains("use session pooling"), "\(doctor)")
        }
    }

    @Test("Several poolers that take turns behind one address are found, too")
    func inTurns() throws {
        let cluster = try TestCluster(durable: true)
        let ports = [try Socket.freePort(), try Socket.freePort()]
        let poolers = try ports.map {
            try TestPooler(before: cluster, mode: "transaction", connections: 30, port: $0)
        }
        try withExtendedLifetime(poolers) {
            let turns = try Turns(ports)
            let url = try cluster.createDatabase().replacing(/host=\S+/, with: "host=127.0.0.1 port=\(turns.port)")
            let relay = try Relay([], storage: .given(url))
            defer { relay.end() }
            #expect(try relay.launch().waitForEnd(180) == .exited(1))
            #expect(relay.lines.contains { $0.contains("use session pooling") }, "\(relay.lines)")
        }
    }

    @Test("A reload with the url of such a pooler is refused; webhooks go where they went")
    func reloaded() throws {
        let cluster = try TestCluster(durable: true)
        let pooler = try TestPooler(before: cluster, mode: "transaction", connections: 30)
        let direct = try cluster.createDatabase()
        let relay = try Relay.running([], storage: .given(direct))
        defer { relay.end() }
        try relay.directory.write("database-url", pooler.connectionString(for: direct) + "\n")
        let refused = try relay.reload()
        #expect(refused.contains("use session pooling"), "\(refused)")
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
    }

    @Test("Behind a pooler that keeps a session for each client, webhooks are recorded and delivered")
    func sessions() throws {
        try Self.through("session") { url in
            let receiver = try Receiver()
            let relay = try Relay.running([.init("backend", receiver)], storage: .given(url))
            defer { relay.end() }
            for _ in 1...2 {
                #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
                #expect(receiver.waitForAccepted(1))
                try relay.restart()
            }
        }
    }
}

/// Passes each connection on to the next of several ports, as an address before several processes does.
private final class Turns: Sendable {
    let port: UInt16
    private let listener: Socket
    private let open = Monitor<[Int32]>([])
    /// Seconds that a connection may be silent.
    private static let timeout = 600

    init(_ ports: [UInt16]) throws {
        (listener, port) = try Socket.listen()
        let (listener, open) = (listener, open)
        Thread.detachNewThread {
            var turn = 0
            while true {
                let descriptor = accept(listener.descriptor, nil, nil)
                guard descriptor >= 0 else { return }
                let client = Socket(descriptor: descriptor)
                client.prepare(timeout: Self.timeout)
                guard let server = try? Socket.connect(port: ports[turn % ports.count], timeout: Self.timeout) else {
                    close(descriptor)
                    continue
                }
                turn += 1
                open.change { $0 += [client.descriptor, server.descriptor] }
                for (from, to) in [(client, server), (server, client)] {
                    Thread.detachNewThread {
                        while let bytes = try? from.receive(), !bytes.isEmpty, (try? to.send(bytes)) != nil {}
                        for socket in [from, to] { shutdown(socket.descriptor, Int32(SHUT_RDWR)) }
                    }
                }
            }
        }
    }

    deinit {
        for descriptor in open.current + [listener.descriptor] { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
}
