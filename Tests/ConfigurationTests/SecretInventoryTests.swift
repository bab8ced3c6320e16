@testable import Configuration
import Testing

/// What `posthouse secret list` lists.
@Suite struct SecretInventoryTests {
    private static let configuration = """
        [server]
        tls = { certificate = "tls.crt", key = "/run/credentials/posthouse.service/tls-key" }
        [database]
        url = { file = "url" }
        [[source]]
        name = "shop"
        secrets = [{ credential = "shop" }, { credential = "shop-old" }, { env = "SHOP" }]
        [[integration]]
        name = "backend"
        secret = { credential = "backend" }
        headers = { Authorization = { credential = "shop" }, X-Relay = "posthouse" }
        [[integration]]
        secret = "whsec_in-clear-text"
        [[api_token]]
        name = "app"
        token = { file = "/srv/token" }
        [unknown]
        secret = { credential = "never" }
        """

    private static func named(_ text: String, _ fileName: String = "/etc/posthouse/posthouse.toml") -> [NamedSecret]? {
        SecretReferences.named(in: Array(text.utf8), fileName: fileName)
    }

    @Test func aConfigurationNamesSecrets() {
        #expect(
            Self.named(Self.configuration) == [
                NamedSecret(place: .credential("tls-key"), user: "server tls"),
                NamedSecret(place: .file("/etc/posthouse/url"), user: "database url"),
                NamedSecret(place: .credential("shop"), user: "source shop"),
                NamedSecret(place: .credential("shop-old"), user: "source shop"),
                NamedSecret(place: .credential("backend"), user: "integration backend"),
                NamedSecret(place: .credential("shop"), user: "integration backend headers"),
                NamedSecret(place: .file("/srv/token"), user: "api_token app"),
            ])
        #expect(Self.named("") == [])
        #expect(Self.named("no TOML") == nil)
        #expect(Self.named("source = 5\n[[integration]]\nsecret = 5\nsecrets = [{}]\nheaders = [1]") == [])
        #expect(Self.named("[server]\ntls = 5\n[database]\nurl = { file = 5 }") == [])
    }

    private static func list(
        unit: Bool = true, stored: [String], handedOver: [String: String]?, named: [NamedSecret]?,
        there: Set<String> = []
    ) throws -> [String] {
        let place = try SecretPlace.choose(
            isRoot: true, hasSystemd: unit, directory: nil, workingDirectory: "/", unit: "posthouse.service")
        let paths = there.union(stored.map(place.path))
        let secrets = SecretInventory.list(place, stored: stored, handedOver: handedOver, named: named) { path in
            paths.contains(path) ? ListedSecret.Facts(ageSeconds: 7, mode: 0o600) : nil
        }
        return secrets.map { secret in
            let facts = secret.facts == nil ? "no file" : "file"
            let users = secret.usedBy.map { $0.joined(separator: "+") } ?? "?"
            return "\(secret.name): \(secret.state.rawValue), \(facts), \(users)"
        }
    }

    private static func credential(_ name: String) -> String { "/etc/posthouse/credentials/\(name)" }

    @Test func eachSecretIsListedOnceWithAllThatUseIt() throws {
        let listed = try Self.list(
            stored: ["shop", "backend", "spare"],
            handedOver: [
                "shop": Self.credential("shop"), "shop-old": Self.credential("shop-old"), "spare": "/srv/spare",
                "tls-key": "/srv/tls-key", "own": "own",
            ],
            named: Self.named(Self.configuration), there: ["/srv/tls-key", "/etc/posthouse/url"])
        #expect(
            listed == [
                "backend: not_handed_over, file, integration backend",
                "shop: ready, file, source shop+integration backend headers",
                "spare: ready, file, ",
                "own: ready, no file, ",
                "shop-old: missing, no file, source shop",
                "spare: missing, no file, ",
                "tls-key: ready, file, server tls",
                "/etc/posthouse/url: ready, file, database url",
                "/srv/token: missing, no file, api_token app",
            ])
    }

    @Test func aCredentialFromNowhereIsMissing() throws {
        let named = [
            NamedSecret(place: .credential("b"), user: "source y"),
            NamedSecret(place: .credential("a"), user: "source x"),
            NamedSecret(place: .credential("a"), user: "source x"),
        ]
        let expected = ["a: missing, no file, source x", "b: missing, no file, source y"]
        #expect(try Self.list(stored: [], handedOver: [:], named: named) == expected)
        #expect(try Self.list(unit: false, stored: [], handedOver: nil, named: named) == expected)
    }

    @Test func aFileOfTheUnitMayHaveAnotherNameThanItsCredential() throws {
        let named = [NamedSecret(place: .credential("shop"), user: "source shop")]
        let listed = try Self.list(
            stored: ["shop-2026"], handedOver: ["shop": Self.credential("shop-2026")], named: named)
        #expect(listed == ["shop-2026: ready, file, source shop"])
    }

    @Test func withoutAUnitAFileIsUsedByItsPathOrItsName() throws {
        let named = [
            NamedSecret(place: .file(Self.credential("a")), user: "source x"),
            NamedSecret(place: .credential("b"), user: "source y"),
        ]
        let listed = try Self.list(unit: false, stored: ["a", "b", "c"], handedOver: nil, named: named)
        #expect(listed == ["a: ready, file, source x", "b: ready, file, source y", "c: ready, file, "])
    }

    @Test func withoutAConfigurationNobodyKnowsTheUse() throws {
        #expect(try Self.list(stored: ["a"], handedOver: [:], named: nil) == ["a: ready, file, ?"])
    }
}
