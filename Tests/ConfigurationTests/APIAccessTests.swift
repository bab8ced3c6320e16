@testable import Configuration
import Testing
import Vocabulary

/// `[[subscription_group]]` and `[[api_token]]`. The oracle is the text beside each case: places were counted by hand.
@Suite struct APIAccessTests {
    static let token = "0123456789abcdef"

    /// `text` begins in line 11.
    static func check(_ text: String, _ environment: [String: String] = [:]) -> LoadOutcome {
        var harness = Harness()
        harness.environment.merge(["T": token, "U": "another token of enough bytes".filter { $0 != " " }]) { $1 }
        harness.environment.merge(environment) { $1 }
        return harness.check(Harness.minimal + text)
    }

    @Test func groupsAreRead() throws {
        let outcome = Self.check(
            """
            [[subscription_group]]
            name = "20400001"
            products = ["premium.monthly", "premium.yearly"]
            [[subscription_group]]
            name = "extra"
            products = ["extra"]
            """)
        #expect(outcome.diagnostics.isEmpty, "\(outcome.render())")
        #expect(
            outcome.configuration?.subscriptionGroups == [
                SubscriptionGroup(name: "20400001", products: ["premium.monthly", "premium.yearly"]),
                SubscriptionGroup(name: "extra", products: ["extra"]),
            ])
    }

    @Test func tokensAreRead() throws {
        let outcome = Self.check(
            """
            [[api_token]]
            name = "app"
            token = { env = "T" }
            scopes = ["read"]
            source = "purchasely"
            [[api_token]]
            name = "support"
            token = { env = "U" }
            scopes = ["write", "read"]
            """)
        #expect(outcome.diagnostics.isEmpty, "\(outcome.render())")
        let tokens = try #require(outcome.configuration?.apiTokens)
        #expect(tokens.map(\.name) == ["app", "support"])
        #expect(tokens.map(\.scopes) == [[.read], [.read, .write]])
        #expect(tokens.map(\.source) == ["purchasely", nil])
        #expect(tokens.first?.token.matches(Array(Self.token.utf8)) == true)
    }

    static let slips: [(text: String, expected: [String])] = [
        (
            "[[subscription_group]]",
            [
                "11:1 `[[subscription_group]]` needs `name`: a name such as \"premium\"",
                "11:1 `[[subscription_group]]` needs `products`: an array of product ids such as "
                    + "[\"premium.monthly\", \"premium.yearly\"]",
            ]
        ),
        (
            "[[api_token]]",
            [
                "11:1 `[[api_token]]` needs `name`: a name such as \"backend\"",
                "11:1 `[[api_token]]` needs `token`: { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }",
                "11:1 `[[api_token]]` needs `scopes`: an array of \"read\" and \"write\"",
            ]
        ),
        (
            "[[subscription_group]]\nname = \"a\"\nproducts = []",
            ["13:12 `products` is empty: name the products that share one introductory offer"]
        ),
        (
            "[[subscription_group]]\nname = \"a\"\nproducts = [\"p\", 5, \"\"]",
            [
                "13:18 `products` must be an array of product ids such as [\"premium.monthly\", \"premium.yearly\"]; "
                    + "this is an integer",
                "13:21 `products` must not be empty",
            ]
        ),
        (
            "[[subscription_group]]\nname = \"a\"\nproducts = [\"p\", \"q\"]\n"
                + "[[subscription_group]]\nname = \"b\"\nproducts = [\"q\"]",
            ["16:13 the product `q` is already in the group `a`"]
        ),
        (
            "[[subscription_group]]\nname = \"a b\"\nproducts = [\"p\"]\n"
                + "[[subscription_group]]\nname = \"b\"\nproducts = [\"p\"]",
            [
                "12:8 `name` must be 1 to 64 of A-Z a-z 0-9 _ . -, not `a b`",
                "16:13 the product `p` is already in another `[[subscription_group]]`",
            ]
        ),
        (
            "[[subscription_group]]\nname = \"?\"\nproducts = [\"p\"]\n"
                + "[[subscription_group]]\nname = \"!\"\nproducts = [\"p\"]",
            [
                "12:8 `name` must be 1 to 64 of A-Z a-z 0-9 _ . -, not `?`",
                "15:8 `name` must be 1 to 64 of A-Z a-z 0-9 _ . -, not `!`",
                "16:13 the product `p` is already in another `[[subscription_group]]`",
            ]
        ),
        (
            "[[subscription_group]]\nname = \"a\"\nproducts = [\"p\"]\n"
                + "[[subscription_group]]\nname = \"a\"\nproducts = [\"q\"]",
            ["15:8 another `[[subscription_group]]` has the name `a`"]
        ),
        (
            "[[api_token]]\nname = \"a\"\ntoken = { env = \"T\" }\nscopes = []",
            ["14:10 `scopes` is empty: this token would be good for nothing"]
        ),
        (
            "[[api_token]]\nname = \"a\"\ntoken = { env = \"T\" }\nscopes = [\"raed\", \"admin\"]",
            [
                "14:11 `scopes` must be an array of \"read\" and \"write\", not `raed`; did you mean `read`?",
                "14:19 `scopes` must be an array of \"read\" and \"write\", not `admin`",
            ]
        ),
        (
            "[[api_token]]\nname = \"a\"\ntoken = { env = \"T\" }\nscopes = \"read\"",
            ["14:10 `scopes` must be an array of \"read\" and \"write\", not a string"]
        ),
        (
            "[[api_token]]\nname = \"a\"\ntoken = { env = \"T\" }\nscopes = [\"read\"]\nsource = \"purchasly\"",
            ["15:10 no `[[source]]` has the name `purchasly`; did you mean `purchasely`?"]
        ),
        (
            "[[api_token]]\nname = \"a\"\ntoken = { env = \"T\" }\nscopes = [\"read\"]\n"
                + "[[api_token]]\nname = \"b\"\ntoken = { env = \"T\" }\nscopes = [\"write\"]",
            ["17:9 this `token` is the same as another's: each `[[api_token]]` needs its own"]
        ),
        (
            "[[api_token]]\nname = \"a\"\ntoken = { env = \"BLANK\" }\nscopes = [\"read\"]",
            [
                "13:9 `token` must be of visible ASCII characters, without blanks and line breaks: "
                    + "this one cannot be sent"
            ]
        ),
        (
            "[[api_token]]\nname = \"a\"\ntoken = { env = \"LONG\" }\nscopes = [\"read\"]",
            ["13:9 `token` may have 1024 bytes, not 1025"]
        ),
        (
            "[[api_token]]\nname = \"a\"\ntoken = \"hunter2hunter2hunter2\"\nscopes = [\"read\"]",
            [
                "13:9 `token` must not be in this file in clear text; write { credential = \"…\" }, "
                    + "{ env = \"…\" } or { file = \"…\" }"
            ]
        ),
    ]

    @Test(arguments: slips) func slipsStandAtTheirPlace(_ text: String, _ expected: [String]) {
        let long = String(repeating: "x", count: ConfigurationLimits.tokenBytesMax + 1)
        let outcome = Self.check(text, ["BLANK": "hunter2 hunter2 hunter2", "LONG": long])
        #expect(Harness.places(outcome.diagnostics) == expected)
        #expect(outcome.configuration == nil)
        for secret in [Self.token, long, "hunter2"] { #expect(!outcome.render().contains(secret)) }
    }

    @Test func whoWasFirstIsNamed() throws {
        let groups = Self.check(
            "[[subscription_group]]\nname = \"a\"\nproducts = [\"p\"]\n"
                + "[[subscription_group]]\nname = \"b\"\nproducts = [\"p\"]")
        #expect(
            groups.render() == """
                posthouse.toml:16:13: error: the product `p` is already in the group `a`
                   16 | products = ["p"]
                      |             ^~~
                posthouse.toml:13:13: note: it is here first
                   13 | products = ["p"]
                      |             ^~~
                1 error

                """)
        let tokens = Self.check(
            "[[api_token]]\nname = \"a\"\ntoken = { env = \"T\" }\nscopes = [\"read\"]\n"
                + "[[api_token]]\nname = \"b\"\ntoken = { env = \"U\" }\nscopes = [\"write\"]", ["U": Self.token])
        #expect(Harness.places(tokens.errors.flatMap(\.notes)) == ["13:9 the first one is here"])
    }

    @Test func whatIsWorthALook() throws {
        let text = "[[api_token]]\nname = \"a\"\ntoken = { env = \"T\" }\nscopes = [\"read\"]"
        let short = Self.check(text, ["T": "hunter2hunter20"])
        #expect(
            Harness.places(short.diagnostics)
                == ["13:9 `token` has 15 bytes and can be guessed; better 16 or more, at random"])
        #expect(short.configuration?.apiTokens.count == 1)
        #expect(Self.check(text, ["T": "hunter2hunter200"]).diagnostics.isEmpty)
        let twice = Self.check("[[subscription_group]]\nname = \"a\"\nproducts = [\"p\", \"q\", \"p\"]")
        #expect(Harness.places(twice.diagnostics) == ["13:23 the product `p` is already in this group"])
        #expect(twice.configuration?.subscriptionGroups.first?.products == ["p", "q"])
    }

    /// Outside the unit a credential cannot be read: the rest is checked all the same, and the token is left out.
    @Test func checkGoesOnWithoutTheSecret() throws {
        let text =
            Harness.minimal
            + "[[api_token]]\nname = \"a\"\ntoken = { credential = \"t\" }\nscopes = [\"reed\"]\nsource = \"none\""
        let harness = Harness(purpose: .check, isRoot: false)
        #expect(Harness.places(harness.check(text).diagnostics).count == 3)
        let right = text.replacing("reed", with: "read").replacing("\"none\"", with: "\"purchasely\"")
        let outcome = harness.check(right)
        #expect(outcome.errors.isEmpty && outcome.warnings.count == 1)
        #expect(outcome.configuration?.apiTokens.isEmpty == true)
    }

    @Test func aSourceWithAnErrorOfItsOwnIsKnown() {
        let text = "[[api_token]]\nname = \"a\"\ntoken = { env = \"T\" }\nscopes = [\"read\"]\nsource = \"purchasely\""
        var harness = Harness()
        harness.environment["T"] = Self.token
        let outcome = harness.check((Harness.minimal + text).replacing("kind = \"purchasely\"", with: "kind = \"x\""))
        #expect(outcome.errors.count == 1)
    }
}
