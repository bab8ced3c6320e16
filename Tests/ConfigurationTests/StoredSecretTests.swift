@testable import Configuration
import Testing
import Vocabulary

/// What `posthouse secret` stores: its name, its text, a key made for it, and the place.
@Suite struct StoredSecretTests {
    private static func secret(_ text: String) -> Secret { Secret(Array(text.utf8)) }
    private static func text(_ secret: Secret) -> String { secret.withBytes { String(decoding: $0, as: UTF8.self) } }

    @Test func aNameIsPlain() {
        for name in ["a", "backend-secret", "_x", "A.b_c-1", "9", String(repeating: "n", count: 128)] {
            #expect(SecretName.isValid(name), "\(name)")
        }
        for name in [
            "", ".", "..", ".hidden", "-x", "a/b", "a b", "a:b", "a%b", "ä", "a\n", "a\0", "whsec_AAAA", "x-whsk_A",
            String(repeating: "n", count: 129),
        ] { #expect(!SecretName.isValid(name), "\(name)") }
    }

    /// The configuration takes every name that may be stored.
    @Test func aStoredNameIsACredentialOfTheConfiguration() {
        for name in ["a", "A.b_c-1", String(repeating: "n", count: SecretName.bytesMax)] {
            var harness = Harness()
            harness.environment["CREDENTIALS_DIRECTORY"] = "/creds"
            harness.files = ["/creds/\(name)": Harness.file("x\n")]
            let text = Harness.minimal.replacing("{ env = \"S\" }", with: "{ credential = \"\(name)\" }")
            #expect(harness.check(text).diagnostics.isEmpty, "\(name)")
        }
    }

    @Test func oneLineBreakIsTakenAway() throws {
        for (given, expected) in [
            ("x", "x"), ("x\n", "x"), ("x\r\n", "x"), ("x\n\n", "x\n"), (" x ", " x "), ("x\r", "x"),
            ("x\r\r\n", "x"),
            ("-----BEGIN\nA\n-----END\n", "-----BEGIN\nA\n-----END"),
        ] {
            let secret = try SecretText.read(Array(given.utf8))
            #expect(Self.text(secret) == expected)
            // The daemon reads from the file what was handed in.
            #expect(try SecretText.read(SecretText.file(secret)) == secret)
        }
    }

    @Test func whatIsNoSecretIsRefused() {
        for text in ["", "\n", "\r\n", " ", " \t\n", "\n\n"] {
            #expect(throws: SecretText.Refusal.empty) { try SecretText.read(Array(text.utf8)) }
        }
        #expect(throws: SecretText.Refusal.zeroByte) { try SecretText.read([0x61, 0, 0x62]) }
        let most = [UInt8](repeating: 0x61, count: SecretText.bytesMax)
        #expect((try? SecretText.read(most)) == Secret(most))
        #expect((try? SecretText.read(most + [0x0A])) == Secret(most))
        #expect(throws: SecretText.Refusal.tooLong) { try SecretText.read(most + [0x61]) }
        #expect(SecretText.file(Secret(most)).count == ConfigurationLimits.secretBytesMax)
    }

    @Test(arguments: SigningKeyKind.allCases) func aMadeKeyIsRead(_ kind: SigningKeyKind) throws {
        let made = SigningKeyText.make(kind)
        #expect(Self.text(made).hasPrefix("\(kind.rawValue)_"))
        #expect(made != SigningKeyText.make(kind))
        #expect(SigningKeyText.problem(of: made) == nil)
        switch try SigningKeyText.read(made) {
        case .symmetric(let key):
            let count = key.withBytes { $0.count }
            #expect(kind == .whsec && count == 32)
            #expect(SigningKeyText.publicText(of: made) == nil)
        case .asymmetric(let seed):
            let count = seed.withBytes { $0.count }
            #expect(kind == .whsk && count == 32)
            let half = try #require(SigningKeyText.publicText(of: made))
            #expect(try SigningKeyText.readPublic(Self.secret(half))?.count == 32)
        }
    }

    /// Against a pair whose halves another program made (`SecretTests`).
    @Test func thePublicHalfIsThatOfTheSeed() {
        for text in [SecretTests.seed, SecretTests.pair] {
            let half = SigningKeyText.publicText(of: Self.secret("whsk_\(text)"))
            #expect(half == "whpk_\(SecretTests.publicKey)")
        }
        for text in ["x", "whsk_AAAA", "whpk_\(SecretTests.publicKey)", Harness.signingKey] {
            #expect(SigningKeyText.publicText(of: Self.secret(text)) == nil)
        }
    }

    @Test func onlyATextWithAMarkHasAFlaw() {
        #expect(SigningKeyText.problem(of: Self.secret("anything")) == nil)
        #expect(SigningKeyText.problem(of: Self.secret(Harness.signingKey)) == nil)
        #expect(SigningKeyText.problem(of: Self.secret("whsec_QUFB")) == .symmetricLength(3))
        #expect(SigningKeyText.problem(of: Self.secret("whpk_\(SecretTests.publicKey)")) == .publicKey)
    }

    private static func place(
        isRoot: Bool = true, hasSystemd: Bool = true, _ directory: String? = nil, from working: String = "/home/ann"
    ) -> SecretLocation? {
        try? SecretLocation.choose(
            isRoot: isRoot, hasSystemd: hasSystemd, directory: directory, workingDirectory: working,
            unit: "posthouse.service")
    }

    @Test func rootWithSystemdStoresCredentials() {
        let place = Self.place()
        #expect(place?.directory == "/etc/posthouse/credentials")
        #expect(place?.unit?.dropIn == "/etc/systemd/system/posthouse.service.d/credentials.conf")
        #expect(place?.path("x") == "/etc/posthouse/credentials/x")
        #expect(place?.reference("x") == #"{ credential = "x" }"#)
    }

    @Test func rootWithoutSystemdStoresFiles() {
        let place = Self.place(hasSystemd: false)
        #expect(place?.unit == nil)
        #expect(place?.reference("x") == #"{ file = "/etc/posthouse/credentials/x" }"#)
    }

    @Test(arguments: [true, false]) func othersNameADirectory(_ hasSystemd: Bool) {
        #expect(throws: SecretLocation.Refusal.notRoot) {
            try SecretLocation.choose(
                isRoot: false, hasSystemd: hasSystemd, directory: nil, workingDirectory: "/", unit: "posthouse.service")
        }
        for isRoot in [true, false] {
            let place = Self.place(isRoot: isRoot, hasSystemd: hasSystemd, "/srv/s/")
            #expect(place?.unit == nil && place?.directory == "/srv/s")
        }
    }

