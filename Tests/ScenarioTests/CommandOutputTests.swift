import Foundation
import TestSupport
import Testing
import Vocabulary

/// Where the output of a command goes. Oracle: /dev/full, which takes nothing; a reader that goes away; the exit code.
@Suite struct CommandOutputTests {
    private static let intoNothing = ["/bin/sh", "-c", "exec \"$@\" >/dev/full", "shell"]

    private func shell(_ script: String, _ relay: Relay, _ arguments: [String]) throws -> ChildProcess {
        try ChildProcess(
            ["/bin/bash", "-c", "set -o pipefail; " + script, "shell", try Relay.binary.get()] + arguments
                + ["--config", relay.configuration], environment: Relay.environment)
    }

    @Test("A command whose output cannot be written ends with 1 and says why on standard error")
    func full() throws {
        let receiver = try Receiver { _ in .status(400) }
        let relay = try Relay.running([.init("backend", receiver, ["permanent": "[400]"])])
        defer { relay.end() }
        for number in 1...3 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        #expect(try relay.source().post(Array("{}".utf8)) == 200)
        #expect(try eventually { try relay.database.count("dead_letters") == 3 })
        let body = try relay.directory.write("body", "x")
        let commands: [[String]] = [
            ["status"], ["events"], ["deliveries"], ["overdue"], ["trace", "--user", "u"], ["quarantine"], ["check"],
            ["doctor"],
            ["migrate"],
            ["secret", "list", "--directory", relay.directory.path],
            ["pause", "backend"], ["resume", "backend"], ["retry", "backend"],
            ["replay", "--outcome", "dead", "--dry-run"],
            ["backfill", "backend", "--since", "1h", "--dry-run"], ["discard", "backend", "--dry-run"],
            ["discard", "--dead", "backend", "--dry-run"], ["quarantine", "discard", "--all", "--dry-run"],
            ["erase", "--user", "nobody", "--dry-run"], ["repair", "subs_1"], ["repair", "--all", "--dry-run"],
            ["audit"], ["import", "purchasely", "/dev/null", "--dry-run"],
            ["test", "backend"], ["test", "--all"],
        ]
        for command in commands {
            for json in [[], ["--json"]] {
                let words = command + json + ["--config", relay.configuration]
                let (child, end) = try Relay.run(words, by: Self.intoNothing)
                #expect(end == .exited(1), "\(command) \(json): \(child.errors)")
                let reported = child.errors.contains { $0.contains("standard output cannot be written: No space left") }
                #expect(reported, "\(command) \(json): \(child.errors)")
            }
        }
        for command in [
            ["--help"], ["--version"],
            [
                "send", "--print", "--event", "ACTIVATE", "--user", "u", "--url", "http://127.0.0.1:1/ingest/x",
                "--secret-file", body,
            ],
        ] {
            let (child, end) = try Relay.run(command, by: Self.intoNothing)
            #expect(end == .exited(1), "\(command): \(child.errors)")
        }
    }

    @Test("A reader that goes away ends a command, listen too")
    func brokenPipe() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        for number in 1...3 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        // `read` takes the first line, and then nobody reads; the status is that of the command, by a signal or 1.
        let watched = try shell("\"$@\" | (read line)", relay, ["status", "--watch"])
        #expect(watched.waitForEnd(180) != nil)

        let secret = Receiver.newSecret()
        let port = try Socket.freePort()
        let file = try relay.directory.write("listen-secret", secret + "\n")
        let listener = try ChildProcess(
            [
                "/bin/bash", "-c", "\"$@\" | head -n 1", "shell", try Relay.binary.get(), "listen", "--listen",
                "127.0.0.1:\(port)", "--secret-file", file,
            ], environment: Relay.environment)
        #expect(listener.waitForError(180) { $0.contains("listening on") } != nil)
        // Each request is a line: the first is read, the reader ends, and a later one finds nobody.
        let isOver = eventually {
            _ = try? HTTPClient(port: port).request("POST", "/", body: Array("{}".utf8))
            return !listener.isRunning
        }
        #expect(isOver)
        #expect(listener.waitForEnd(180) == .exited(0), "\(listener.errors)")
        #expect(listener.output.count == 1)
    }

    @Test("COLUMNS cuts nothing that goes into a pipe")
    func columns() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        let user = "a-user-with-a-long-id-" + String(repeating: "0123456789", count: 6)
        #expect(try relay.source().post(Webhook("ACTIVATE", .user(user), purchase: "subs_1")) == 200)
        for columns in ["20", "80", "0", "x", ""] {
            let (piped, end) = try Relay.run(
                ["events", "--config", relay.configuration], environment: ["COLUMNS": columns])
            #expect(end == .exited(0))
            #expect(piped.output.contains { $0.contains(user) }, "COLUMNS=\(columns): \(piped.output)")
        }
    }
}
