import Configuration
import Linux
import Testing

@testable import Doctor

@Suite("The credentials of the unit and of the configuration")
struct CredentialFindingsTests {
    private static func file(
        _ path: String, kind: FileStatus.Kind = .regular, mode: UInt32 = 0o600, sizeBytes: Int = 9
    ) -> FileStatus {
        FileStatus(path: path, kind: kind, owner: 0, group: 0, mode: mode, sizeBytes: sizeBytes)
    }

    private static func findings(
        named: [String]?, files: [String] = [], loaded: [UnitCredential],
        _ there: [String: Result<FileStatus, FileStatus.Failure>]
    ) -> [DoctorFinding] {
        CredentialFindings.of(named: named, files: files, loaded: loaded) { there[$0] ?? .failure(.missing) }
    }

    private static let a = UnitCredential(name: "a", path: "/c/a")

    /// Oracle: systemd.exec(5), systemd.syntax(7).
    @Test("Files of a unit: drop-ins add, an empty value takes back, the last line of a name counts")
    func reading() {
        let text = """
            # /lib/systemd/system/posthouse.service
            [Unit]
            LoadCredential=no:/not/here
            [Service]
            SetCredential=unit:a secret
            #LoadCredential=commented:/out
            LoadCredential=gone:/gone
            LoadCredential=

            # /etc/systemd/system/posthouse.service.d/override.conf
            [Service]
            LoadCredential = a:/etc/a:b
            LoadCredential=b:/etc/old
            LoadCredential=b:/etc/new
            LoadCredential=\\
            ; a comment in the middle
              long:/etc/long
            LoadCredential=store
            LoadCredentialEncrypted=sealed:/etc/sealed
            SetCredential=b:both
            ImportCredential=shop.*
            """
        #expect(
            UnitCredentials.all(in: text) == [
                UnitCredential(name: "a", path: "/etc/a:b"), UnitCredential(name: "b", path: "/etc/new"),
                UnitCredential(name: "long", path: "/etc/long"), UnitCredential(name: "store", path: nil),
                UnitCredential(name: "sealed", path: "/etc/sealed"), UnitCredential(name: "unit", path: nil),
                UnitCredential(name: "shop.", path: nil, isPrefix: true),
            ])
        #expect(!"\(UnitCredentials.all(in: text))".contains("a secret"))
        #expect(UnitCredentials.all(in: "").isEmpty)
    }

    @Test("All is fine where the unit hands over what the configuration names")
    func fine() {
        let found = Self.findings(
            named: ["a"], loaded: [Self.a, UnitCredential(name: "unit", path: nil)],
            ["/c/a": .success(Self.file("/c/a"))])
        #expect(found.map(\.state) == [.fine])
        #expect(Self.findings(named: [], loaded: [], [:]).isEmpty)
    }

    @Test("What the unit does not hand over is wrong, with the line to add; what nobody names is a note")
    func differences() {
        let there = ["/c/a": Result<FileStatus, FileStatus.Failure>.success(Self.file("/c/a"))]
        let missing = Self.findings(named: ["b"], loaded: [Self.a], there)
        #expect(missing.map(\.state) == [.wrong, .note])
        #expect(missing[0].advice?.contains("LoadCredential=b:/etc/posthouse/credentials/b") == true)
        // Nothing is known of a configuration that cannot be read.
        #expect(Self.findings(named: nil, loaded: [Self.a], there).isEmpty)
        // The key of a listener is named by its path.
        let key = "/run/credentials/posthouse.service/a"
        #expect(Self.findings(named: [], files: [key], loaded: [Self.a], there).map(\.state) == [.fine])
        #expect(Self.findings(named: [], files: [key], loaded: [], [:]).map(\.state) == [.wrong])
        #expect(CredentialFindings.unloaded(["a", "b"], loaded: [Self.a]) { _ in .failure(.missing) } == ["b"])
    }

    @Test("An import hands over what its glob matches")
    func imports() {
        let loaded = [UnitCredential(name: "shop.", path: nil, isPrefix: true)]
        #expect(Self.findings(named: ["shop.a"], loaded: loaded, [:]).map(\.state) == [.fine])
        #expect(Self.findings(named: ["shops"], loaded: loaded, [:]).map(\.state) == [.wrong])
    }

    @Test("A directory hands over each of its files")
    func directories() {
        let there = ["/c/a": Result<FileStatus, FileStatus.Failure>.success(Self.file("/c/a", kind: .directory))]
        #expect(Self.findings(named: ["a_key"], loaded: [Self.a], there).map(\.state) == [.fine])
        #expect(Self.findings(named: ["ab"], loaded: [Self.a], there).map(\.state) == [.wrong, .note])
    }

    @Test(
        "A credential's file is there, regular, not empty and root's alone",
        arguments: [
            (.failure(.missing), [.wrong]), (.failure(.notPermitted), [.unknown]),
            (.failure(.failed(errno: 5)), [.wrong]),
            (.success(file("/c/a", kind: .other)), [.wrong]), (.success(file("/c/a", sizeBytes: 0)), [.wrong]),
            (.success(file("/c/a", mode: 0o640)), [.note]), (.success(file("/c/a", mode: 0o604)), [.note]),
            (.success(file("/c/a", mode: 0o400)), [.fine]),
            (.success(file("/c/a", kind: .socket, mode: 0o777)), [.fine]),
        ] as [(Result<FileStatus, FileStatus.Failure>, [DoctorFinding.State])])
    func files(status: Result<FileStatus, FileStatus.Failure>, expected: [DoctorFinding.State]) {
        #expect(Self.findings(named: ["a"], loaded: [Self.a], ["/c/a": status]).map(\.state) == expected)
    }

    @Test("A path with a specifier of systemd's is not looked at")
    func specifiers() {
        let loaded = [UnitCredential(name: "a", path: "/etc/%N/a")]
        #expect(Self.findings(named: ["a"], loaded: loaded, [:]).map(\.state) == [.fine])
    }
}