    @Test func aRelativeDirectoryCountsFromTheWorkingOne() {
        #expect(Self.place("s")?.directory == "/home/ann/s")
        #expect(Self.place("s//", from: "/")?.directory == "/s")
        #expect(Self.place("/")?.path("x") == "/x")
        #expect(Self.place(".", from: "/home//ann/")?.path("x") == "/home/ann/x")
        #expect(Self.place("./s/./t/.")?.directory == "/home/ann/s/t")
        #expect(Self.place("../s")?.directory == "/home/ann/../s")
        #expect(Self.place(#"a"b\c"#)?.reference("x") == #"{ file = "/home/ann/a\"b\\c/x" }"#)
    }

    @Test func aKeyInPEMIsNamedByItsPath() {
        #expect(Self.place()?.keyReference("x") == #"key = "/run/credentials/posthouse.service/x""#)
        #expect(Self.place("/srv")?.keyReference("x") == #"key = "/srv/x""#)
        for text in ["-----BEGIN PRIVATE KEY-----\nA\n", "\n -----BEGIN CERTIFICATE-----"] {
            #expect(SecretText.isPEM(Self.secret(text)), "\(text)")
        }
        for text in ["", "-----", "x-----BEGIN", Harness.signingKey] {
            #expect(!SecretText.isPEM(Self.secret(text)), "\(text)")
        }
    }

    @Test func aUnitIsAService() {
        #expect(SecretLocation.unitName("posthouse") == "posthouse.service")
        #expect(SecretLocation.unitName("posthouse.service") == "posthouse.service")
        #expect(SecretLocation.unitName("posthouse@eu") == "posthouse@eu.service")
        for name in ["", ".service", "-x", ".x", "a/b", "../x", "a b", "ä", String(repeating: "n", count: 248)] {
            #expect(SecretLocation.unitName(name) == nil, "\(name)")
        }
    }
}
