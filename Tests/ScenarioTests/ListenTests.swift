import Foundation
import Testing
import Vocabulary

/// Where the daemon listens: what `check` accepts `serve` opens, and what a socket unit hands over it takes.
/// Oracle: curl, and systemd's own systemd-socket-activate(1).
@Suite(.serialized, .timeLimit(.minutes(30))) struct ListenTests {
    /// A relay whose `[server]` says this, the port of its own put in for PORT.
    private func relay(_ server: String) throws -> Relay {
        let relay = try Relay([.init("backend", Receiver())])
        let text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        let own = "listen = \"127.0.0.1:\(relay.port)\""
        try relay.directory.write(
            "posthouse.toml", text.replacing(own, with: server.replacing("PORT", with: String(relay.port))))
        return relay
    }

    /// The status of a GET by curl; 0 while nobody answers.
    private func status(_ url: String, _ options: String...) throws -> Int {
        let curl = try ChildProcess(
            ["curl", "-s", "-g", "-m", "120", "-o", "/dev/null", "-w", "%{http_code}"] + options + [url])
        _ = curl.waitForEnd(180)
        return Int(curl.output.joined()) ?? -1
    }

    private func isReady(_ url: String, _ options: String...) throws -> Bool {
        try eventually {
            let curl = try ChildProcess(
                ["curl", "-s", "-g", "-m", "120", "-o", "/dev/null", "-w", "%{http_code}"] + options + [url])
            _ = curl.waitForEnd(180)
            return curl.output.joined() == "200"
        }
    }

    @Test("localhost is 127.0.0.1, and an address may be written in any of its forms: check and serve agree")
    func forms() throws {
        for (listen, url) in [
            ("localhost:PORT", "http://127.0.0.1:PORT/readyz"), ("[0:0:0:0:0:0:0:1]:PORT", "http://[::1]:PORT/readyz"),
            ("[::1]:PORT", "http://[::1]:PORT/readyz"),
        ] {
            let relay = try relay("listen = \"\(listen)\"")
            defer { relay.end() }
            #expect(try relay.command("check", "--config", relay.configuration).end == .exited(0), "\(listen)")
            try relay.launch()
            #expect(try isReady(url.replacing("PORT", with: String(relay.port))), "\(listen): \(relay.lines)")
            #expect(relay.stop() == .exited(0))
        }
    }

    @Test("A name to listen on is an error of check and of serve, with what to write")
    func name() throws {
        let relay = try relay("listen = \"relay.example.com:PORT\"")
        defer { relay.end() }
        for command in ["check", "serve"] {
            let refused = try relay.command(command, "--config", relay.configuration)
            #expect(refused.end == .exited(78))
            #expect(refused.errors.contains("names are not looked up, write 127.0.0.1"), "\(refused.errors)")
        }
    }

    @Test("A unix socket: a file of its own, and one that systemd opened")
    func unixSocket() throws {
        let relay = try Relay([.init("backend", Receiver())])
        defer { relay.end() }
        let socket = relay.directory.path + "/http.sock"
        let text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        try relay.directory.write(
            "posthouse.toml",
            text.replacing("listen = \"127.0.0.1:\(relay.port)\"", with: "listen = \"unix:\(socket)\""))
        for wrapper in [[], activation([socket])] {
            try relay.launch(by: wrapper)
            #expect(try isReady("http://x/readyz", "--unix-socket", socket), "\(relay.lines)")
            relay.stop()
            try? FileManager.default.removeItem(atPath: socket)
        }
    }

    @Test("A second ListenStream is the API's; one that nobody asked for is an error that names both")
    func secondSocket() throws {
        let api = try Socket.freePort()
        let relay = try relay("listen = \"127.0.0.1:PORT\"\napi_listen = \"[::1]:\(api)\"")
        defer { relay.end() }
        try relay.launch(by: activation(["127.0.0.1:\(relay.port)", "[::1]:\(api)"]))
        #expect(try isReady("http://127.0.0.1:\(relay.port)/readyz"), "\(relay.lines)")
        #expect(try status("http://[::1]:\(api)/metrics") == 200)
        #expect(try status("http://127.0.0.1:\(relay.port)/metrics") == 404)
        relay.stop()

        let other = try Socket.freePort()
        let child = try relay.launch(by: activation(["127.0.0.1:\(relay.port)", "[::1]:\(api)", "[::1]:\(other)"]))
        // It is started by the first connection, and ends without an answer.
        let hasEnded = try eventually {
            _ = try status("http://127.0.0.1:\(relay.port)/readyz")
            return !child.isRunning
        }
        #expect(hasEnded && child.waitForEnd(180) == .exited(78))
        #expect(
            child.errors.contains { $0.contains("[::1]:\(other)") && $0.contains("127.0.0.1:\(relay.port)") },
            "\(child.errors)")
    }

    /// systemd-socket-activate: listens, and becomes the daemon with the first connection.
    private func activation(_ addresses: [String]) -> [String] {
        ["systemd-socket-activate"] + addresses.flatMap { ["-l", $0] }
            + ["-E", "SWIFT_BACKTRACE=enable=no", "-E", "PATH", "--"]
    }

    @Test("Without a descriptor left nobody is accepted; the daemon rests, and goes on with the first that is free")
    func noDescriptors() throws {
        let receiver = try Receiver()
        let relay = try Relay([.init("backend", receiver)])
        defer { relay.end() }
        let child = try relay.launch(by: ["prlimit", "--nofile=160:160"])
        #expect(relay.waitForLine("ready on ") != nil)
        let idle = try (0..<200).map { _ in try Socket.connect(port: relay.port) }
        // All descriptors are taken but the 64 that are kept; further clients wait in the kernel's queue.
        func open() -> Int {
            (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(child.identifier)/fd").count) ?? 0
        }
        #expect(eventually { open() >= 95 })
        try #require(child.isRunning, "\(String(describing: child.waitForEnd(1))): \(relay.lines)")
        #expect(relay.waitForLine("LimitNOFILE=") != nil)
        let (before, began) = (try ticks(of: child.identifier), Date())
        Thread.sleep(forTimeInterval: 3)
        // A loop that spins takes a core, a hundred ticks in a second, or its share of a machine under load.
        let used = try ticks(of: child.identifier) - before
        #expect(Double(used) < 10 * Date().timeIntervalSince(began))
        // It failed twice a second, and said so once.
        let said = relay.lines.filter { $0.contains("LimitNOFILE=") }
        #expect(said.count == 1 && said[0].contains("127.0.0.1:\(relay.port)"), "\(relay.lines)")
        idle.forEach { close($0.descriptor) }
        #expect(
            eventually {
                (try? relay.source().post(.init("ACTIVATE", .user("u"), purchase: "subs_1"))) == 200
            })
        #expect(receiver.waitForAccepted(1))
        #expect(child.isRunning)
    }

    /// User and system time of a process, in clock ticks (proc(5): fields 14 and 15 of its stat).
    private func ticks(of process: pid_t) throws -> Int {
        let stat = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        let fields = try #require(stat.split(separator: ")").last).split(separator: " ")
        return try #require(Int(fields[11])) + #require(Int(fields[12]))
    }
}
