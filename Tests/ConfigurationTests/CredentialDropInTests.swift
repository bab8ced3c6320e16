@testable import Configuration
import Testing

/// The lines that hand credentials to the daemon. What systemd makes of them is the system test's to show
/// (Tests/SystemTests/reload).
@Suite struct CredentialDropInTests {
    private static let path = "/etc/posthouse/credentials/b"

    static let units: [(text: String, expected: [String: String])] = [
        ("", [:]),
        ("[Service]\nLoadCredential=a:/x\n", ["a": "/x"]),
        ("[Service]\n  LoadCredential = a:/x  \nLoadCredentialEncrypted=b:/y", ["a": "/x", "b": "/y"]),
        ("[Unit]\nLoadCredential=a:/x\n[Install]\nLoadCredential=b:/y", [:]),
        ("[Service]\n#LoadCredential=a:/x\n;LoadCredential=b:/y\nSetCredential=c:d", [:]),
        ("[Service]\nLoadCredential=a:/x\nLoadCredential=a:/y", ["a": "/y"]),
        ("[Service]\nLoadCredential=a:/x\nLoadCredential=\nLoadCredential=b:/y", ["b": "/y"]),
        ("[Service]\nLoadCredential=a:/x\n# /etc/systemd/system/x.d/y.conf\n[Service]\nLoadCredential=", [:]),
        ("[Service]\nLoadCredential=a", ["a": "a"]),
        ("[Service]\nLoadCredential=a:/x:y", ["a": "/x:y"]),
        // As systemd.syntax(7) says: joined with a blank, comments in between left out.
        ("[Service]\nLoadCredential=\\\n# not this\n  a:/x\nUser=u\\\nLoadCredential=b:/y", ["a": "/x"]),
        ("[Service]\nEnvironment=A=\\\\\nLoadCredential=a:/x", ["a": "/x"]),
        ("[Service]\r\nLoadCredential=a:/x\r\n", ["a": "/x"]),
        ("[Service]\nLoadCredential=a:/x\\", ["a": "/x"]),
    ]

    @Test(arguments: units) func theCredentialsOfAUnit(_ text: String, _ expected: [String: String]) {
        #expect(UnitCredentials.loaded(in: text).mapValues(\.source) == expected)
    }

    @Test func aLoadedCredentialTellsItsForm() {
        let text = "[Service]\nLoadCredential=a:/x\n LoadCredentialEncrypted = b:/y\nLoadCredentialEncrypted=c"
        #expect(
            UnitCredentials.loaded(in: text) == [
                "a": LoadedCredential(source: "/x", isEncrypted: false, line: "LoadCredential=a:/x"),
                "b": LoadedCredential(source: "/y", isEncrypted: true, line: "LoadCredentialEncrypted=b:/y"),
                "c": LoadedCredential(source: "c", isEncrypted: true, line: "LoadCredentialEncrypted=c"),
            ])
    }

    /// Oracle: systemd.exec(5), ImportCredential= (systemd 254; with a new name: 256).
    @Test func whatIsImportedIsHandedOver() {
        let values = ["gone", "", "one", "shop.*", "old:new", "far.*:near."]
        let text = "[Service]\n" + values.map { "ImportCredential=\($0)\n" }.joined()
        let credentials = UnitCredentials.all(in: text)
        for name in ["one", "shop.a", "shop.", "new", "near.a"] {
            #expect(credentials.contains { $0.hands(name) { _ in false } }, "\(name)")
        }
        for name in ["gone", "one_a", "shop", "old", "far.a", "new_a"] {
            #expect(!credentials.contains { $0.hands(name) { _ in true } }, "\(name)")
        }
    }

    @Test func aDirectoryHandsOverItsFiles() {
        let credential = UnitCredential(name: "a", path: "/c")
        #expect(credential.hands("a_key") { $0 == "/c" })
        #expect(!credential.hands("a_key") { _ in false })
        #expect(!credential.hands("ab") { _ in true })
    }

    private static func decide(unit: String = "", _ dropIn: String?) -> CredentialDropIn.Decision {
        CredentialDropIn.decide(name: "b", path: path, unit: unit, dropIn: dropIn.map { Array($0.utf8) })
    }

    @Test func theFirstLineMakesTheFile() throws {
        for dropIn in [nil, ""] as [String?] {
            guard case .write(let bytes) = Self.decide(dropIn) else {
                Issue.record("nothing is written")
                continue
            }
            let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
            #expect(lines.first?.hasPrefix("# By posthouse secret add") == true)
            #expect(lines.dropFirst() == ["[Service]", "LoadCredential=b:\(Self.path)", ""])
        }
    }

    /// Drop-ins as people leave them: without a line break at the end, with another section last, in the middle of a
    /// line, or no text at all.
    static let dropIns = [
        "[Service]\nLoadCredential=a:/x\n", "[Service]\nLoadCredential=a:/x", "[Service]\n# b is below\n\n",
        "[Service]\nLoadCredential=a:/x\n[Unit]\nDescription=d\n", "# only a comment\n", "\n",
        "[Service]\nUser=u\\", "[Service]\nUser=u\\\n", "[Service]\nUser=u \\\n\n", "[Service]\r\nUser=u\r\n",
        "  [Service]  \nLoadCredential=a:/x", "[Service]\nLoadCredential=a:/x\nLoadCredential=\n",
    ]

    @Test(arguments: dropIns) func whatIsThereStaysByteForByte(_ dropIn: String) {
        guard case .write(let bytes) = Self.decide(unit: dropIn, dropIn) else {
            Issue.record("nothing is written")
            return
        }
        #expect(bytes.starts(with: Array(dropIn.utf8)))
        #expect(Array(bytes.suffix(1)) == [0x0A])
        var expected = UnitCredentials.loaded(in: dropIn).mapValues(\.source)
        expected["b"] = Self.path
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(UnitCredentials.loaded(in: text).mapValues(\.source) == expected, "\(text)")
        #expect(Self.decide(unit: "", text) == .present)
    }

    @Test func bytesThatAreNoTextStay() {
        let dropIn = Array("[Service]\n# ".utf8) + [0xFF, 0xFE, 0x0A]
        let decision = CredentialDropIn.decide(name: "b", path: Self.path, unit: "", dropIn: dropIn)
        #expect(decision == .write(dropIn + Array("LoadCredential=b:\(Self.path)\n".utf8)))
    }

    @Test func aLineThatIsThereIsEnough() {
        let line = "[Service]\nLoadCredential=b:\(Self.path)\n"
        #expect(Self.decide(unit: line, nil) == .present)
        #expect(Self.decide(unit: line, line) == .present)
        // Written, and not yet read by systemd.
        #expect(Self.decide(unit: "[Service]\nUser=u\n", line) == .present)
    }

    @Test func anotherPathIsNamed() {
        let line = "[Service]\nLoadCredential=b:/srv/b\n"
        #expect(Self.decide(unit: line, nil) == .elsewhere(path: "/srv/b"))
        #expect(Self.decide(unit: "", line) == .elsewhere(path: "/srv/b"))
    }

    /// The same path does not count: systemd would decrypt what is written in clear text.
    @Test func anEncryptedFileIsNotWritten() {
        for path in ["/etc/credstore.encrypted/b", Self.path] {
            let line = "LoadCredentialEncrypted=b:\(path)"
            #expect(Self.decide(unit: "[Service]\n\(line)\n", nil) == .encrypted(line: line))
            #expect(Self.decide(unit: "", "[Service]\n\(line)\n") == .encrypted(line: line))
        }
    }
}
