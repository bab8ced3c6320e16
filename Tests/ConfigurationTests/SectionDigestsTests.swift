@testable import Configuration
import Testing

/// By what daemons are compared. Oracle: what posthouse.toml(5) says that each key does.
@Suite struct SectionDigestsTests {
    private static func digests(_ text: String) throws -> [String: String] {
        let outcome = Harness().check(text)
        return try #require(outcome.configuration, "\(Harness.places(outcome.errors))").digests
    }

    /// Of the source of a kind, with more lines.
    private static func source(_ kind: String, _ lines: String = "") throws -> String? {
        try digests(SourceTraitsTests.text(kind, lines))["source purchasely"]
    }

    private static let lists = """
        environments = ["SANDBOX", "PRODUCTION"]
        where = { "purchase.product" = ["gold", "silver"], "purchase.store" = "APP_STORE" }

        """

    /// Oracle: Python's hashlib. Written down, so that a change is seen: daemons of one version before and after it
    /// would differ for nothing.
    @Test func oneForEachSection() throws {
        #expect(
            try Self.digests(Harness.minimal) == [
                "integration backend": "faf4a8e4b8c41df3", "source purchasely": "5e326cab480e50e0",
            ])
    }

    @Test(arguments: [
        "environments = [\"SANDBOX\"]\n", "sources = [\"purchasely\"]\n", "order = \"none\"\n",
        "include = [\"access\"]\n", "format = \"source\"\n", "confirm = true\n",
        "where = { \"purchase.product\" = \"gold*\" }\n", "where = { \"purchase.plan\" = \"gold*\" }\n",
    ])
    func whatDecidesOfAnIntegration(_ line: String) throws {
        let (before, after) = (try Self.digests(Harness.minimal), try Self.digests(Harness.with(line)))
        #expect(before["integration backend"] != after["integration backend"])
        #expect(before["source purchasely"] == after["source purchasely"])
    }

    @Test func eventsAndTheOriginDecide() throws {
        let before = try Self.digests(Harness.minimal)["integration backend"]
        for (old, new) in [
            ("[\"*\"]", "[\"ACTIVATE\"]"), ("https://api.", "https://api2."), ("https://", "http://"),
            (".com/", ".com:8443/"),
        ] {
            let text = Harness.minimal.replacing(old, with: new)
            #expect(text != Harness.minimal)
            #expect(try Self.digests(text)["integration backend"] != before, "\(new)")
        }
    }

    @Test(arguments: [
        "timeout = \"9s\"\n", "rate = \"5/s\"\n", "concurrency = 3\n", "schedule = [\"1m\"]\n", "permanent = [422]\n",
        "headers = { Team = \"billing\" }\n", "headers = { Team = { env = \"S\" } }\n",
    ])
    func whatMayDiffer(_ line: String) throws {
        #expect(try Self.digests(Harness.with(line)) == Self.digests(Harness.minimal))
    }

    /// A path is the secret of many a hook.
    @Test func noSecretDecides() throws {
        let before = try Self.digests(Harness.minimal)
        #expect(try Self.digests(Harness.minimal.replacing("/hooks", with: "/hooks/T0K3N?key=1")) == before)
        var harness = Harness()
        // 32 bytes of 0x42.
        harness.environment = ["S": "another", "K": "whsec_QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="]
        let configuration = try #require(harness.check(Harness.minimal).configuration)
        #expect(configuration.digests == before)
    }

    @Test func theOrderOfValuesDoesNotDecide() throws {
        let other = Self.lists.replacing(#""SANDBOX", "PRODUCTION""#, with: #""PRODUCTION", "SANDBOX", "SANDBOX""#)
            .replacing(#""gold", "silver""#, with: #""silver", "gold""#)
        #expect(other != Self.lists)
        #expect(try Self.digests(Harness.with(Self.lists)) == Self.digests(Harness.with(other)))
        #expect(try Self.digests(Harness.with(Self.lists)) != Self.digests(Harness.minimal))
    }

    @Test(arguments: [
        ("purchasely", "app = \"shop\"\n"), ("purchasely", "environment = \"SANDBOX\"\n"),
        ("purchasely", "leeway = \"1h\"\n"),
        ("purchasely", "leeway = \"off\"\n"), ("qonversion", "ownership = \"exclusive\"\n"),
        ("qonversion", "restore = \"copy\"\n"), ("sessions", "merge = true\n"),
        ("apple", "account_token = \"anonymous\"\n"), ("google-play", "account_id = \"anonymous\"\n"),
        ("stripe", "user_key = \"account\"\n"),
        ("adapty", "event_names = { \"my_trial\" = \"trial_started\" }\n"),
    ])
    func whatDecidesOfASource(_ kind: String, _ line: String) throws {
        #expect(try Self.source(kind, line) != Self.source(kind))
    }

    @Test func theProductsOfASubscriptionGroupDecide() throws {
        func digests(_ products: String) throws -> [String: String] {
            let group = "[[subscription_group]]\nname = \"premium\"\nproducts = [\(products)]\n"
            return try Self.digests(Harness.minimal + group)
        }
        let before = try digests(#""month", "year""#)
        #expect(Set(before.keys) == ["integration backend", "source purchasely", "subscription group premium"])
        #expect(try digests(#""year", "month""#) == before)
        #expect(try digests(#""month""#)["subscription group premium"] != before["subscription group premium"])
    }

    @Test func theKindAndTheAppsDecide() throws {
        #expect(try Self.source("purchasely") != Self.source("apphud"))
        for kind in ["apple", "google-play"] {
            let more = SourceTraitsTests.text(kind).replacing("app\"]", with: "app\", \"com.example.more\"]")
            #expect(try Self.digests(more)["source purchasely"] != Self.source(kind))
        }
    }

    @Test func whatSaysTheUsualDecidesNothing() throws {
        #expect(try Self.source("purchasely", "environment = \"PRODUCTION\"\n") == Self.source("purchasely"))
        #expect(try Self.source("purchasely", "leeway = \"24h\"\n") == Self.source("purchasely"))
        #expect(try Self.source("stripe", "freshness = \"9m\"\n") == Self.source("stripe"))
    }
}
