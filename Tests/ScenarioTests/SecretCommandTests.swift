import Crypto
import Foundation
import TestSupport
import Testing
import Vocabulary

/// `posthouse secret` with files of a directory; as credentials of a real systemd they are in Tests/SystemTests/reload.
/// Oracles: the file system, Crypto, the daemon that takes what was stored, a pseudo-terminal of Python's.
@Suite struct SecretCommandTests {
    private struct Outcome {
        let end: ChildProcess.End?
        let output: String
        let errors: String
    }

    /// Runs `posthouse secret …` with `input` as its standard input.
    private func secret(_ scratch: ScratchDirectory, _ arguments: [String], input: String = "") throws -> Outcome {
        let file = try scratch.write("input", input)
        let child = try ChildProcess(
            ["/bin/sh", "-c", "umask 0; exec \"$@\" <\(file)", "sh", try Relay.binary.get(), "secret"] + arguments)
        let end = child.waitForEnd(180)
        return Outcome(
            end: end, output: child.output.joined(separator: "\n"), errors: child.errors.joined(separator: "\n"))
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
    }

    private func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    private func names(_ directory: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
    }

    @Test("A secret from standard input is stored for its owner alone, and never printed")
    func taken() throws {
        let scratch = try ScratchDirectory()
        let directory = scratch.path + "/secrets"
        let added = try secret(scratch, ["add", "shop", "--directory", directory], input: "hunter2-of-the-shop\r\n")
        #expect(added.end == .exited(0), "\(added.errors)")
        #expect(try String(contentsOfFile: directory + "/shop", encoding: .utf8) == "hunter2-of-the-shop\n")
        #expect(try mode(directory + "/shop") == 0o600)
        #expect(try mode(directory) == 0o700)
        let reference = "as secret, token or url:\n  { file = \"\(directory)/shop\" }\n"
        #expect(added.output.contains(reference), "\(added.output)")
        if getuid() == 0 {
            let words = added.errors.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            #expect(words.contains("chown USER \(directory) \(directory)/shop"), "\(words)")
        }
        #expect(!(added.output + added.errors).contains("hunter2"))
        #expect(try names(directory) == ["shop"], "no temporary file is left")
        // Many lines, as of a key for TLS.
        let pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
        let key = try secret(scratch, ["add", "tls-key", "--directory", directory], input: pem)
        #expect(key.end == .exited(0), "\(key.errors)")
        #expect(key.output.contains("in tls of [server]:\n  key = \"\(directory)/tls-key\"\n"), "\(key.output)")
        #expect(try String(contentsOfFile: directory + "/tls-key", encoding: .utf8) == pem)
    }

    @Test("A made whsec_ is printed once; of a whsk_ only the public half is")
    func made() throws {
        let scratch = try ScratchDirectory()
        let place = ["--directory", scratch.path, "--json"]
        let shared = try object(try secret(scratch, ["add", "a", "--make", "whsec"] + place).output)
        let sharedText = try #require(shared["secret"] as? String)
        #expect(try String(contentsOfFile: scratch.path + "/a", encoding: .utf8) == sharedText + "\n")
        #expect(sharedText.hasPrefix("whsec_") && Data(base64Encoded: String(sharedText.dropFirst(6)))?.count == 32)
        #expect(shared["public_key"] is NSNull && shared["unit"] is NSNull)
        #expect(shared["file"] as? String == scratch.path + "/a" && shared["replaced"] as? Bool == false)

        let pair = try object(try secret(scratch, ["add", "b", "--make", "whsk"] + place).output)
        #expect(pair["secret"] is NSNull)
        let half = try #require(pair["public_key"] as? String)
        let text = try String(contentsOfFile: scratch.path + "/b", encoding: .utf8)
        let seed = try #require(Data(base64Encoded: String(text.dropFirst("whsk_".count).dropLast())))
        let key = try Curve25519.Signing.PrivateKey(rawRepresentation: seed)
        #expect(half == "whpk_" + key.publicKey.rawRepresentation.base64EncodedString())

        for (kind, path) in [("whsec", "c"), ("whsk", "d")] {
            let added = try secret(scratch, ["add", path, "--make", kind, "--directory", scratch.path])
            let stored = try String(contentsOfFile: scratch.path + "/\(path)", encoding: .utf8).dropLast()
            let shown = added.output.components(separatedBy: String(stored)).count - 1
            #expect(shown == (kind == "whsec" ? 1 : 0), "\(added.output)")
            #expect(!added.errors.contains(stored))
        }
    }

