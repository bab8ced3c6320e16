import Linux
import Testing

@testable import Doctor

/// Oracle: what systemctl(1) of systemd 252 prints.
@Suite("What systemd has of the unit")
struct UnitFindingsTests {
    private static func service(_ changes: [String: String] = [:]) -> String {
        let values = [
            "Id": "posthouse.service", "LoadState": "loaded", "ActiveState": "active", "SubState": "running",
            "UnitFileState": "enabled", "FragmentPath": "/lib/systemd/system/posthouse.service", "DropInPaths": "",
            "NeedDaemonReload": "no", "NRestarts": "0", "Result": "success", "User": "posthouse", "MainPID": "42",
            "ProtectHome": "yes", "PrivateTmp": "yes",
        ].merging(changes) { $1 }
        return values.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)\n" }.joined()
    }

    private static func socket(_ changes: [String: String] = [:], listens: [String] = ["127.0.0.1:8080"]) -> String {
        let values = [
            "Id": "posthouse.socket", "LoadState": "loaded", "ActiveState": "active", "NeedDaemonReload": "no",
            "FragmentPath": "/lib/systemd/system/posthouse.socket",
        ].merging(changes) { $1 }
        let lines = listens.map { "Listen=\($0) (Stream)\n" } + values.map { "\($0.key)=\($0.value)\n" }
        return lines.joined()
    }

    private static func states(_ service: String, _ socket: String = socket()) -> [DoctorFinding.State] {
        UnitFindings.of(UnitFacts.read(service + "\n" + socket)).map(\.state)
    }

    @Test("Two units are read, with keys that come once for each value; other lines are left out")
    func reading() throws {
        let units = UnitFacts.read(
            Self.service(["DropInPaths": "/a.conf /b.conf", "NRestarts": "x"]) + "\nnot a property\n"
                + Self.socket(listens: ["127.0.0.1:8080", "/run/a=b.sock"]))
        #expect(units.map(\.id) == ["posthouse.service", "posthouse.socket"])
        let service = try #require(units.first)
        #expect(service.dropIns == ["/a.conf", "/b.conf"] && service.process == 42 && service.restarts == 0)
        #expect(
            service.hidesHome && service.hasOwnTemporaryFiles && !service.needsReload && service.user == "posthouse")
        #expect(units[1].listens == ["127.0.0.1:8080 (Stream)", "/run/a=b.sock (Stream)"])
        #expect(UnitFacts.read("").isEmpty && UnitFacts.read("\n\nLoadState=loaded\n").isEmpty)
    }

    @Test(
        "With ProtectSystem=strict a unit may write to what its settings name, and below it",
        arguments: [
            ("/var/lib/posthouse/spool", true), ("/var/lib/posthouse", true), ("/var/lib/posthouse-2", false),
            ("/srv/a/b", true), ("/srv/b", true), ("/srv/c", true), ("/srv/d", false), ("/tmp/x", true), ("/", false),
        ])
    func writing(path: String, expected: Bool) throws {
        let changes = [
            "ProtectSystem": "strict", "StateDirectory": "posthouse", "RuntimeDirectory": "posthouse",
            "ReadWritePaths": "/srv/a -/srv/b", "BindPaths": "/srv/d:/srv/c:rbind",
        ]
        let strict = try #require(UnitFacts.read(Self.service(changes)).first)
        #expect(strict.mayWrite(to: path) == expected)
        let full = try #require(UnitFacts.read(Self.service(["ProtectSystem": "full"])).first)
        #expect(full.mayWrite(to: path))
    }

    @Test("A unit that runs is fine; without systemd, or without a unit, there is a note")
    func fine() {
        #expect(Set(Self.states(Self.service())) == [.fine])
        #expect(UnitFindings.of(nil).map(\.state) == [.note])
        #expect(UnitFindings.of([]).map(\.state) == [.note])
        #expect(UnitFindings.of(UnitFacts.read(Self.service(["LoadState": "not-found"]))).map(\.state) == [.note])
    }

    @Test(
        "Each state of the service has its line",
        arguments: [
            (["ActiveState": "failed", "SubState": "failed", "Result": "exit-code"], DoctorFinding.State.wrong),
            (["ActiveState": "activating", "SubState": "auto-restart"], .wrong),
            (["ActiveState": "activating", "SubState": "start"], .note), (["ActiveState": "deactivating"], .note),
            (["ActiveState": "inactive", "SubState": "dead"], .wrong), (["NRestarts": "3"], .note),
            (["ActiveState": "reloading"], .fine), (["LoadState": "masked"], .wrong),
            (["LoadState": "bad-setting"], .wrong),
        ] as [([String: String], DoctorFinding.State)])
    func state(changes: [String: String], expected: DoctorFinding.State) {
        #expect(Self.states(Self.service(changes)).first == expected, "\(changes)")
    }

    @Test("Files that systemd has not read again are wrong, with the command that reads them; drop-ins are named")
    func changed() throws {
        let text = Self.service(["NeedDaemonReload": "yes", "DropInPaths": "/etc/x.conf"])
        let found = try #require(UnitFindings.of(UnitFacts.read(text)).first { $0.state == .wrong })
        #expect(found.text.contains("/etc/x.conf"))
        #expect(found.advice == "systemctl daemon-reload && systemctl reload posthouse")
        let disabled = UnitFindings.of(UnitFacts.read(Self.service(["UnitFileState": "disabled"])))
        #expect(disabled.contains { $0.state == .note && $0.advice == "systemctl enable posthouse" })
    }

    @Test("A socket that does not listen is worse when the daemon does not run either")
    func sockets() {
        let inactive = Self.socket(["ActiveState": "inactive"])
        #expect(Self.states(Self.service(), inactive).contains(.note))
        #expect(!Self.states(Self.service(), inactive).contains(.wrong))
        #expect(Self.states(Self.service(["ActiveState": "inactive"]), inactive).count(where: { $0 == .wrong }) == 2)
        #expect(Self.states(Self.service(), Self.socket(["ActiveState": "failed"])).contains(.wrong))
        #expect(Self.states(Self.service(), Self.socket(["NeedDaemonReload": "yes"])).contains(.wrong))
        #expect(Self.states(Self.service(), Self.socket(["LoadState": "masked"])).contains(.note))
        #expect(Self.states(Self.service(), Self.socket(["LoadState": "error"])).contains(.wrong))
    }
}
