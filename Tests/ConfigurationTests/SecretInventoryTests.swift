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

    /// - Parameter links: real paths by the paths that lead to them.
    private static func list(
        unit: Bool = true, stored: [String], handedOver: [String: String?]?, imported: String? = nil,
        named: [NamedSecret]?, there: Set<String> = [], hidden: Set<String> = [], directories: Set<String> = [],
        links: [String: String] = [:]
    ) throws -> [String] {
        let place = try SecretLocation.choose(
            isRoot: true, hasSystemd: unit, directory: nil, workingDirectory: "/", unit: "posthouse.service")
        let paths = there.union(stored.map(place.path))
        var credentials = handedOver?.map { UnitCredential(name: $0.key, path: $0.value) }
        if let imported { credentials?.append(UnitCredential(name: imported, path: nil, isPrefix: true)) }
        let secrets = SecretInventory.list(
            place, stored: stored, handedOver: credentials, named: named,
            look: { path in
                if hidden.contains(path) { return .hidden }
                if directories.contains(path) {
                    return .found(ListedSecret.Facts(ageSeconds: 7, mode: nil, isDirectory: true))
                }
                return paths.contains(path) ? .found(ListedSecret.Facts(ageSeconds: 7, mode: 0o600)) : .missing
            }, realPath: { links[$0] ?? $0 })
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
                "tls-key": "/srv/tls-key", "own": nil,
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
    }

    @Test func withoutAUnitNobodyKnowsWhatACredentialIs() throws {
        let named = [NamedSecret(place: .credential("a"), user: "source x")]
        let listed = try Self.list(unit: false, stored: [], handedOver: nil, named: named)
        #expect(listed == ["a: unknown, no file, source x"])
    }

    @Test func whatCannotBeSeenIsUnknown() throws {
        let named = [
            NamedSecret(place: .file("/srv/token"), user: "api_token app"),
            NamedSecret(place: .credential("a"), user: "source x"),
        ]
        let listed = try Self.list(
            stored: ["b"], handedOver: ["a": "/srv/a", "b": Self.credential("b"), "c": "/etc/%N/c"], named: named,
            hidden: ["/srv/token", "/srv/a", Self.credential("b"), "/etc/%N/c"])
        #expect(
            listed == [
                "b: unknown, no file, ", "a: unknown, no file, source x", "c: unknown, no file, ",
                "/srv/token: unknown, no file, api_token app",
            ])
    }

    /// Oracle: systemd.exec(5), LoadCredential= of a directory, SetCredential=, ImportCredential=.
    @Test func everyLineOfTheUnitHandsOver() throws {
        let named = ["set", "app_key", "app_gone", "shop.a", "shops"].map {
            NamedSecret(place: .credential($0), user: "source \($0)")
        }
        let listed = try Self.list(
            stored: [], handedOver: ["set": nil, "app": "/srv/app"], imported: "shop.", named: named,
            there: ["/srv/app/key"], directories: ["/srv/app"])
        #expect(
            listed == [
                "app_gone: missing, no file, source app_gone", "app_key: ready, file, source app_key",
                "set: ready, no file, source set", "shop.a: ready, no file, source shop.a",
                "shops: missing, no file, source shops",
            ])
        let stored = try Self.list(
            stored: ["key"], handedOver: ["app": "/etc/posthouse/credentials"],
            named: named.filter { $0.user.hasSuffix("app_key") },
            directories: ["/etc/posthouse/credentials"])
        #expect(stored == ["key: ready, file, source app_key"])
    }

    @Test func twoPathsOfOneFileAreOneSecret() throws {
        let named = [
            NamedSecret(place: .file("/home/ann/secrets/../s/a"), user: "source x"),
            NamedSecret(place: .file("/link/b"), user: "source y"),
            NamedSecret(place: .file("/srv/b"), user: "source z"),
        ]
        let listed = try Self.list(
            unit: false, stored: ["a"], handedOver: nil, named: named, there: ["/link/b", "/srv/b"],
            links: ["/home/ann/secrets/../s/a": Self.credential("a"), "/link/b": "/srv/b"])
        #expect(listed == ["a: ready, file, source x", "/link/b: ready, file, source y+source z"])
        let dotted = Self.named("[database]\nurl = { file = \"./s//url\" }", "/etc/./posthouse/posthouse.toml")
        #expect(dotted == [NamedSecret(place: .file("/etc/posthouse/s/url"), user: "database url")])
    }

    /// A secret that was written where its name belongs.
    @Test func whatLooksLikeASecretIsNotShown() throws {
        let named = try #require(
            Self.named(
                """
                [[source]]
                name = "whsec_user"
                secrets = [{ credential = "whsec_one" }, { file = "whsk_two" }, { file = "/srv/whsec_three" }]
                """))
        for (unit, handedOver) in [(true, ["whsk_four": "/srv/whsk_four"]), (false, nil)]
            as [(Bool, [String: String?]?)]
        {
            let listed = try Self.list(unit: unit, stored: ["whsec_five"], handedOver: handedOver, named: named)
            let text = listed.joined(separator: "\n")
            #expect(!text.contains("whsec_") && !text.contains("whsk_"), "\(text)")
            #expect(listed.count == (unit ? 5 : 4) && text.contains("(not shown): missing"), "\(text)")
        }
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
        #expect(listed == ["a: ready, file, source x", "b: unknown, file, source y", "c: ready, file, "])
    }

    @Test func withoutAConfigurationNobodyKnowsTheUse() throws {
        #expect(try Self.list(stored: ["a"], handedOver: [:], named: nil) == ["a: ready, file, ?"])
    }
}
