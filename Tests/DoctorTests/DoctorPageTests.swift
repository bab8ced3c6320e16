import Foundation
import Linux
import Testing
import Vocabulary

@testable import Configuration
@testable import Doctor
@testable import Ledger

@Suite("The page of doctor")
struct DoctorPageTests {
    private static let path = "/etc/posthouse/posthouse.toml"
    private static let version = "0.1.0"

    // MARK: The manual's page

    /// What the manual shows below the command.
    private static func shown() throws -> String {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "deploy/manual/posthouse-operate.7.md")
        let text = try String(contentsOf: file, encoding: .utf8)
        let start = try #require(text.firstRange(of: "$ posthouse doctor\n")).upperBound
        let end = try #require(text[start...].firstRange(of: "\n```")).lowerBound
        return String(text[start..<end])
    }

    private static func load() -> LoadOutcome {
        let text = """
            [[source]]
            name = "purchasely"
            kind = "purchasely"
            secret = { credential = "purchasely-secret" }

            [[integration]]
            name = "backend"
            url = "https://api.example.com/hooks/subscriptions"
            events = ["*"]
            secret = { credential = "backend-secret" }

            [[integration]]
            name = "crm"
            url = "https://crm.example.com/hooks/subscriptions"
            events = ["*"]
            secret = { credential = "crm-secret" }
            """
        let reader = SecretReader(environment: { _ in nil }, readFile: { _, _ in .failure(.notFound) })
        return ConfigurationFile.checkText(
            Array(text.utf8), fileName: path, purpose: .check, reader: reader, isRoot: true)
    }

    /// As `systemctl show` prints them.
    private static let units = UnitFacts.read(
        """
        Id=posthouse.service
        LoadState=loaded
        ActiveState=active
        SubState=running
        UnitFileState=enabled
        FragmentPath=/lib/systemd/system/posthouse.service
        DropInPaths=/etc/systemd/system/posthouse.service.d/override.conf
        NeedDaemonReload=yes
        NRestarts=0
        Result=success
        User=posthouse
        MainPID=1409

        Id=posthouse.socket
        LoadState=loaded
        ActiveState=active
        FragmentPath=/lib/systemd/system/posthouse.socket
        DropInPaths=
        NeedDaemonReload=no
        Listen=127.0.0.1:8080 (Stream)
        """)

    private static func file(_ path: String, mode: UInt32) -> FileStatus {
        FileStatus(path: path, kind: .regular, owner: 0, group: 0, mode: mode, sizeBytes: 44)
    }

    /// The unit hands over the secrets of the source and of the first integration.
    private static func ofSystemd(_ outcome: LoadOutcome, _ server: Configuration.Server) throws -> [DoctorFinding] {
        let loaded = ["purchasely-secret", "backend-secret"].map {
            UnitCredential(name: $0, path: "/etc/posthouse/credentials/\($0)")
        }
        let service = try #require(units.first)
        var found = UnitFindings.of(units)
        found += CredentialFindings.of(
            named: outcome.outside.credentials, files: outcome.outside.files, loaded: loaded
        ) { path in
            loaded.contains { $0.path == path } ? .success(file(path, mode: 0o600)) : .failure(.missing)
        }
        let user = SystemUser(name: "posthouse", id: 998, groupName: "posthouse", groups: [998])
        found += ReadingFindings.of([path] + outcome.outside.files, user: user, unit: service) {
            .success([file($0, mode: 0o644)])
        }
        found += SocketFindings.of(units.last, configured: [server.listen, server.apiListen].compactMap { $0 })
        return found
    }

    private static func ofDisk(_ directory: String) -> [DoctorFinding] {
        let gibibyte = Double(1 << 30)
        let space = DiskSpace(sizeBytes: Int(48.95 * gibibyte), availableBytes: Int(31.45 * gibibyte))
        return DiskFindings.of(directory: directory, looked: directory, space: space)
    }

    /// A daemon has taken up the first of the receivers alone.
    private static func ofDatabase(
        _ directory: String, _ receivers: [DeliveryFindings.Receiver], now: Timestamp
    ) -> [DoctorFinding] {
        let facts = ServerFacts(
            version: "15.14 (Debian 15.14-0+deb12u1)", role: "posthouse", isSuperuser: false,
            databaseBytes: Int(9.15 * Double(1 << 20)))
        let backend = LedgerStatus.Integration(
            name: "backend", pausedAt: nil, pauseReason: nil, breaker: nil, waiting: 0, oldestSeconds: nil,
            delivered: 0, failed: 0, lastError: nil, deadLetters: 0)
        let status = LedgerStatus(
            at: now, integrations: [backend], sources: [], answers: [:],
            daemons: [LedgerStatus.Daemon(version: version, startedAt: now)], quarantined: 0, overdue: [])
        let tables = [
            TableSize(table: "events", bytes: 128 << 10), TableSize(table: "attempts", bytes: 112 << 10),
            TableSize(table: "messages", bytes: 96 << 10), TableSize(table: "deliveries", bytes: 64 << 10),
            TableSize(table: "purchases", bytes: 56 << 10),
        ]
        var found = DatabaseFindings.server(facts, target: DatabaseFindings.target(privateCluster: directory))
        found += DatabaseFindings.clock(ClockReading(before: now, database: now, after: now))
        found += DatabaseFindings.settings(refusal: nil, advice: nil)
        found += DatabaseFindings.schema(SchemaVersion(database: 22, program: 22), unfinished: [])
        found += DatabaseFindings.privileges(facts, missing: [])
        found += DatabaseFindings.tables(tables, databaseBytes: facts.databaseBytes)
        found += DeliveryFindings.of(status, receivers: receivers)
        found += DeliveryFindings.daemons(status.daemons, version: version)
        return found
    }

    /// Oracle: posthouse-operate(7), "When something is wrong: doctor". The parts come as the command finds them.
    @Test("With the facts of the manual's page it is that page, byte for byte")
    func manual() throws {
        let outcome = Self.load()
        let configuration = try #require(outcome.configuration)
        let receivers = configuration.integrations.map {
            DeliveryFindings.Receiver(name: $0.name, host: $0.url.host)
        }
        let now = try #require(Timestamp(iso8601: "2026-11-23T10:00:00Z"))
        let ends = [
            try #require(Timestamp(iso8601: "2026-12-04T12:00:00Z")),
            try #require(Timestamp(iso8601: "2027-02-01T12:00:00Z")),
        ]
        var found = ConfigurationFindings.of(outcome, path: Self.path)
        found += try Self.ofSystemd(outcome, configuration.server)
        found += Self.ofDisk(configuration.embedded.directory)
        found += Self.ofDatabase(configuration.embedded.directory, receivers, now: now)
        found += zip(receivers, ends).map { CertificateFindings.ofReceiver($0, .success($1), now: now) }
        found += VersionFindings.of(
            program: Self.version, systemd: "systemd 252 (252.39-1~deb12u2)",
            release: "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\n")
        let page = DoctorPage.render(DoctorPage.ordered(found), width: 120)
        #expect(try page.utf8.elementsEqual(Self.shown().utf8), "\(page)")
    }

    // MARK: The page itself

    private static func lines(_ findings: [DoctorFinding], width: Int?) -> [String] {
        DoctorPage.render(findings, width: width).split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
    }

    @Test("The page: an area once, marks, advice below, lines broken at blanks, the sum at the end")
    func page() {
        let findings = [
            DoctorFinding(.unit, .fine, "one two three"),
            DoctorFinding(.unit, .wrong, "aaaa bbbb cccc dddd eeee ffff", do: "repair it"),
            DoctorFinding(.clock, .unknown, "no answer"), DoctorFinding(.versions, .note, "x"),
        ]
        #expect(
            Self.lines(findings, width: nil) == [
                "unit      ok     one two three",
                "          WRONG  aaaa bbbb cccc dddd eeee ffff",
                "                 do: repair it",
                "clock     ?      no answer",
                "versions  note   x",
                "",
                "1 wrong, 1 note, 1 unknown",
            ])
        let narrow = Self.lines(findings, width: 40)
        #expect(narrow.allSatisfy { $0.count <= 40 } && narrow.contains("                 eeee ffff"))
        let painted = DoctorPage.render([findings[0]], width: nil) { _, mark in "<\(mark)>" }
        #expect(painted.hasPrefix("unit  <ok>     one"))
    }

    /// A path or a command is there to be copied.
    @Test("A word that is longer than the line stays whole, on a line of its own")
    func longWords() {
        let word = String(repeating: "x", count: 40)
        let indent = String(repeating: " ", count: 13)
        #expect(
            Self.lines([DoctorFinding(.unit, .note, "a \(word) b", do: "\(word) c")], width: 40) == [
                "unit  note   a", indent + word, indent + "b", indent + "do: " + word, indent + "    c", "",
                "nothing is wrong, 1 note",
            ])
        #expect(
            Self.lines([DoctorFinding(.unit, .fine, "\(word) b")], width: 40) == [
                "unit  ok     " + word, indent + "b", "", "nothing is wrong",
            ])
    }

    @Test("A line is as wide as the terminal and no wider; a very narrow one still gets 20 characters of text")
    func widths() {
        // The text begins at column 13.
        let finding = DoctorFinding(.unit, .note, "aaaaaaaaa bbbbbbbbbb", do: "cccccccc ddddddd")
        let whole = [
            "unit  note   aaaaaaaaa bbbbbbbbbb", "             do: cccccccc ddddddd", "", "nothing is wrong, 1 note",
        ]
        for width in [33, 13, 1, 0] { #expect(Self.lines([finding], width: width) == whole, "\(width)") }
        let longer = DoctorFinding(.unit, .note, "aaaaaaaaa bbbbbbbbbbb", do: "cccccccc dddddddd")
        #expect(
            Self.lines([longer], width: 33) == [
                "unit  note   aaaaaaaaa", "             bbbbbbbbbbb", "             do: cccccccc",
                "                 dddddddd", "", "nothing is wrong, 1 note",
            ])
    }

    @Test("Without a width no line is broken; without a finding there is the sum alone")
    func withoutWidth() {
        let text = Array(repeating: "word", count: 200).joined(separator: " ")
        let found = Self.lines([DoctorFinding(.disk, .wrong, text, do: text)], width: nil)
        #expect(found.count == 4 && found[0].hasSuffix(text) && found[1].hasSuffix("do: " + text))
        #expect(DoctorPage.render([], width: nil) == "\nnothing is wrong")
        #expect(DoctorPage.render([], width: 80) == "\nnothing is wrong")
    }

    @Test("The sum: one note, several notes; nothing that is not there; what is fine does not count")
    func summary() {
        func sum(wrong: Int = 0, notes: Int = 0, unknown: Int = 0) -> String {
            var states: [DoctorFinding.State] = [.fine]
            states += [DoctorFinding.State](repeating: .wrong, count: wrong)
            states += [DoctorFinding.State](repeating: .note, count: notes)
            states += [DoctorFinding.State](repeating: .unknown, count: unknown)
            return DoctorPage.summary(states.map { DoctorFinding(.unit, $0, "x") })
        }
        #expect(sum() == "nothing is wrong")
        #expect(sum(notes: 1) == "nothing is wrong, 1 note" && sum(notes: 2) == "nothing is wrong, 2 notes")
        #expect(sum(wrong: 1) == "1 wrong" && sum(wrong: 2, unknown: 1) == "2 wrong, 1 unknown")
        #expect(sum(wrong: 3, notes: 1, unknown: 2) == "3 wrong, 1 note, 2 unknown")
    }

    @Test("Findings are ordered by area; those of one area stay as they were found")
    func ordered() {
        let found = [
            DoctorFinding(.versions, .fine, "1"), DoctorFinding(.database, .fine, "2"),
            DoctorFinding(.configuration, .fine, "3"), DoctorFinding(.versions, .fine, "4"),
            DoctorFinding(.database, .wrong, "5"),
        ]
        #expect(DoctorPage.ordered(found).map(\.text) == ["3", "2", "5", "1", "4"])
    }
}
