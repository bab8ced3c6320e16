import Foundation
import TestSupport
import Testing
import Vocabulary

/// `migrate --from-embedded` between real daemons. Oracle: the receivers, and psql on both databases.
@Suite(.serialized, .timeLimit(.minutes(30))) struct MigrateTests {
    @Test("A ledger that was delivered, and not moved, is not left behind: serve says so, and how to begin anew")
    func notLeftBehind() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer { move.end() }
        _ = try move.fill()
        let refused = try move.new.launch()
        #expect(refused.waitForEnd(180) == .exited(78))
        let line = try #require(refused.errors.first { $0.contains("posthouse migrate --from-embedded") })
        let state = move.old.directory.path + "/state"
        #expect(line.contains("mv \(state)/cluster \(state)/cluster.left"))
        #expect(try move.new.database.value("SELECT to_regclass('events') IS NULL") == "t")
        // Commands find nothing there, and say where it may be.
        for command in ["migrate", "export"] {
            let done = try move.new.command(command, "--config", move.new.configuration)
            #expect(done.end == .exited(0), "\(command): \(done)")
            #expect(done.errors.contains("may hold a ledger that was not moved"), "\(command): \(done)")
        }
        // The new beginning that it names.
        try FileManager.default.moveItem(atPath: state + "/cluster", toPath: state + "/cluster.left")
        try move.new.start()
        #expect(try move.new.database.count("events") == 0)
        #expect(FileManager.default.fileExists(atPath: state + "/cluster.left/PG_VERSION"))
        let export = try move.new.command("export", "--config", move.new.configuration)
        #expect(export.end == .exited(0) && !export.errors.contains("not moved"), "\(export)")
    }

    @Test("A webhook in quarantine, which was acknowledged, is not left behind either")
    func quarantinedIsNotLeftBehind() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer {
            move.end()
            receiver.stop()
        }
        try move.old.start()
        #expect(try move.old.source().post(Array("{}".utf8)) == 200)
        #expect(try move.old.database.count("quarantine") == 1)
        #expect(move.old.stop() == .exited(0))
        let refused = try move.new.launch()
        #expect(refused.waitForEnd(180) == .exited(78))
        #expect(refused.errors.contains { $0.contains("1 in quarantine") }, "\(refused.errors)")
        // The moved ledger has another mark: what waits in the spool is recorded there all the same.
        let spool = move.old.directory.path + "/spool"
        try FileManager.default.createDirectory(atPath: spool, withIntermediateDirectories: true)
        try Data("1".utf8).write(to: URL(fileURLWithPath: spool + "/ledger"))
        let moved = try move.migrate()
        #expect(moved.end == .exited(0), "\(moved)")
        #expect(!FileManager.default.fileExists(atPath: spool + "/ledger"))
        #expect(try move.new.database.count("quarantine") == 1)
    }

    @Test("Its report cannot be written: it ends with 1, has moved everything, and leaves no PostgreSQL behind")
    func unwrittenReport() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer {
            move.end()
            receiver.stop()
        }
        let before = try move.fill()
        let child = try ChildProcess(
            [
                "/bin/sh", "-c", "exec \"$@\" >/dev/full", "sh", try Relay.binary.get(), "migrate", "--from-embedded",
                "--config", move.new.configuration,
            ], environment: ["SWIFT_BACKTRACE": "enable=no"])
        #expect(child.waitForEnd(180) == .exited(1))
        #expect(child.errors.contains { $0.contains("standard output cannot be written") }, "\(child.errors)")
        #expect(move.isMarked)
        #expect(try Figures(move.new.database) == before)
        #expect(!FileManager.default.fileExists(atPath: move.old.directory.path + "/state/cluster/postmaster.pid"))
    }

    @Test("With the url's credential alone it moves; what it lacks itself is refused, with the line that hands it over")
    func credentials() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer {
            move.end()
            receiver.stop()
        }
        let before = try move.fill()
        let (new, directory) = (move.new, move.new.directory)
        let certificate = try directory.write("tls.crt", "-----BEGIN CERTIFICATE-----\n")
        let tls = "{ certificate = \"\(certificate)\", key = \"/run/credentials/posthouse.service/tls-key\" }"
        try new.nameCredentials()
        let text = try String(contentsOfFile: new.configuration, encoding: .utf8)
            .replacing("[server]\n", with: "[server]\ntls = \(tls)\n")
        let direct = text.replacing("[database]\n", with: "[database]\ndirect_url = { credential = \"direct-url\" }\n")
        let credentials = directory.path + "/credentials"
        try FileManager.default.createDirectory(atPath: credentials, withIntermediateDirectories: false)
        func run(_ words: String...) throws -> (end: ChildProcess.End?, errors: String) {
            let (child, end) = try Relay.run(
                words + ["--config", new.configuration], environment: ["CREDENTIALS_DIRECTORY": credentials])
            return (end, child.errors.joined(separator: "\n"))
        }
        let line =
            "systemd-run -Pq --collect -p User=posthouse -p StateDirectory=posthouse -p StateDirectoryMode=0700 "
            + "-p LoadCredential=NAME:/etc/posthouse/credentials/NAME posthouse migrate --from-embedded --config "
            + new.configuration

        try directory.write("posthouse.toml", text)
        let urlless = try run("migrate", "--from-embedded")
        #expect(urlless.end == .exited(78) && urlless.errors.contains("the secret of [database] url "), "\(urlless)")
        #expect(urlless.errors.contains(line), "\(urlless)")
        // A unit of systemd's runs in another directory than this command.
        for (words, named) in [
            ("migrate --from-embedded --config posthouse.toml", line),
            (
                "events --user posthouse.toml --config ./posthouse.toml",
                "posthouse events --user posthouse.toml --config \(new.configuration)"
            ),
        ] {
            let (child, end) = try Relay.run(
                words.split(separator: " ").map(String.init),
                by: ["/bin/sh", "-c", "cd \(directory.path) && exec \"$@\"", "sh"],
                environment: ["CREDENTIALS_DIRECTORY": credentials])
            #expect(end == .exited(78), "\(words): \(child.errors)")
            #expect(child.errors.joined(separator: "\n").contains(named), "\(words): \(child.errors)")
        }
        try directory.write(
            "credentials/database-url", try String(contentsOfFile: directory.path + "/database-url", encoding: .utf8))
        try directory.write("posthouse.toml", direct)
        let directless = try run("migrate", "--from-embedded")
        #expect(
            directless.end == .exited(78) && directless.errors.contains("the secret of [database] direct_url "),
            "\(directless)")
        #expect(directless.errors.contains(line), "\(directless)")
        #expect(!move.isMarked)

        try directory.write("posthouse.toml", text)
        let moved = try run("migrate", "--from-embedded")
        #expect(moved.end == .exited(0), "\(moved)")
        #expect(try Figures(new.database) == before)
        // Of the daemon, all of them are asked.
        for word in ["check", "serve"] {
            let strict = try run(word)
            #expect(strict.end == .exited(78) && strict.errors.contains("`backend-0.secret`"), "\(word): \(strict)")
        }
    }

    @Test("A private cluster without a ledger is looked into once, and again after it was used")
    func emptyIsRecorded() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer { move.end() }
        let (old, new) = (move.old, move.new)
        try old.start()
        #expect(old.stop() == .exited(0))
        try new.start()
        #expect(new.stop() == .exited(0))
        #expect(new.lines.contains { $0.contains("started the private PostgreSQL cluster") }, "\(new.lines)")
        // Its PostgreSQL is gone, as after an upgrade of the distribution.
        let version = URL(fileURLWithPath: old.directory.path + "/state/cluster/PG_VERSION")
        let installed = try Data(contentsOf: version)
        try Data("99\n".utf8).write(to: version)
        try new.start()
        #expect(new.stop() == .exited(0))
        #expect(!new.lines.contains { $0.contains("private PostgreSQL cluster") }, "\(new.lines)")
        try installed.write(to: version)
        try old.start()
        #expect(try old.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try old.database.drained())
        #expect(old.stop() == .exited(0))
        let refused = try new.launch()
        #expect(refused.waitForEnd(180) == .exited(78))
        #expect(refused.errors.contains { $0.contains("posthouse migrate --from-embedded") }, "\(refused.errors)")
    }

    @Test("Everything moves: what waits, what is dead, what was known; nothing is lost, nothing doubled")
    func whole() throws {
        let problem = Monitor("")
        let backend = try Receiver { request in
            switch problem.current {
            case "down": .status(500)
            case "hung": .hang
            default: .ok
            }
        }
        let doomed = try Receiver { _ in .status(500, body: "never") }
        let move = try Move([
            .init("backend", backend, ["schedule": #"["1h", "1h"]"#]),
            .init("doomed", doomed, ["events": #"["RENEWAL_DISABLED"]"#, "schedule": #"["10ms"]"#]),
        ])
        defer { move.end() }
        let (old, new) = (move.old, move.new)
        try old.start()
        // Delivered, one of them dead elsewhere, one half of a transfer, one that cannot be read.
        let settled = [
            Webhook("ACTIVATE", .user("ann"), purchase: "subs_1"),
            Webhook("RENEWAL_DISABLED", .user("ann"), purchase: "subs_1", at: Webhook.epoch + 1_000),
            Webhook("ACTIVATE", .anonymous("a1"), purchase: "subs_2"),
        ]
        for webhook in settled { #expect(try old.source().post(webhook) == 200) }
        #expect(try old.source().post(Array("{}".utf8)) == 200)
        #expect(backend.waitForAccepted(3))
        #expect(try old.database.drained())
        #expect(try old.database.count("dead_letters") == 1)
        // A purchase of which the first waits for its retry and blocks the others; and one leased by a daemon when that
        // daemon is killed.
        problem.change { $0 = "down" }
        let waiting = (0..<4).map {
            Webhook("SUBSCRIPTION_RENEWED", .user("bob"), purchase: "subs_3", at: Webhook.epoch + Int64($0) * 1_000)
        }
        for webhook in waiting { #expect(try old.source().post(webhook) == 200) }
        #expect(
            try eventually { try old.database.count("attempts", where: "http_status = 500 AND outcome = 'retry'") == 2 }
        )
        problem.change { $0 = "hung" }
        let leased = Webhook("ACTIVATE", .user("cleo"), purchase: "subs_4")
        #expect(try old.source().post(leased) == 200)
        #expect(backend.wait { $0.count == 5 })
        old.kill()
        // Its private cluster outlives it: what is there now is what must be there then.
        let before = try Figures(old.database)
        #expect(try old.database.count("deliveries", where: "leased_by IS NOT NULL") == 1)

        // Not before it has moved.
        let early = try new.launch()
        #expect(early.waitForEnd(180) == .exited(78))
        #expect(
            early.errors.contains { $0.contains("5 unsettled") && $0.contains("posthouse migrate --from-embedded") })

        let dry = try move.migrate("--dry-run")
        #expect(dry.end == .exited(0) && dry.output.contains("nothing prevents it"), "\(dry)")
        #expect(try new.database.value("SELECT to_regclass('events') IS NULL") == "t")
        #expect(!move.isMarked)

        let moved = try move.migrate("--json")
        #expect(moved.end == .exited(0), "\(moved)")
        let reported = try #require(
            JSONSerialization.jsonObject(with: Data(moved.output.utf8)) as? [String: Any], "\(moved)")
        #expect(reported["moved"] as? String == "now")
        #expect((reported["tables"] as? [String: Int])?["events"] == 8)
        #expect(try Figures(new.database) == before)
        #expect(try new.database.count("deliveries", where: "leased_by IS NOT NULL") == 0)
        #expect(try new.database.count("daemons") == 0)
        let again = try move.migrate()
        #expect(again.end == .exited(0) && again.output.contains("was moved already"), "\(again)")
        // And not back.
        let back = try old.launch()
        #expect(back.waitForEnd(180) == .exited(78))
        #expect(back.errors.contains { $0.contains("was moved at") && $0.contains("[database] url") }, "\(back.errors)")

        problem.change { $0 = "" }
        try new.start()
        try new.database.rows("UPDATE deliveries SET due_at = now() WHERE NOT blocked")
        #expect(backend.waitForAccepted(8, 180))
        // Known webhooks are known there; the transfer is announced from what the private cluster knew.
        for webhook in settled + waiting + [leased] { #expect(try new.source().post(webhook) == 200) }
        #expect(
            try new.source().post(Webhook("ACTIVATE", .user("dora"), purchase: "subs_2", at: Webhook.epoch + 9_000))
                == 200)
        #expect(backend.waitForAccepted(11, 180))
        #expect(try new.database.drained())
        #expect(try new.database.count("events") == 9)
        let accepted = backend.accepted
        #expect(accepted.count == 11 && Set(accepted.map(\.id)).count == 11)
        #expect(accepted.allSatisfy { $0.isVerified })
        #expect(accepted.filter { $0.type.hasPrefix("SUBSCRIPTION_T") || $0.type.hasSuffix("_RECEIVED") }.count == 2)
        let order = accepted.filter { ($0.data["purchase"] as? [String: Any])?["key"] as? String == "subs_3" }
        #expect(order.map { $0.json["timestamp"] as? String } == waiting.map { Timestamp(milliseconds: $0.at).iso8601 })
        let trace = try new.command("trace", settled[0].transaction, "--config", new.configuration).output
        #expect(trace.contains("→ backend: delivered") && trace.contains("attempt 1 accepted (204"), "\(trace)")
        #expect(trace.contains("→ doomed: dead") && trace.contains("attempt 2"), "\(trace)")
        #expect(try new.command("quarantine", "--config", new.configuration).output.contains("event_name is missing"))
    }

    @Test("After a move no empty ledger is begun elsewhere: serve says where the ledger went, and how to begin anew")
    func ledElsewhere() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer {
            move.end()
            receiver.stop()
        }
        _ = try move.fill()
        let moved = try move.migrate()
        #expect(moved.end == .exited(0), "\(moved)")
        // Commands by the old configuration say so, too.
        let late = try move.old.command("status", "--config", move.old.configuration)
        #expect(late.end == .exited(78) && late.errors.contains("was moved at"), "\(late)")
        let check = try move.old.command("check", "--config", move.old.configuration)
        #expect(check.end == .exited(0) && check.errors.contains("warning: the private cluster in "), "\(check)")
        let empty = try Relay(
            [.init("backend", receiver)], storage: .fresh, settings: Move.embedded(in: move.old))
        defer { empty.end() }
        func expectRefusal() throws {
            let refused = try empty.launch()
            #expect(refused.waitForEnd(180) == .exited(78))
            let line = refused.errors.first { $0.contains("leads to a database without a ledger") }
            #expect(line?.contains("was moved at") == true && line?.contains(move.mark) == true, "\(refused.errors)")
        }
        try expectRefusal()
        #expect(try empty.database.value("SELECT to_regclass('events') IS NULL") == "t")
        #expect(try empty.command("migrate", "--config", empty.configuration).end == .exited(0))
        try expectRefusal()
        // Where it went, it is served.
        try move.new.start()
        #expect(try move.new.database.count("events") == 20)
        #expect(move.new.stop() == .exited(0))
        // The new beginning that it names.
        try FileManager.default.removeItem(atPath: move.old.directory.path + "/state/cluster")
        try FileManager.default.removeItem(atPath: move.mark)
        try empty.start()
        #expect(try empty.database.count("events") == 0)
    }

    /// posthouse-operate(7), "Moving the private cluster's ledger".
    @Test("The new database loses the move: without the mark everything moves again from the private cluster")
    func lostThere() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer {
            move.end()
            receiver.stop()
        }
        let before = try move.fill()
        let first = try move.migrate()
        #expect(first.end == .exited(0), "\(first)")
        try move.new.database.rows("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        let known = try move.migrate()
        #expect(known.end == .exited(0) && known.output.contains("was moved already"), "\(known)")
        let refused = try move.new.launch()
        #expect(refused.waitForEnd(180) == .exited(78))
        try FileManager.default.removeItem(atPath: move.mark)
        let again = try move.migrate()
        #expect(again.end == .exited(0), "\(again)")
        #expect(try Figures(move.new.database) == before)
    }

    @Test("It is refused, with what to do, and nothing has changed")
    func refused() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer {
            move.end()
            receiver.stop()
        }
        let (old, new) = (move.old, move.new)
        let nothing = try move.migrate()
        #expect(nothing.end == .exited(1) && nothing.errors.contains("there is no private cluster in"), "\(nothing)")
        #expect(try old.command("migrate", "--dry-run", "--config", new.configuration).end == .exited(64))
        try old.start()
        #expect(try old.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try old.database.drained())
        let urlless = try old.command("migrate", "--from-embedded", "--config", old.configuration)
        #expect(urlless.end == .exited(78) && urlless.errors.contains("[database] url is not set"), "\(urlless)")
        let running = try move.migrate()
        #expect(running.end == .exited(1) && running.errors.contains("systemctl stop posthouse.socket"), "\(running)")
        #expect(try old.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_2")) == 200)
        #expect(old.stop() == .exited(0))

        // A daemon at work on the target, which then leaves a ledger there. It begins only where the private cluster is
        // moved away on purpose.
        let cluster = old.directory.path + "/state/cluster"
        try FileManager.default.moveItem(atPath: cluster, toPath: cluster + ".left")
        try new.start()
        try FileManager.default.moveItem(atPath: cluster + ".left", toPath: cluster)
        let busy = try move.migrate()
        #expect(busy.end == .exited(1) && busy.errors.contains("a daemon works on the target"), "\(busy)")
        #expect(try new.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_9")) == 200)
        #expect(new.stop() == .exited(0))
        for flag in ["--json", "--dry-run"] {
            let occupied = try move.migrate(flag)
            #expect(occupied.end == .exited(1) && occupied.errors.contains("holds a ledger already"), "\(occupied)")
        }
        #expect(try new.database.count("events") == 1)
        // What a daemon only registers there is no ledger; but it must keep what it is given.
        try new.database.rows(
            """
            TRUNCATE events, identities, purchases, purchase_ends, transactions, entitlements, messages, attempts
            """)
        try new.database.rows(
            """
            CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
            CREATE TRIGGER drop_row BEFORE INSERT ON identities FOR EACH ROW EXECUTE FUNCTION drop_row()
            """)
        let miscounted = try move.migrate()
        #expect(miscounted.errors.contains("of 2 rows of identities the target counts 0"), "\(miscounted)")
        #expect(miscounted.end == .exited(1) && !move.isMarked)
        #expect(try new.database.count("events") == 0)
        try new.database.rows("DROP FUNCTION drop_row CASCADE")
        let done = try move.migrate()
        #expect(done.end == .exited(0))
        #expect(try new.database.count("events") == 2)
        // Both say it so: the manual and the program.
        for lines in [try ManualPage.operate.lines, done.output.components(separatedBy: "\n")] {
            let moved = #/moved \d+ rows from \S+ to .*dbname=.*, and counted them again there/#
            #expect(lines.contains { $0.wholeMatch(of: moved) != nil }, "\(done)")
            let next = "the private cluster stays as it was, marked as moved; start the daemon: "
            #expect(lines.contains(next + "systemctl start posthouse"), "\(done)")
            #expect(lines.contains { $0.wholeMatch(of: /TABLE +ROWS/) != nil }, "\(done)")
        }

        let nowhere = try Relay(
            [.init("backend", Receiver())], storage: .given("host=127.0.0.1 port=1 dbname=d password=geheim"),
            settings: Move.embedded(in: move.old))
        defer { nowhere.end() }
        let other = try nowhere.command("migrate", "--from-embedded", "--config", nowhere.configuration)
        #expect(other.end == .exited(1) && other.errors.contains("port=1, which [database] url names"), "\(other)")
        try FileManager.default.removeItem(atPath: move.mark)
        let unreachable = try nowhere.command("migrate", "--from-embedded", "--config", nowhere.configuration)
        #expect(unreachable.end == .exited(69) && unreachable.errors.contains("[database] url"), "\(unreachable)")
        #expect(!(other.errors + unreachable.errors).contains("geheim"))
        // Without its mark: the target knows the cluster, and both are the same.
        let known = try move.migrate()
        #expect(known.end == .exited(0) && known.output.contains("an earlier call moved it"), "\(known)")
    }

    @Test("Killed in the middle of the copy, or told to end: nothing is there; a second call moves it all")
    func cutShort() throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer {
            move.end()
            receiver.stop()
        }
        let before = try move.fill()
        #expect(try move.new.command("migrate", "--config", move.new.configuration).end == .exited(0))
        for signal in [SIGKILL, SIGTERM] {
            // By the name of their tables events are written before messages.
            let hold = try Hold(move.new.database, "CREATE TRIGGER hold BEFORE INSERT ON messages")
            let child = try move.launch()
            try hold.waitUntilMet(by: child)
            child.signal(signal)
            if signal == SIGKILL { #expect(child.waitForEnd(180) == .signalled(SIGKILL)) }
            // Before it can go on.
            #expect(child.waitUntilTaken(signal))
            try hold.release()
            if signal == SIGTERM {
                #expect(child.waitForEnd(180) == .exited(1))
                #expect(child.errors.contains { $0.contains("given up; nothing was moved") }, "\(child.errors)")
                #expect(
                    !FileManager.default.fileExists(atPath: move.old.directory.path + "/state/cluster/postmaster.pid"))
            }
            #expect(try eventually { try move.new.database.value(Hold.others) == "0" })
            #expect(try move.new.database.count("events") == 0)
            #expect(!move.isMarked)
        }
        let second = try move.migrate()
        #expect(second.end == .exited(0), "\(second)")
        #expect(try Figures(move.new.database) == before)
    }

    @Test(
        "Killed while the target commits: neither side serves before a second call has found out",
        arguments: [true, false])
    func killedAtCommit(isCommitted: Bool) throws {
        let receiver = try Receiver()
        let move = try Move([.init("backend", receiver)])
        defer {
            move.end()
            receiver.stop()
        }
        let before = try move.fill()
        #expect(try move.new.command("migrate", "--config", move.new.configuration).end == .exited(0))
        let hold = try Hold(
            move.new.database,
            "CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON moves DEFERRABLE INITIALLY DEFERRED")
        let child = try move.launch()
        try hold.waitUntilMet(by: child)
        if isCommitted {
            child.signal(SIGKILL)
            #expect(child.waitForEnd(180) == .signalled(SIGKILL))
        } else {
            try hold.terminateWaiting()
            #expect(child.waitForEnd(180) == .exited(69))
            #expect(child.errors.contains { $0.contains("run this again") }, "\(child.errors)")
        }
        #expect(move.isMarked)
        for relay in [move.old, move.new] {
            let daemon = try relay.launch()
            #expect(daemon.waitForEnd(180) == .exited(78))
            #expect(daemon.errors.contains { $0.contains("migrate --from-embedded again") }, "\(daemon.errors)")
        }
        try hold.release()
        #expect(try eventually { try move.new.database.value(Hold.others) == "0" })
        #expect(try move.new.database.count("moves") == (isCommitted ? 1 : 0))
        let second = try move.migrate()
        #expect(second.end == .exited(0), "\(second)")
        #expect(second.output.contains(isCommitted ? "an earlier call moved it" : "moved "), "\(second)")
        #expect(try Figures(move.new.database) == before)
        try move.new.start()
        #expect(try move.new.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_0")) == 200)
        #expect(try move.new.database.count("events") == 20)
    }
}
