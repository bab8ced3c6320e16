@testable import Configuration
import Testing
import Vocabulary

/// What each kind of source may say. The oracle is the table here, written from posthouse-sources(7), "Kinds", and not
/// from `SourceKind.traits`.
@Suite struct SourceTraitsTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let kind: String
        /// The default first.
        let auths: [String]
        let ownerships: [String]
        var restores = false
        var merges = false
        var renames = false
        var hasSecret = true
        var freshness: Duration?
        var spools = false
        var testDescription: String { kind }
    }

    static let rows = [
        Row(kind: "purchasely", auths: ["signature", "none"], ownerships: ["exclusive"]),
        Row(
            kind: "qonversion", auths: ["token", "none"], ownerships: ["install_and_identity", "exclusive"],
            restores: true, renames: true),
        Row(kind: "apphud", auths: ["token", "none"], ownerships: ["exclusive"], spools: true),
        Row(kind: "revenuecat", auths: ["token", "signature", "none"], ownerships: ["exclusive"]),
        Row(kind: "adapty", auths: ["token", "none"], ownerships: ["exclusive"], renames: true),
        Row(kind: "sessions", auths: ["signature", "none"], ownerships: ["exclusive"], merges: true),
        Row(kind: "apple", auths: ["signature"], ownerships: ["exclusive"], hasSecret: false),
        Row(kind: "google-play", auths: ["token"], ownerships: ["exclusive"], hasSecret: false),
        Row(kind: "stripe", auths: ["signature", "none"], ownerships: ["exclusive"], freshness: .seconds(300)),
    ]

    /// A source of a kind, with the keys that it needs in four lines (Google Play's others come last), and more lines
    /// after them.
    static func text(_ kind: String, _ lines: String = "") -> String {
        let isGoogle = kind == "google-play"
        let text = Harness.with(source: lines + (isGoogle ? moreOfGoogle : ""))
            .replacing("kind = \"purchasely\"", with: "kind = \"\(kind)\"")
        guard isGoogle || kind == "apple" else { return text }
        let apps = isGoogle ? "packages = [\"com.example.app\"]" : "bundle_ids = [\"com.example.app\"]"
        return text.replacing("secret = { env = \"S\" }", with: apps, maxReplacements: 1)
    }

    private static let moreOfGoogle = """
        audience = "https://hooks.example.com/ingest/play"
        sender = "push@example-project.iam.gserviceaccount.com"
        api = { env = "S" }

        """

    static func check(_ kind: String, _ lines: String = "") -> LoadOutcome { Harness().check(text(kind, lines)) }

    @Test func everyKindHasARow() {
        #expect(Self.rows.map(\.kind) == SourceKind.allCases.map(\.rawValue))
    }

    @Test(arguments: rows) func theDefaults(_ row: Row) throws {
        let outcome = Self.check(row.kind)
        #expect(outcome.diagnostics.isEmpty, "\(outcome.render())")
        let source = try #require(outcome.configuration?.sources.first)
        #expect(source.kind.rawValue == row.kind)
        #expect(source.authentication.rawValue == row.auths.first)
        #expect(source.ownership.rawValue == row.ownerships.first)
        #expect(source.freshness == row.freshness && source.secrets.isEmpty == !row.hasSecret)
        #expect(source.spooling == (row.spools ? .whereItCan : .off))
        for (text, spooling) in [("true", Spooling.required), ("false", .off)] {
            let stated = try #require(Self.check(row.kind, "spool = \(text)\n").configuration?.sources.first)
            #expect(stated.spooling == spooling)
        }
        #expect(source.restore == .transfer && !source.merges && source.renamedEvents.isEmpty)
    }

    @Test(arguments: rows) func authentications(_ row: Row) {
        for auth in ["signature", "token", "none"] {
            let outcome = Self.check(row.kind, "auth = \"\(auth)\"\n")
            if row.auths.contains(auth) {
                #expect(outcome.configuration?.sources.first?.authentication.rawValue == auth)
                #expect(outcome.warnings.count == (auth == "none" ? 1 : 0))
            } else {
                let words = row.auths.map { "\"\($0)\"" }.joined(separator: " or ")
                #expect(
                    Harness.places(outcome.diagnostics)
                        == ["5:8 `auth` of kind `\(row.kind)` must be \(words), not \"\(auth)\""])
            }
        }
    }

    @Test(arguments: rows) func ownerships(_ row: Row) {
        for ownership in ["exclusive", "install_and_identity"] {
            let outcome = Self.check(row.kind, "ownership = \"\(ownership)\"\n")
            if row.ownerships.contains(ownership) {
                #expect(outcome.configuration?.sources.first?.ownership.rawValue == ownership)
                #expect(outcome.diagnostics.isEmpty)
            } else {
                #expect(
                    Harness.places(outcome.diagnostics)
                        == ["5:13 `ownership` of kind `\(row.kind)` must be \"exclusive\", not \"\(ownership)\""])
            }
        }
    }

    @Test(arguments: rows) func keysThatMeanNothing(_ row: Row) throws {
        let keys: [(line: String, means: Bool, only: String)] = [
            ("restore = \"copy\"", row.restores, "`qonversion`"), ("merge = true", row.merges, "`sessions`"),
            ("event_names = { \"a\" = \"b\" }", row.renames, "`qonversion` and `adapty`"),
        ]
        for (line, means, only) in keys {
            let outcome = Self.check(row.kind, line + "\n")
            let key = try #require(line.split(separator: " ").first)
            if means {
                #expect(outcome.diagnostics.isEmpty, "\(outcome.render())")
                let source = try #require(outcome.configuration?.sources.first)
                switch key {
                case "restore": #expect(source.restore == .copy)
                case "merge": #expect(source.merges)
                default: #expect(source.renamedEvents == ["a": "b"])
                }
            } else {
                #expect(
                    Harness.places(outcome.diagnostics)
                        == ["5:1 `\(key)` means nothing for kind `\(row.kind)`, only for \(only); remove it"])
            }
        }
    }

    static let slips: [(kind: String, lines: String, expected: String)] = [
        (
            "qonversion", "ownership = \"exclusive\"\nrestore = \"copy\"",
            "6:1 `restore` means nothing with `ownership = \"exclusive\"`, where a purchase has one holder; remove it"
        ),
        (
            "qonversion", "restore = \"copi\"",
            "5:11 `restore` must be \"transfer\" or \"copy\", not `copi`; did you mean `copy`?"
        ),
        (
            "purchasely", "ownership = \"exclusiv\"",
            "5:13 `ownership` must be \"exclusive\" or \"install_and_identity\", not `exclusiv`; did you mean `exclusive`?"
        ),
        (
            "purchasely", "auth = \"signed\"",
            "5:8 `auth` must be \"signature\", \"token\" or \"none\", not `signed`"
        ),
        (
            "adapty", "freshness = \"5m\"",
            "5:13 `freshness` means nothing with `auth = \"token\"`: such a webhook does not say when it was signed; "
                + "remove it"
        ),
        ("sessions", "merge = \"yes\"", "5:9 `merge` must be true or false, not a string"),
        (
            "qonversion", "event_names = [\"a\"]",
            "5:15 `event_names` must be a table from names that are sent to the platform's own such as "
                + "{ \"my_trial\" = \"trial_started\" }, not an array"
        ),
        (
            "qonversion", "event_names = { a = \"b\", c = 1 }",
            "5:30 `event_names` must be a table from names that are sent to the platform's own such as "
                + "{ \"my_trial\" = \"trial_started\" }; this is an integer"
        ),
        ("qonversion", "event_names = { a = \"\" }", "5:21 `event_names` must not be empty"),
        ("qonversion", "event_names = { \"\" = \"b\" }", "5:17 `event_names` must not be empty"),
        ("qonversion", "event_names = { \"a\\u0000\" = \"b\" }", "5:17 `event_names` must not hold control characters"),
        (
            "qonversion", "[source.event_names]\na = \"b\"\napp = \"com.example\"",
            "7:1 `app` is a key of `[[source]]`: write it above `event_names`"
        ),
    ]

    @Test(arguments: slips) func slipsStandAtTheirPlace(_ kind: String, _ lines: String, _ expected: String) {
        #expect(Harness.places(Self.check(kind, lines + "\n").diagnostics) == [expected])
    }

    /// Of an unknown kind nothing is known: one error, and keys that some kind has are none.
    @Test func anUnknownKindIsOneError() {
        let lines = "auth = \"token\"\nownership = \"install_and_identity\"\nrestore = \"copy\"\nmerge = true\n"
        #expect(Self.check("stripey", lines + "event_names = { a = \"b\" }\n").errors.count == 1)
        #expect(Self.check("stripey", "merge = 1\n").errors.count == 2)
    }

    @Test func freshnessGoesWithASignature() {
        #expect(Self.check("adapty", "freshness = \"off\"\n").diagnostics.isEmpty)
        #expect(Self.check("revenuecat", "freshness = \"5m\"\n").errors.count == 1)
        let signed = Self.check("revenuecat", "freshness = \"5m\"\nauth = \"signature\"\n")
        #expect(signed.configuration?.sources.first?.freshness == .seconds(300))
        #expect(Self.check("adapty", "freshness = \"5m\"\nauth = \"none\"\n").errors.isEmpty)
    }

    @Test func leewayIsADurationOrOff() {
        func leeway(_ line: String, kind: String = "purchasely") -> Leeway? {
            Self.check(kind, line).configuration?.sources.first?.leeway
        }
        #expect(leeway("") == .lasting(86_400_000) && leeway("leeway = \"off\"\n") == .off)
        #expect(leeway("leeway = \"0s\"\n") == .lasting(0) && leeway("leeway = \"90m\"\n") == .lasting(5_400_000))
        #expect(leeway("leeway = \"250ms\"\n", kind: "stripe") == .lasting(250))
        // Google's store says nothing for up to two days.
        #expect(leeway("", kind: "google-play") == .lasting(259_200_000))
        for wrong in ["\"-1s\"", "\"366d\"", "\"never\"", "true", "5"] {
            #expect(Self.check("apple", "leeway = \(wrong)\n").errors.count == 1, "\(wrong)")
        }
    }

    @Test func eventNamesAreBoundedAndMayBeManyLines() throws {
        let table = Self.check("qonversion", "[source.event_names]\n\"My trial\" = \"trial_started\"\nb = \"c\"\n")
        #expect(
            table.configuration?.sources.first?.renamedEvents == ["My trial": "trial_started", "b": "c"],
            "\(table.render())")
        let many = (0...ConfigurationLimits.listMembersMax).map { "n\($0) = \"b\"" }.joined(separator: ", ")
        #expect(
            Harness.places(Self.check("qonversion", "event_names = { \(many) }\n").errors)
                == ["5:1 `event_names` has 513 names; 512 are allowed"])
        let long = String(repeating: "n", count: Limits.identifierBytesMax + 1)
        #expect(
            Harness.places(Self.check("qonversion", "event_names = { a = \"\(long)\" }\n").errors)
                == ["5:21 an event name may have 1024 bytes"])
    }

    /// A key that was meant for the source and fell into the table of names may be its secret.
    @Test(arguments: ["secret", "secert", "my_token", "password", "secrets"]) func noSecretAmongTheNames(_ key: String)
    {
        for value in ["\"hunter2\"", "[\"hunter2\"]", "{ x = \"hunter2\" }"] {
            let outcome = Self.check("qonversion", "[source.event_names]\na = 1\n\(key) = \(value)\n")
            #expect(!outcome.render().contains("hunter2"))
            #expect(outcome.render().contains("a = 1"))
        }
        let shown = Self.check("purchasely", "event_names = { my_trial = \"trial_started\" }\n").render()
        #expect(shown.contains("    5 | event_names = { my_trial = \"trial_started\" }\n"))
    }
}
