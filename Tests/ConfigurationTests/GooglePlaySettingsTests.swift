@testable import Configuration
import Testing
import Vocabulary

/// The keys that only Google Play's sources have. Oracle: posthouse.toml(5).
@Suite struct GooglePlaySettingsTests {
    private static let google = EndpointURL(
        isTLS: true, host: "www.googleapis.com", port: 443, target: "/oauth2/v3/certs")
    private static let publisher = EndpointURL(
        isTLS: true, host: "androidpublisher.googleapis.com", port: 443, target: "/")
    private static let account = Secret(Array("vendor secret".utf8))

    private static func settings(_ text: String, _ harness: Harness = Harness()) -> GooglePlaySettings? {
        guard case .googlePlay(let settings)? = harness.check(text).configuration?.sources.first?.settings else {
            return nil
        }
        return settings
    }

    /// The usual text with one of its lines replaced.
    private static func text(_ line: String, in place: String) -> String {
        SourceTraitsTests.text("google-play").split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.hasPrefix(place + " =") ? line : String($0) }.joined(separator: "\n")
    }

    @Test func theDefaults() throws {
        let settings = try #require(Self.settings(SourceTraitsTests.text("google-play")))
        #expect(settings.packages == ["com.example.app"])
        #expect(settings.audiences == ["https://hooks.example.com/ingest/play"])
        #expect(settings.sender == "push@example-project.iam.gserviceaccount.com")
        #expect(settings.keys == .url(Self.google, allowsPrivateAddresses: false))
        #expect(settings.api == StoreAPI(account: Self.account, url: Self.publisher, allowsPrivateAddresses: false))
        #expect(settings.accountID == .user)
    }

    @Test func itsOwnKeys() throws {
        let lines = """
            keys = { file = "keys.json" }
            api_url = "http://127.0.0.1:9"
            allow_private = true
            account_id = "anonymous"
            environment = "SANDBOX"

            """
        var harness = Harness()
        harness.fileName = "/etc/posthouse/posthouse.toml"
        harness.files = ["/etc/posthouse/keys.json": Harness.file("{}")]
        let outcome = harness.check(SourceTraitsTests.text("google-play", lines))
        #expect(outcome.diagnostics.isEmpty, "\(outcome.render())")
        let settings = try #require(Self.settings(SourceTraitsTests.text("google-play", lines), harness))
        #expect(settings.keys == .file(path: "/etc/posthouse/keys.json"))
        let local = EndpointURL(isTLS: false, host: "127.0.0.1", port: 9, target: "/")
        #expect(settings.api == StoreAPI(account: Self.account, url: local, allowsPrivateAddresses: true))
        #expect(settings.accountID == .anonymous)
        #expect(outcome.configuration?.sources.first?.defaultEnvironment == "SANDBOX")
    }

    @Test func withoutTheAPI() throws {
        let settings = try #require(Self.settings(Self.text("", in: "api")))
        #expect(settings.api == nil)
    }

    /// Whoever checks outside the unit may not see the credential; the daemon asks the API all the same.
    @Test func anAccountThatCannotBeReadHere() throws {
        var harness = Harness()
        harness.purpose = .check
        let text = Self.text("api = { credential = \"play\" }", in: "api")
        let settings = try #require(Self.settings(text, harness))
        #expect(settings.api == StoreAPI(account: nil, url: Self.publisher))
        #expect(Harness().check(text).configuration == nil)
    }

    @Test func severalAudiences() throws {
        let settings = try #require(Self.settings(Self.text("audience = [\"a\", \"b\"]", in: "audience")))
        #expect(settings.audiences == ["a", "b"])
    }

    @Test(arguments: ["packages", "audience", "sender"]) func whatItNeeds(_ key: String) {
        let errors = Harness.errors(Self.text("", in: key))
        #expect(errors.count == 1 && errors[0].hasPrefix("1:1 `[[source]]` of kind `google-play` needs `\(key)`: "))
    }

    static let slips: [(place: String, line: String, expected: String)] = [
        ("packages", "packages = []", "4:12 `packages` is empty, so no notification could be read"),
        (
            "packages", "packages = [\"com example\"]",
            "4:13 `com example` is not a package name: it has 1 to 255 of A-Z a-z 0-9 . _"
        ),
        ("audience", "audience = []", "5:12 `audience` is empty, so no webhook would be authentic"),
        ("audience", "audience = [\"\"]", "5:13 `audience` must not be empty"),
        (
            "audience", "audience = 1",
            "5:12 `audience` must be the push subscription's audience such as "
                + "\"https://example.com/ingest/play\", or an array of them, not an integer"
        ),
        (
            "sender", "sender = \"push\"",
            "6:10 `sender` must be the address of a service account such as "
                + "\"push@example-project.iam.gserviceaccount.com\", not `push`"
        ),
        (
            "api", "api = \"{}\"",
            "7:7 `api` must not be in this file in clear text; write { credential = \"…\" }, { env = \"…\" } or "
                + "{ file = \"…\" }"
        ),
        ("api", "api_url = \"https://x.example.com\"", "7:1 `api_url` means nothing without `api`; remove it"),
    ]

    @Test(arguments: slips) func slipsStandAtTheirPlace(_ place: String, _ line: String, _ expected: String) {
        #expect(Harness.errors(Self.text(line, in: place)) == [expected])
    }

    static let more: [(line: String, expected: String)] = [
        (
            "keys = \"http://keys.example.com/\"",
            "5:8 `keys` must begin with https://: whoever is on the way could decide who has access"
        ),
        ("keys = { path = \"a\" }", "5:10 unknown key `path`"),
        ("keys = { file = 1 }", "5:17 `file` must be the path of a JSON Web Key Set, not an integer"),
        ("keys = { file = \"/none\" }", "5:17 the file `/none` cannot be read: no such file"),
        ("keys = \"keys.json\"", "5:8 `keys` must be an absolute URL such as \"https://api.example.com/hooks\""),
        ("key = \"a\"", "5:1 unknown key `key`; did you mean `keys`?"),
        (
            "api_url = \"https://a.example.com/v3\"",
            "5:11 `api_url` must end after the host: the relay adds the path itself"
        ),
        ("api_url = \"https://a:b@example.com\"", "5:11 `api_url` must not hold a user name or password"),
        ("api_ulr = \"https://a.example.com\"", "5:1 unknown key `api_ulr`; did you mean `api_url`?"),
        ("allow_private = \"yes\"", "5:17 `allow_private` must be true or false, not a string"),
        (
            "account_id = \"usr\"",
            "5:14 `account_id` must be \"user\" or \"anonymous\", not `usr`; did you mean `user`?"
        ),
        (
            "account_token = \"user\"",
            "5:1 `account_token` means nothing for kind `google-play`, only for `apple`; remove it"
        ),
        (
            "secret = { env = \"S\" }",
            "5:1 `secret` means nothing for kind `google-play`, whose webhooks are signed by the store itself; remove it"
        ),
    ]

    @Test(arguments: more) func otherSlips(_ line: String, _ expected: String) {
        let errors = Harness.errors(SourceTraitsTests.text("google-play", line + "\n"))
        #expect(errors.contains { $0.hasPrefix(expected) }, "\(errors)")
    }

    @Test func whatIsInsideIsNotAskedWithoutLeave() {
        let line = "api_url = \"https://10.0.0.1\"\n"
        let warning = "5:11 `10.0.0.1` is inside: it is not asked unless `allow_private = true`"
        #expect(Harness.warnings(SourceTraitsTests.text("google-play", line)) == [warning])
        #expect(Harness.warnings(SourceTraitsTests.text("google-play", line + "allow_private = true\n")).isEmpty)
    }

    @Test(arguments: ["packages = [\"a.b\"]", "keys = \"https://a.example.com/\"", "api = { env = \"S\" }"])
    func othersHaveNone(_ line: String) {
        let key = line.prefix { $0 != " " }
        #expect(
            Harness.errors(SourceTraitsTests.text("stripe", line + "\n"))
                == ["5:1 `\(key)` means nothing for kind `stripe`, only for `google-play`; remove it"])
    }

    @Test func itsFilesAndSecretsAreNamed() throws {
        let text = SourceTraitsTests.text("google-play").replacing(
            "api = { env = \"S\" }", with: "api = { credential = \"play-service-account\" }")
        let fileName = "/etc/posthouse/posthouse.toml"
        let named = try #require(SecretReferences.named(in: Array(text.utf8), fileName: fileName))
        let expected = NamedSecret(place: .credential("play-service-account"), user: "source purchasely api")
        #expect(named.contains(expected))
    }
}
