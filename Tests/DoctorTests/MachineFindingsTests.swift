import Linux
import Testing
import Vocabulary

@testable import Configuration
@testable import Doctor

@Suite("Socket, disk, certificates, versions and the configuration")
struct MachineFindingsTests {
    private static func socket(_ listens: String...) throws -> UnitFacts {
        let lines = listens.map { "Listen=\($0)\n" }.joined()
        return try #require(UnitFacts.read("Id=posthouse.socket\nLoadState=loaded\n" + lines).first)
    }

    private static let tcp = ListenAddress.tcp(host: "127.0.0.1", port: 8_080)

    @Test("Each address of the socket must be configured; what it lacks the daemon opens itself")
    func sockets() throws {
        func states(_ unit: UnitFacts?, _ configured: ListenAddress...) -> [DoctorFinding.State] {
            SocketFindings.of(unit, configured: configured).map(\.state)
        }
        let unix = ListenAddress.unix(path: "/run/p.sock")
        let one = try Self.socket("127.0.0.1:8080 (Stream)")
        #expect(states(one, Self.tcp) == [.fine] && states(nil, Self.tcp) == [.fine])
        let both = SocketFindings.of(one, configured: [Self.tcp, unix])
        #expect(both.map(\.state) == [.fine] && both[0].text.contains("opens unix:/run/p.sock itself"))
        #expect(states(one, unix) == [.wrong])
        #expect(try states(Self.socket("127.0.0.1:8080 (Stream)", "/run/p.sock (Stream)"), Self.tcp, unix) == [.fine])
        #expect(try states(Self.socket("127.0.0.1:8080 (Stream)", "[::]:80 (Stream)"), Self.tcp) == [.wrong])
        #expect(try states(Self.socket("[::1]:80 (Stream)"), .tcp(host: "::1", port: 80)) == [.fine])
        #expect(try states(Self.socket("127.0.0.1:8080 (Datagram)"), Self.tcp) == [.wrong])
        #expect(try states(Self.socket("@abstract (Stream)"), Self.tcp) == [.wrong])
    }

    private static let gib = 1 << 30

    @Test(
        "Space: wrong below 1 GiB or 3 %, a note below 10 GiB and 10 %",
        arguments: [
            (100 * gib, 50 * gib, DoctorFinding.State.fine), (100 * gib, 9 * gib, .note), (20 * gib, 9 * gib, .fine),
            (200 * gib, 15 * gib, .fine), (100 * gib, 3 * gib, .note), (100 * gib, 3 * gib - 1, .wrong),
            (2 * gib, gib, .fine), (2 * gib, gib - 1, .wrong), (5, 0, .wrong),
        ] as [(Int, Int, DoctorFinding.State)])
    func disk(size: Int, available: Int, expected: DoctorFinding.State) {
        let space = DiskSpace(sizeBytes: size, availableBytes: available)
        #expect(DiskFindings.of(directory: "/d", looked: "/d", space: space).map(\.state) == [expected])
    }

    @Test("A disk that cannot be seen, and that of the operator's own PostgreSQL, are unknown")
    func unseenDisk() {
        #expect(DiskFindings.of(directory: nil, looked: "", space: nil).map(\.state) == [.unknown])
        #expect(DiskFindings.of(directory: "/d", looked: "/", space: nil).map(\.state) == [.unknown])
        let empty = DiskSpace(sizeBytes: 0, availableBytes: 0)
        #expect(DiskFindings.of(directory: "/d", looked: "/d", space: empty).map(\.state) == [.unknown])
    }

    private static let day: Int64 = 86_400_000

    @Test(
        "A certificate: wrong once it has ended, a note within 21 days",
        arguments: [
            (-1, DoctorFinding.State.wrong), (0, .wrong), (1, .note), (21 * day - 1, .note), (21 * day, .fine),
            (.max / 2, .fine),
        ] as [(Int64, DoctorFinding.State)])
    func certificates(leftMilliseconds: Int64, expected: DoctorFinding.State) {
        let now = Timestamp(milliseconds: 1_800_000_000_000)
        let end = now.advanced(byMilliseconds: leftMilliseconds)
        let found = CertificateFindings.of("x", .success(end), now: now, advice: "renew it")
        #expect(found.state == expected && (found.advice == nil) == (expected == .fine))
    }

    @Test("A certificate that cannot be used is wrong, one that cannot be seen is unknown")
    func unusableCertificates() {
        let now = Timestamp(milliseconds: 0)
        #expect(CertificateFindings.of("x", .failure(.unusable("no")), now: now, advice: "a").state == .wrong)
        #expect(CertificateFindings.of("x", .failure(.unseen("no")), now: now, advice: "a").state == .unknown)
    }

    @Test("The version of the system is that of os-release(5)")
    func versions() {
        let release = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n"
        let found = VersionFindings.of(program: "0.1.0", systemd: "systemd 252 (252.39)", release: release)
        #expect(
            found.map(\.text) == ["posthouse 0.1.0, systemd 252 (252.39), Debian GNU/Linux 12 (bookworm)"])
        #expect(VersionFindings.of(program: "0.1.0", systemd: nil, release: nil).map(\.text) == ["posthouse 0.1.0"])
        #expect(VersionFindings.value("ID", in: release) == "debian")
        #expect(VersionFindings.value("ID", in: "ID='a b'") == "a b" && VersionFindings.value("X", in: release) == nil)
    }

    @Test("A configuration: fine, with warnings, with more errors than are listed")
    func configuration() {
        func findings(_ text: String) -> [DoctorFinding] {
            let reader = SecretReader(environment: { _ in nil }, readFile: { _, _ in .failure(.notFound) })
            let outcome = ConfigurationFile.checkText(
                Array(text.utf8), fileName: "p.toml", purpose: .check, reader: reader, isRoot: true)
            return ConfigurationFindings.of(outcome, path: "p.toml")
        }
        let warned = findings("")
        #expect(warned.map(\.state) == [.note] && warned[0].text.hasPrefix("p.toml: 0 sources, 0 integrations"))
        let wrong = findings((1...8).map { "x\($0) = 1\n" }.joined())
        #expect(wrong.map(\.state) == [DoctorFinding.State](repeating: .wrong, count: 6))
        #expect(wrong[0].text.contains("p.toml:1:1") && wrong[5].text == "3 further errors")
        #expect(findings("[server").map(\.state) == [.wrong])
    }

    @Test("Bytes and periods are rounded down")
    func amounts() {
        #expect(
            [0, 1_023, 1_024, 1_536, 200 << 20, 12 << 30].map(BytesText.write) == [
                "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "200 MiB", "12.0 GiB",
            ])
        #expect(
            [0, 1_250, 119_999, 120_000, 7_200_000, 172_800_000].map { PeriodText.write(milliseconds: $0) } == [
                "0.0 s", "1.2 s", "119 s", "2 min", "2 h", "2 days",
            ])
    }
}
