@testable import Configuration
import Testing
import Vocabulary

/// Where secrets come from, and that none of them is ever seen.
@Suite struct SecretTests {
    @Test func everyFormIsRead() throws {
        var harness = Harness()
        harness.environment = ["CREDENTIALS_DIRECTORY": "/creds", "E": "from environment"]
        harness.files = [
            "/creds/c": Harness.file("from credential\n"), "/etc/f": Harness.file("from file\r\n"),
            "conf/r": Harness.file("two newlines\n\n"), "/creds/k": Harness.file(Harness.signingKey + "\n"),
        ]
        harness.fileName = "conf/posthouse.toml"
        let text = Harness.minimal.replacing("secret = { env = \"K\" }", with: "secret = { credential = \"k\" }")
            .replacing(
                "secret = { env = \"S\" }",
                with: "secrets = [{ credential = \"c\" }, { env = \"E\" }, { file = \"/etc/f\" }, { file = \"r\" }]")
        let outcome = harness.check(text)
        let source = try #require(outcome.configuration?.sources.first, "\(outcome.render())")
        #expect(
            source.secrets
                == ["from credential", "from environment", "from file", "two newlines\n"].map {
                    Secret(Array($0.utf8))
                })
        let key = try #require(outcome.configuration?.integrations.first?.signingKeys.first)
        #expect(key == .symmetric(Secret([UInt8](repeating: 0x41, count: 32))))
    }

    static let bad: [(value: String, expected: String)] = [
        (
            "\"hunter2\"",
            "4:10 `secret` must not be in this file in clear text; write { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }"
        ),
        (
            "12345678",
            "4:10 `secret` must be { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }, not an integer"
        ),
        (
            "{ value = \"hunter2\" }",
            "4:12 `secret` must be one of { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }"
        ),
        (
            "{ credental = \"hunter2\" }",
            "4:12 `secret` must be one of { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }; did you mean `credential`?"
        ),
        ("{}", "4:10 `secret` must be one of { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }"),
        (
            "{ env = \"S\", file = \"hunter2\" }",
            "4:10 `secret` must be one of { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }"
        ),
        ("{ env = \"A=B\" }", "4:18 `env` must be the name of an environment variable"),
        ("{ credential = \"../x\" }", "4:25 `credential` must be the name of a systemd credential, without a slash"),
        (
            "{ env = \"UNSET\" }",
            "4:10 the environment variable `UNSET` cannot be read: it is not set; Environment= or EnvironmentFile= below "
                + "[Service] sets it, from a restart on (systemctl edit posthouse)"
        ),
        ("{ env = \"EMPTY\" }", "4:10 the environment variable `EMPTY` is empty; `secret` needs a secret"),
        (
            "{ file = \"/none\" }",
            "4:10 the file `/none` cannot be read: no such file; write the secret into it, or correct the path"
        ),
        (
            "{ credential = \"c\" }",
            "4:10 the credential `c` cannot be read: $CREDENTIALS_DIRECTORY is not set, as it is outside the unit"
        ),
        ("[]", "4:10 `secret` must be { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }, not an array"),
    ]

    @Test(arguments: bad) func badReferences(_ value: String, _ expected: String) {
        var harness = Harness()
        harness.environment["EMPTY"] = "\n"
        let outcome = harness.check(Harness.minimal.replacing("{ env = \"S\" }", with: value))
        #expect(Harness.places(outcome.errors) == [expected])
        #expect(!outcome.render().contains("hunter2"))
        #expect(!outcome.render().contains("12345678"))
    }

    @Test(
        "A relative path of a secret that is not there: from where it counts",
        arguments: [
            ("/etc/posthouse/posthouse.toml", "`/etc/posthouse`"), ("conf/p.toml", "`conf`"), ("/p.toml", "`/`"),
            ("p.toml", "the working directory"),
        ])
    func missingRelativeFile(_ fileName: String, _ start: String) {
        let outcome = Harness(fileName: fileName).check(
            Harness.minimal.replacing("{ env = \"S\" }", with: "{ file = \"rc\" }"))
        #expect(
            Harness.places(outcome.errors) == [
                "4:10 the file `rc` cannot be read: no such file; write the secret into it, or correct the path, which "
                    + "counts from \(start)"
            ])
    }

    @Test(
        "A token that no header can have is an error: every webhook would be answered 401",
        arguments: ["revenuecat", "adapty", "apphud", "qonversion"])
    func tokensOfHeaders(_ kind: String) {
        func outcome(_ secret: String, _ lines: String = "") -> LoadOutcome {
            Harness(environment: ["S": secret, "K": Harness.signingKey]).check(SourceTraitsTests.text(kind, lines))
        }
        let expected =
            "must be 1 to 8192 bytes without line breaks, other control characters or outer blanks: a token is the "
            + "value of a header"
        let long = String(repeating: "x", count: 8_193)
        for secret in ["hunter2\n\n", "hunter2\nhunter2", "\thunter2", "hunter2 ", long] {
            #expect(Harness.places(outcome(secret).errors) == ["4:10 `secret` \(expected)"])
            #expect(!outcome(secret).render().contains("hunter2"))
        }
        let several = SourceTraitsTests.text(kind).replacing(
            "secret = { env = \"S\" }", with: "secrets = [{ env = \"S\" }, { env = \"T\" }]")
        let rotated = Harness(environment: ["S": "a", "T": "b\n\n", "K": Harness.signingKey]).check(several)
        #expect(Harness.places(rotated.errors) == ["4:27 `secrets` \(expected)"])
        for secret in ["hunter2", "hunter2\n", "hunter2\r\n", "Basic hunter2"] {
            #expect(outcome(secret).errors.isEmpty)
        }
        // Nobody sends the secret of a signature.
        if kind == "revenuecat" { #expect(outcome("a\n\n", "auth = \"signature\"\n").errors.isEmpty) }
    }

    /// The two halves of a key whose parts belong together (Svix' server, `test_asymmetric_key_signing`).
    static let seed = "6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc="
    static let pair = "6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
    static let publicKey = "1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="

    static func zeros(_ count: Int) -> String { Base64.encode([UInt8](repeating: 0, count: count)) }

    static let keys: [(text: String, why: SigningKeyText.Failure)] =
        [
            ("plain", .unmarked), (seed, .unmarked), ("WHSK_" + seed, .unmarked),
            ("whsec_****", .base64(mark: "whsec_")), ("whsec_QUFB", .symmetricLength(3)),
            ("whsec_", .symmetricLength(0)), ("whsec_" + zeros(23), .symmetricLength(23)),
            ("whsec_" + zeros(65), .symmetricLength(65)),
            ("whsk_****", .base64(mark: "whsk_")), ("whsk_" + seed.dropLast(), .base64(mark: "whsk_")),
            ("whsk_ " + seed, .base64(mark: "whsk_")), ("whsk_" + zeros(64), .mismatch),
            ("whsk_" + Base64.encode((Base64.decode(seed) ?? []) + (Base64.decode(seed) ?? [])), .mismatch),
            ("whpk_" + publicKey, .publicKey), ("whpk_****", .publicKey),
        ] + [0, 24, 31, 33, 48, 63, 65, 96].map { ("whsk_" + zeros($0), .asymmetricLength($0)) }

    @Test(arguments: keys) func badSigningKeys(_ text: String, _ why: SigningKeyText.Failure) {
        let harness = Harness(environment: ["S": "s", "K": text])
        let outcome = harness.check(Harness.minimal)
        #expect(Harness.places(outcome.errors) == ["10:10 `secret` \(why.text)"])
        #expect(!outcome.render().contains(text) || text.count <= "whsec_".count)
    }

    @Test func bothFormsOfAnEd25519KeyAreOneKey() throws {
        let seed = Integration.SigningKey.asymmetric(seed: Secret(try #require(Base64.decode(Self.seed))))
        #expect(try SigningKeyText.read(Secret(Array("whsk_\(Self.seed)".utf8))) == seed)
        #expect(try SigningKeyText.read(Secret(Array("whsk_\(Self.pair)".utf8))) == seed)
        let publicKey = try SigningKeyText.readPublic(Secret(Array("whpk_\(Self.publicKey)".utf8)))
        #expect(publicKey == Base64.decode(Self.publicKey))
        #expect(try SigningKeyText.readPublic(Secret(Array("whsk_\(Self.seed)".utf8))) == nil)
        for count in [0, 31, 33, 64] {
            #expect(throws: SigningKeyText.Failure.publicLength(count)) {
                try SigningKeyText.readPublic(Secret(Array("whpk_\(Self.zeros(count))".utf8)))
            }
        }
        #expect(throws: SigningKeyText.Failure.base64(mark: "whpk_")) {
            try SigningKeyText.readPublic(Secret(Array("whpk_****".utf8)))
        }
    }

    /// While a secret is rotated, or the kind of it.
    @Test func severalSigningKeysOfEitherKindKeepTheirOrder() throws {
        let harness = Harness(environment: ["S": "s", "K": Harness.signingKey, "A": "whsk_\(Self.pair)\n"])
        let many = "secrets = [{ env = \"A\" }, { env = \"K\" }]"
        let outcome = harness.check(Harness.minimal.replacing("secret = { env = \"K\" }", with: many))
        #expect(outcome.errors.isEmpty, "\(outcome.render())")
        let keys = try #require(outcome.configuration?.integrations.first?.signingKeys)
        #expect(
            keys == [
                .asymmetric(seed: Secret(try #require(Base64.decode(Self.seed)))),
                .symmetric(Secret([UInt8](repeating: 0x41, count: 32))),
            ])
        let broken = Harness(environment: ["S": "s", "K": Harness.signingKey, "A": "whsk_AAAA"])
        let refused = broken.check(Harness.minimal.replacing("secret = { env = \"K\" }", with: many))
        #expect(
            Harness.places(refused.errors) == ["10:12 `secrets` \(SigningKeyText.Failure.asymmetricLength(3).text)"])
    }

    @Test(arguments: [
        ("", false), ("headers = { Authorization = { credential = \"c\" }, X-Relay = \"posthouse\" }\n", true),
        ("headers = { X-Relay = \"posthouse\" }\n", false),
    ]) func anIntegrationWithoutOneOfItsSecretsIsKnownAsIncomplete(_ lines: String, _ isIncomplete: Bool) {
        let outcome = Harness(purpose: .check).check(Harness.with(lines))
        #expect(outcome.errors.isEmpty)
        let expected: Set<String> = isIncomplete ? ["backend"] : []
        #expect(outcome.configuration?.incompleteIntegrations == expected)
        // A source's secret is not the integration's.
        let source = Harness(purpose: .check).check(
            Harness.minimal.replacing("{ env = \"S\" }", with: "{ credential = \"c\" }"))
        #expect(source.configuration?.incompleteIntegrations.isEmpty == true)
    }

    @Test func whatCheckCannotReadIsAWarningAndTheRestIsChecked() throws {
        var harness = Harness(purpose: .check, isRoot: false)
        harness.environment = [:]
        harness.files = ["/etc/f": .failure(.notPermitted)]
        let text = Harness.minimal.replacing("{ env = \"S\" }", with: "{ credential = \"c\" }")
            .replacing("{ env = \"K\" }", with: "{ file = \"/etc/f\" }")
        let outcome = harness.check(text)
        #expect(
            Harness.places(outcome.diagnostics) == [
                "4:10 the credential `c` cannot be read here: $CREDENTIALS_DIRECTORY is not set, as it is outside the unit; "
                    + "/run/credentials/UNIT is that of a unit that runs",
                "10:10 the file `/etc/f` cannot be read here: permission denied",
            ])
        #expect(outcome.errors.isEmpty)
        #expect(outcome.configuration?.sources.first?.secrets.isEmpty == true)
        #expect(outcome.configuration?.incompleteIntegrations == ["backend"])
        #expect(Harness.places(harness.check(text + "x = 1").errors) == ["11:1 unknown key `x`"])
        harness.purpose = .serve
        #expect(harness.check(text).errors.count == 2)
        // Inside the unit the directory is there, and a credential that is not is an error even of `check`.
        harness.purpose = .check
        harness.environment = ["CREDENTIALS_DIRECTORY": "/creds"]
        #expect(
            Harness.places(harness.check(text).errors) == [
                "4:10 the credential `c` cannot be read: no such file; posthouse secret add c stores it and hands it "
                    + "over"
            ])
        // A command needs no more of them than it uses.
        harness.purpose = .command
        #expect(
            Harness.places(harness.check(text).diagnostics) == [
                "4:10 the credential `c` cannot be read here: systemd hands it to the daemon, while that runs",
                "10:10 the file `/etc/f` cannot be read here: permission denied",
            ])
        #expect(harness.check(text).configuration?.incompleteIntegrations == ["backend"])
        harness.purpose = .check
        // As it is for ExecReload= where systemd shows the credentials to the daemon alone.
        harness.files["/creds/c"] = .failure(.notPermitted)
        #expect(harness.check(text).errors.isEmpty)
    }

    @Test("A command beside the daemon reads its credentials where it may; one that comes with a reload is no error")
    func credentialsOfTheDaemon() throws {
        var harness = Harness(purpose: .check, fileName: ConfigurationFile.standardPath)
        harness.daemonsCredentials = "/run/daemon"
        harness.files = ["/run/daemon/c": Harness.file("\(Harness.signingKey)\n")]
        let text = Harness.minimal.replacing("{ env = \"K\" }", with: "{ credential = \"c\" }")
        #expect(harness.check(text).diagnostics.isEmpty)
        #expect(harness.check(text).configuration?.incompleteIntegrations == [])
        harness.files = [:]
        #expect(harness.check(text).errors.isEmpty)
        #expect(harness.check(text).outside.unreadCredentials == ["c"])
        // The daemon itself has the directory that systemd tells it.
        harness.purpose = .serve
        harness.files = ["/run/daemon/c": Harness.file("\(Harness.signingKey)\n")]
        #expect(harness.check(text).errors.count == 1)
    }

    @Test("A command that runs by another file reads no credential of the daemon's: they are another ledger's")
    func credentialsOfAnotherUnit() {
        var harness = Harness(purpose: .check, fileName: "/etc/posthouse/staging.toml", isRoot: false)
        harness.daemonsCredentials = "/run/daemon"
        harness.files = ["/run/daemon/database-url": Harness.file("postgresql:///production")]
        let text = Harness.minimal + "[database]\nurl = { credential = \"database-url\" }\n"
        let outcome = harness.check(text)
        #expect(outcome.configuration != nil && outcome.configuration?.database.url == nil)
        #expect(outcome.warnings.count == 1 && outcome.render().contains("/run/credentials/UNIT"))
        harness.fileName = ConfigurationFile.standardPath
        #expect(harness.check(text).configuration?.database.url != nil)
        #expect(SecretReader.system.daemonsCredentials("/etc/posthouse/staging.toml") == nil)
    }

    @Test("A TLS key that systemd hands over is not there while no daemon runs: a warning of check, an error inside")
    func keyOfTheUnit() {
        var harness = Harness(purpose: .check)
        harness.files = ["/c.pem": Harness.file(Harness.pem)]
        let text = Harness.minimal + "\n[server]\ntls = { certificate = \"/c.pem\", key = \"/run/credentials/u/k\" }\n"
        #expect(harness.check(text).errors.isEmpty && harness.check(text).configuration != nil)
        harness.environment["CREDENTIALS_DIRECTORY"] = "/run/credentials/u"
        #expect(harness.check(text).errors.count == 1)
        harness.purpose = .command
        #expect(harness.check(text).errors.isEmpty && harness.check(text).configuration != nil)
        harness.environment["CREDENTIALS_DIRECTORY"] = nil
        harness.purpose = .serve
        #expect(harness.check(text).errors.count == 1)
    }

    @Test("A command in a unit of its own, with one credential: of the others it knows nothing, what is wrong stays so")
    func credentialsOfACommand() throws {
        var harness = Harness(purpose: .command, isRoot: false)
        harness.environment = ["CREDENTIALS_DIRECTORY": "/creds"]
        harness.files = ["/creds/database-url": Harness.file("postgresql:///posthouse\n")]
        let text =
            Harness.minimal.replacing("{ env = \"S\" }", with: "{ credential = \"c\" }")
            .replacing("{ env = \"K\" }", with: "{ file = \"/run/credentials/posthouse.service/k\" }")
            + "[database]\nurl = { credential = \"database-url\" }\ndirect_url = { credential = \"direct-url\" }\n"
        let outcome = harness.check(text)
        #expect(outcome.errors.isEmpty, "\(outcome.render())")
        let configuration = try #require(outcome.configuration)
        #expect(configuration.database.url == Secret(Array("postgresql:///posthouse".utf8)))
        #expect(configuration.database.namesDirectURL && configuration.database.directURL == nil)
        #expect(configuration.sources.map(\.name) == ["purchasely"])
        #expect(configuration.incompleteIntegrations == ["backend"])
        for purpose in [Purpose.check, .serve] {
            harness.purpose = purpose
            #expect(harness.check(text).errors.count == 3)
        }
        harness.purpose = .command
        // A file elsewhere is missing for the daemon, too.
        let elsewhere = text.replacing("/run/credentials/posthouse.service/k", with: "/etc/k")
        #expect(
            Harness.places(harness.check(elsewhere).errors) == [
                "10:10 the file `/etc/k` cannot be read: no such file; write the secret into it, or correct the path"
            ])
        harness.files["/creds/c"] = Harness.file("\n")
        #expect(
            Harness.places(harness.check(text).errors) == [
                "4:10 the credential `c` is empty; `secret` needs a secret"
            ])
    }

    @Test("Root outside the unit gets no warning for each credential: they are listed, each once")
    func credentialsThatRootCannotRead() {
        var harness = Harness(purpose: .check)
        let text = Harness.minimal.replacing("{ env = \"S\" }", with: "{ credential = \"c\" }")
            .replacing(
                "secret = { env = \"K\" }",
                with: "secrets = [{ credential = \"d\" }, { credential = \"c\" }, { credential = \"whsec_x\" }]")
        let outcome = harness.check(text)
        #expect(outcome.outside.credentials == ["c", "d"] && outcome.outside.unreadCredentials == ["c", "d"])
        // A name that looks like a secret is in no list; the warning does not show it either.
        #expect(outcome.diagnostics.count == 1 && !outcome.render().contains("whsec_x"))
        harness.environment["CREDENTIALS_DIRECTORY"] = "/creds"
        #expect(harness.check(text).outside.unreadCredentials.isEmpty)
        harness.environment["CREDENTIALS_DIRECTORY"] = nil
        harness.isRoot = false
        #expect(harness.check(text).outside.unreadCredentials.isEmpty && harness.check(text).warnings.count == 4)
        harness.purpose = .serve
        harness.isRoot = true
        #expect(harness.check(text).outside.unreadCredentials.isEmpty && harness.check(text).errors.count == 4)
    }

    @Test("The files that a configuration names are listed by their paths, also where the configuration has errors")
    func namedFiles() {
        var harness = Harness(fileName: "/etc/posthouse/posthouse.toml")
        harness.files = ["/etc/posthouse/s": Harness.file("x"), "/ca.pem": Harness.file(Harness.pem)]
        let text =
            "[server]\ntls = { certificate = \"c.pem\", key = \"/k.pem\" }\n"
            + Harness.with("ca_file = \"/ca.pem\"\n").replacing("{ env = \"S\" }", with: "{ file = \"s\" }")
        let outcome = harness.check(text)
        #expect(outcome.outside.files == ["/etc/posthouse/c.pem", "/k.pem", "/etc/posthouse/s", "/ca.pem"])
        #expect(outcome.outside.credentials.isEmpty && outcome.errors.count == 2)
        #expect(harness.check("[server").outside == OutsideReferences())
    }

    @Test func aFileForEveryoneIsAWarning() {
        var harness = Harness()
        harness.files = ["/etc/f": Harness.file("x", isReadableByOthers: true)]
        let outcome = harness.check(Harness.minimal.replacing("{ env = \"S\" }", with: "{ file = \"/etc/f\" }"))
        #expect(
            Harness.places(outcome.diagnostics)
                == ["4:10 the file `/etc/f` can be read by everyone on this machine; chmod o-r would end that"])
    }

    @Test func aDatabasePasswordIsAWarningAndNotShown() {
        for url in [
            "postgresql://u:hunter2@db/x", "postgresql://u:?hunter2@db/x", "host=db password=hunter2",
            "postgresql:///x?password=hunter2",
        ] {
            let outcome = Harness().check(Harness.minimal + "[database]\nurl = \"\(url)\"")
            #expect(outcome.warnings.count == 1 && outcome.errors.isEmpty)
            #expect(!outcome.render().contains("hunter2"))
        }
        for url in [
            "postgresql:///x", "postgresql://u@a,b/x", "postgresql://u@db:1?options=y@z", "host=db user=u passfile=/x",
        ] {
            #expect(Harness().check(Harness.minimal + "[database]\nurl = \"\(url)\"").diagnostics.isEmpty)
        }
    }

    /// Clear text in every place where a hand may put it, well-formed or not: it is in no diagnostic.
    static let slips = [
        "secert = \"hunter2\"", "tokn = \"hunter2\"\n[[source]]", "headers = { Host = \"hunter2\" }",
        "headers = { Connection = 5, A = \"hunter2\" }", "headers = \"hunter2\"", "headers = { A = [\"hunter2\"] }",
        "[[api_token]]\ntoken = \"hunter2\"\nname = \"x\"", "[unknown]\nx = { y = [\"hunter2\"], z = 1 }",
        "[server]\ntls = { password = \"hunter2\" }", "secrets = [\"hunter2\"]", "[database]\nurl = [\"hunter2\"]",
        "events2 = [\"a\", \"\"\"\nhunter2\n\"\"\"]", "password = \"hunter2", "secret2 = hunter2",
        "secrets = [\n \"hunter2\n]",
        "secret_x = thunter2", "x = \"\"\"\nhunter2\n", "x = 'whsec_hunter2", "order = \"whsec_hunter2\"",
        "order = 5 # whsec_hunter2", "sources = [{ secret = \"hunter2\" }]", "headers = { A = \" hunter2\" }",
        "headers.A = hunter2", "[database]\nurl = \"postgresql://u:hunter2@db/x\" x", "secret = 'hunter2' 'x'",
        "[[integration]]\nname = \"x\"\nurl = \"https://u:hunter2@example.com/\"",
    ]

    @Test(arguments: slips) func noSecretIsEverShown(_ slip: String) {
        var harness = Harness()
        harness.environment = ["S": "hunter2", "K": "hunter2"]
        let outcome = harness.check(Harness.with(slip))
        #expect(!outcome.errors.isEmpty)
        #expect(!outcome.render().contains("hunter2"), "\(outcome.render())")
        #expect(!outcome.render().contains("'th'"))
        #expect(!"\(outcome)".contains("hunter2"))
    }

    /// A slip of one character, or a file cut short, in a text whose secrets are in clear: still none is shown.
    @Test func noSecretIsShownOfABrokenFile() {
        let text = Harness.with("headers = { A = 5, B = \"hunter2\" }\nsecrets = [\n  \"hunter2\",\n]\n")
            .replacing("{ env = \"S\" }", with: "\"hunter2\"")
        let bytes = Array(text.utf8)
        for index in bytes.indices {
            var without = bytes
            without.remove(at: index)
            var broken = bytes
            broken[index] = UInt8(ascii: "=")
            for variant in [without, broken, Array(bytes[..<index])] {
                let rendered = Harness().check(variant).render()
                #expect(!rendered.contains("hunter"), "\(rendered)")
            }
        }
    }
}