    @Test("A name that is taken stays as it is; --replace replaces it whole, for the same owner")
    func replaced() throws {
        let scratch = try ScratchDirectory()
        let place = ["add", "shop", "--directory", scratch.path]
        #expect(try secret(scratch, place, input: "first\n").end == .exited(0))
        let refused = try secret(scratch, place, input: "second\n")
        #expect(refused.end == .exited(1))
        #expect(refused.errors.contains("--replace") && refused.errors.contains("secrets = ["), "\(refused.errors)")
        // An API token has no `secrets`.
        #expect(refused.errors.contains("a second [[api_token]]"), "\(refused.errors)")
        #expect(try String(contentsOfFile: scratch.path + "/shop", encoding: .utf8) == "first\n")
        if getuid() == 0 { #expect(chown(scratch.path + "/shop", 12_345, 12_346) == 0) }
        chmod(scratch.path + "/shop", 0o644)
        let replaced = try secret(scratch, place + ["--replace"], input: "second\n")
        #expect(replaced.end == .exited(0), "\(replaced.errors)")
        #expect(replaced.errors.contains("secrets = ["), "\(replaced.errors)")
        #expect(replaced.errors.contains("a second [[api_token]]"), "\(replaced.errors)")
        #expect(try String(contentsOfFile: scratch.path + "/shop", encoding: .utf8) == "second\n")
        #expect(try mode(scratch.path + "/shop") == 0o640)
        if getuid() == 0 {
            let owner = try FileManager.default.attributesOfItem(atPath: scratch.path + "/shop")
            #expect(owner[.ownerAccountID] as? Int == 12_345 && owner[.groupOwnerAccountID] as? Int == 12_346)
        }
        // The group of the daemon may read it as before.
        for (before, after) in [(0o640, 0o640), (0o600, 0o600), (0o666, 0o640)] {
            chmod(scratch.path + "/shop", mode_t(before))
            #expect(try secret(scratch, place + ["--replace"], input: "third\n").end == .exited(0))
            #expect(try mode(scratch.path + "/shop") == after)
        }
        // Neither a link nor what it leads to is replaced.
        let elsewhere = try scratch.write("elsewhere", "untouched")
        try FileManager.default.createSymbolicLink(atPath: scratch.path + "/link", withDestinationPath: elsewhere)
        let link = ["add", "link", "--directory", scratch.path]
        #expect(try secret(scratch, link, input: "x").end == .exited(1))
        let refusedLink = try secret(scratch, link + ["--replace"], input: "x")
        #expect(refusedLink.end == .exited(1), "\(refusedLink.errors)")
        #expect(refusedLink.errors.contains("is a symbolic link"), "\(refusedLink.errors)")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: scratch.path + "/link") == elsewhere)
        #expect(try String(contentsOfFile: elsewhere, encoding: .utf8) == "untouched")
        #expect(!(try names(scratch.path).contains { $0.hasPrefix(".") }), "no temporary file is left")
    }

    @Test("What is no name, no kind, no secret or no directory is refused, and nothing is stored")
    func refused() throws {
        let scratch = try ScratchDirectory()
        let directory = scratch.path + "/secrets"
        for name in ["../x", "a/b", ".x", "a b", "", "whsec_hunter2", String(repeating: "n", count: 129)] {
            let refused = try secret(scratch, ["add", name, "--directory", directory], input: "x")
            #expect(refused.end == .exited(64), "\(name): \(refused.errors)")
            #expect(!refused.errors.contains("hunter2"), "\(refused.errors)")
        }
        // A secret in the place of a word.
        let lines = [
            ["whsec_hunter2"], ["add", "x", "whsec_hunter2"], ["list", "whsk_hunter2"], ["list", "--x=whsec_hunter2"],
            ["--unit", "x", "whsec_hunter2"],
        ]
        for words in lines {
            let refused = try secret(scratch, words, input: "x")
            #expect(refused.end == .exited(64) && refused.output == "", "\(words): \(refused.errors)")
            #expect(!refused.errors.contains("hunter2"), "\(refused.errors)")
        }
        for options in [["--make", "rsa"], ["--unit", "a/b"], ["--directory", ""]] {
            #expect(try secret(scratch, ["add", "x"] + options).end == .exited(64), "\(options)")
        }
        for input in ["", "\n", "  \n", String(repeating: "x", count: 65_536), "a\0b"] {
            let refused = try secret(scratch, ["add", "x", "--directory", directory], input: input)
            #expect(refused.end == .exited(1) && refused.errors.contains("nothing was stored"), "\(refused.errors)")
        }
        #expect(!FileManager.default.fileExists(atPath: directory))
        let blocked = try scratch.write("file", "x")
        let nowhere = try secret(scratch, ["add", "x", "--directory", blocked], input: "x")
        #expect(nowhere.end == .exited(1) && nowhere.errors.contains(blocked), "\(nowhere.errors)")
        // Stored, because it may be meant for something else.
        let odd = try secret(scratch, ["add", "x", "--directory", directory], input: "whsec_hunter2")
        #expect(odd.end == .exited(0) && odd.errors.contains("not a secret for an integration"), "\(odd.errors)")
        #expect(!odd.errors.contains("hunter2"))
    }

    @Test("The daemon takes what was stored: a signed webhook goes in, a signed message comes out")
    func used() throws {
        let scratch = try ScratchDirectory()
        let place = ["--directory", scratch.path]
        #expect(try secret(scratch, ["add", "shop"] + place, input: "the platform's\n").end == .exited(0))
        let made = try object(try secret(scratch, ["add", "backend", "--make", "whsec", "--json"] + place).output)
        let receiver = try Receiver(secrets: [try #require(made["secret"] as? String)])
        let relay = try Relay([.init("backend", receiver)])
        defer { relay.end() }
        var text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        for (old, name) in [("purchasely-0.secret", "shop"), ("backend-0.secret", "backend")] {
            text = text.replacingOccurrences(of: "\(relay.directory.path)/\(old)", with: "\(scratch.path)/\(name)")
        }
        try relay.directory.write("posthouse.toml", text)
        try relay.start()
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try relay.source(secret: "the platform's").post(webhook) == 200)
        #expect(try relay.source().post(webhook) == 401)
        #expect(receiver.waitForAccepted(1))
        #expect(receiver.received.allSatisfy { $0.isVerified })
    }

    @Test("list names, ages and uses; what is missing, what too many may read, and nothing that is secret")
    func list() throws {
        let scratch = try ScratchDirectory()
        let directory = scratch.path + "/secrets"
        let place = ["--directory", directory]
        for name in ["shop", "spare", "backend"] {
            #expect(try secret(scratch, ["add", name] + place, input: "hunter2-\(name)").end == .exited(0))
        }
        chmod(directory + "/spare", 0o644)
        let dayAgo = Date(timeIntervalSinceNow: -3 * 86_400 - 60)
        try FileManager.default.setAttributes([.modificationDate: dayAgo], ofItemAtPath: directory + "/shop")
        try FileManager.default.createDirectory(atPath: directory + "/folder", withIntermediateDirectories: false)
        let configuration = try scratch.write(
            "posthouse.toml",
            """
            [[source]]
            name = "one"
            secrets = [{ file = "secrets/shop" }, { credential = "nowhere" }]
            [[integration]]
            name = "two"
            secret = { credential = "backend" }
            """)
        let arguments = ["list", "--config", configuration] + place
        let document = try object(try secret(scratch, arguments + ["--json"]).output)
        let listed = try #require(document["secrets"] as? [[String: Any]])
        func row(_ name: String) -> [String: Any] { listed.first { $0["name"] as? String == name } ?? [:] }
        #expect(listed.map { $0["name"] as? String } == ["backend", "shop", "spare", "nowhere"])
        #expect(row("shop")["used_by"] as? [String] == ["source one"])
        #expect(row("backend")["used_by"] as? [String] == ["integration two"])
        #expect(row("spare")["used_by"] as? [String] == [])
        #expect(row("spare")["mode"] as? String == "0644")
        // Which credentials a daemon gets, a unit says.
        #expect(row("nowhere")["state"] as? String == "unknown")
        #expect(row("backend")["state"] as? String == "unknown" && row("shop")["state"] as? String == "ready")
        #expect(row("nowhere")["file"] is NSNull)
        let age = try #require(row("shop")["age_seconds"] as? Int)
        #expect((259_200..<260_000).contains(age))

        let table = try secret(scratch, arguments)
        #expect(table.end == .exited(0) && table.errors == "", "\(table.errors)")
        let lines = table.output.components(separatedBy: "\n").map { $0.split(separator: " ").joined(separator: " ") }
        #expect(lines.first == "NAME AGE MODE STATE USED BY")
        #expect(lines.contains("shop 3d 0600 ready source one"), "\(lines)")
        #expect(lines.last == "nowhere - - unknown source one")
        // But for the seconds that have passed meanwhile.
        func ageless(_ text: String) -> String { text.replacing(#/ +[0-9]+[sm] /#, with: " ") }
        let usual = try secret(scratch, Array(arguments.dropFirst())).output
        #expect(ageless(usual) == ageless(table.output), "list is the default")
        #expect(!(table.output + table.errors + "\(document)").contains("hunter2"))
        // Only the TOML must hold: a configuration that lacks a secret is what the list is for.
        for text in ["not = [TOML", nil] as [String?] {
            if let text { try scratch.write("posthouse.toml", text) } else { unlink(configuration) }
            let unknown = try secret(scratch, arguments)
            #expect(unknown.end == .exited(78) && unknown.errors.contains("posthouse.toml"), "\(unknown.errors)")
            #expect(unknown.output.contains("shop") && unknown.output.contains("?"), "\(unknown.output)")
        }
        // A secret that was written where its name belongs; a path that is written in two ways.
        let odd = try scratch.write(
            "odd.toml",
            """
            [[source]]
            name = "one"
            secrets = [{ credential = "whsec_hunter2" }, { file = "whsk_hunter2" }, { file = "./x/../secrets/shop" }]
            """)
        try FileManager.default.createDirectory(atPath: scratch.path + "/x", withIntermediateDirectories: false)
        for options in [[], ["--json"]] {
            let shown = try secret(scratch, ["list", "--config", odd] + place + options)
            #expect(shown.end == .exited(0) && shown.output.contains("(not shown)"), "\(shown.errors)")
            #expect(!(shown.output + shown.errors).contains("hunter2"), "\(shown.output)")
            #expect(shown.output.components(separatedBy: "shop").count == (options.isEmpty ? 2 : 3), "\(shown.output)")
        }
        let empty = try secret(scratch, ["list", "--config", try scratch.write("e.toml", ""), "--directory", "/none"])
        #expect(empty.end == .exited(0) && empty.output == "" && empty.errors.contains("no secret"), "\(empty.errors)")
    }

    @Test("Without root or --directory it says both ways out", .enabled(if: getuid() == 0))
    func notRoot() throws {
        // Where that user may run it.
        let scratch = try ScratchDirectory()
        let binary = scratch.path + "/posthouse"
        // By a program of its own: a child of another test would inherit the open copy, which then cannot be run.
        #expect(try ChildProcess(["cp", try Relay.binary.get(), binary]).waitForEnd(180) == .exited(0))
        let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", binary, "secret"]
        for command in [["add", "x"], ["list"]] {
            let child = try ChildProcess(user + command)
            #expect(child.waitForEnd(180) == .exited(1), "\(child.errors)")
            let errors = child.errors.joined(separator: "\n")
            #expect(errors.contains("sudo") && errors.contains("--directory"), "\(errors)")
        }
    }

    /// Asks the terminal itself whether it shows what is typed: before, at the prompt, and after the end.
    private static let terminal = """
        import fcntl, os, pty, select, signal, subprocess, sys, termios
        master, slave = pty.openpty()
        def shows(): return bool(termios.tcgetattr(slave)[3] & termios.ECHO)
        # Of this session: with the end of a session of its own the terminal would be put right by Linux.
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        # Ctrl-C reaches this program, too. A handler, unlike SIG_IGN, is not inherited.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        before = shows()
        child = subprocess.Popen(sys.argv[2:], stdin=slave, stdout=slave, stderr=slave)
        seen = b""
        while b"not shown: " not in seen: seen += os.read(master, 4096)
        asked = shows()
        if sys.argv[1] == "interrupt": os.write(master, b"hunter2\\x03")
        elif sys.argv[1] == "terminate": child.send_signal(signal.SIGTERM)
        # What is pasted may end without a line break.
        else: os.write(master, sys.argv[1].encode() + (b"" if "\\n" in sys.argv[1] else b"\\n"))
        status = child.wait(150)
        after = shows()
        # What is left for a shell, a part of a line included.
        modes = termios.tcgetattr(slave)
        modes[3] &= ~termios.ICANON
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        left = bool(select.select([slave], [], [], 0.3)[0])
        os.set_blocking(master, False)
        try:
            while part := os.read(master, 4096): seen += part
        except BlockingIOError: pass
        print(before, asked, after, status, b"hunter2" in seen, left)
        """

    @Test(
        "A terminal is asked without showing what is typed, and shows it again afterwards, however the command ends",
        arguments: [
            ("hunter2", 0), ("interrupt", -2), ("terminate", -15), (String(repeating: "x", count: 4_095), 1),
            ("-----BEGIN hunter2", 1), ("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n", 1),
            ("one\nhunter2\n", 1), ("one\nhunter2", 1),
        ])
    func terminal(_ typed: String, _ status: Int) throws {
        let scratch = try ScratchDirectory()
        let child = try ChildProcess([
            "setsid", "--wait", "python3", "-c", Self.terminal, typed, try Relay.binary.get(), "secret", "add", "shop",
            "--directory",
            scratch.path,
        ])
        #expect(child.waitForEnd(180) == .exited(0), "\(child.errors)")
        #expect(child.output == ["True False True \(status) False False"], "\(child.output) \(child.errors)")
        let stored = try? String(contentsOfFile: scratch.path + "/shop", encoding: .utf8)
        #expect(stored == (status == 0 ? "\(typed)\n" : nil))
    }
}
