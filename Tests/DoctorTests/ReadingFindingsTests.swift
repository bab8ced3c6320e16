import Configuration
import Linux
import Testing

@testable import Doctor

/// Oracle: path_resolution(7).
@Suite("Whether the daemon's user can read a file")
struct ReadingFindingsTests {
    private static let user = SystemUser(name: "posthouse", id: 100, groupName: "posthouse", groups: [100, 7])
    private static let file = "/etc/posthouse/posthouse.toml"

    private static func directory(_ path: String, owner: UInt32 = 0, group: UInt32 = 0, mode: UInt32) -> FileStatus {
        FileStatus(path: path, kind: .directory, owner: owner, group: group, mode: mode, sizeBytes: 4_096)
    }

    private static func regular(owner: UInt32 = 0, group: UInt32 = 0, mode: UInt32) -> FileStatus {
        FileStatus(path: file, kind: .regular, owner: owner, group: group, mode: mode, sizeBytes: 9)
    }

    private static func findings(
        _ way: ReadingFindings.Way, of path: String = file, user: SystemUser = user, unit: UnitFacts? = nil
    ) -> [DoctorFinding] { ReadingFindings.of([path], user: user, unit: unit) { _ in way } }

    @Test(
        "One class of the permissions counts: the owner's, else the group's, else everyone's",
        arguments: [
            (100, 0, 0o400, true), (100, 0, 0o044, false), (0, 7, 0o040, true), (0, 7, 0o604, false),
            (0, 0, 0o004, true), (0, 0, 0o660, false), (100, 7, 0o040, false),
        ] as [(UInt32, UInt32, UInt32, Bool)])
    func classes(owner: UInt32, group: UInt32, mode: UInt32, isReadable: Bool) {
        let way = [Self.directory("/", mode: 0o755), Self.regular(owner: owner, group: group, mode: mode)]
        #expect((ReadingFindings.barrier(way, to: Self.user) == nil) == isReadable)
        let root = SystemUser(name: "root", id: 0, groupName: "root", groups: [0])
        #expect(ReadingFindings.barrier(way, to: root) == nil)
    }

    @Test("A directory needs to be passed, not read; the first that bars the way is named with its remedy")
    func directories() {
        let way = [
            Self.directory("/", mode: 0o755), Self.directory("/etc", mode: 0o711),
            Self.directory("/etc/posthouse", mode: 0o700), Self.regular(mode: 0o600),
        ]
        let found = Self.findings(.success(way))
        #expect(found.map(\.state) == [.wrong] && found[0].text.contains("it may not pass /etc/posthouse"))
        #expect(found[0].advice == "chmod o+x /etc/posthouse")
    }

    @Test(
        "The remedy opens no more than it must",
        arguments: [
            (0, 0, 0o600, "chgrp posthouse \(file) && chmod g+r \(file)"), (0, 7, 0o600, "chmod g+r \(file)"),
            (100, 0, 0o000, "chmod u+r \(file)"),
        ] as [(UInt32, UInt32, UInt32, String)])
    func remedies(owner: UInt32, group: UInt32, mode: UInt32, advice: String) {
        let way = [Self.directory("/", mode: 0o755), Self.regular(owner: owner, group: group, mode: mode)]
        #expect(Self.findings(.success(way)).map(\.advice) == [advice])
    }

    @Test("A readable file is fine; a missing one is the configuration's error; what cannot be seen is unknown")
    func others() {
        #expect(Self.findings(.success([Self.regular(mode: 0o644)])).map(\.state) == [.fine])
        #expect(Self.findings(.failure(.missing)).isEmpty, "neither fine nor wrong")
        #expect(Self.findings(.failure(.notPermitted)).map(\.state) == [.unknown])
        // A credential is handed over, not read.
        #expect(Self.findings(.failure(.notPermitted), of: "/run/credentials/posthouse.service/key").isEmpty)
    }

    @Test("The groups of the unit are the user's, too")
    func groups() throws {
        let text = "Id=posthouse.service\nGroup=posthouse\nSupplementaryGroups=root 4711 nobody-has-this-name\n"
        let unit = try #require(UnitFacts.read(text).first)
        #expect(unit.groups == ["posthouse", "root", "4711", "nobody-has-this-name"])
        #expect(Self.user.joining(["root", "4711", "nobody-has-this-name"]).groups == [100, 7, 0, 4_711])
    }

    @Test("The unit hides home directories and the machine's /tmp from the daemon")
    func hidden() throws {
        let unit = try #require(UnitFacts.read("Id=posthouse.service\nProtectHome=yes\nPrivateTmp=yes\n").first)
        let open = try #require(UnitFacts.read("Id=posthouse.service\nProtectHome=read-only\nPrivateTmp=no\n").first)
        for path in ["/home/a/x.toml", "/root/x", "/run/user/0/x", "/tmp/x", "/var/tmp/x"] {
            let way = ReadingFindings.Way.success([Self.regular(mode: 0o644)])
            #expect(Self.findings(way, of: path, unit: unit).map(\.state) == [.wrong], "\(path)")
            #expect(Self.findings(way, of: path, unit: open).map(\.state) == [.fine], "\(path)")
        }
        let beside = Self.findings(.success([Self.regular(mode: 0o644)]), of: "/tmpfiles/x", unit: unit)
        #expect(beside.map(\.state) == [.fine])
    }
}
