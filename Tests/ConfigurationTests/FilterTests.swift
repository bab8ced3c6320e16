@testable import Configuration
import Testing
import Vocabulary

/// `where` of an integration. The oracle is the text beside it: lines and columns were counted by hand.
@Suite struct FilterTests {
    private static let isUsual = "`source` must be a string or an array of them; this is"

    static let cases: [(line: String, expected: String)] = [
        (
            "where = \"x\"",
            "11:9 `where` must be a table from fields to values such as { \"purchase.product\" = \"gold.*\" }, "
                + "not a string"
        ),
        ("where = {}", "11:9 `where` is empty; leave it out for all"),
        (
            "where = { \"purchase.prodct\" = \"a\" }",
            "11:11 unknown field `purchase.prodct` in `where`; did you mean `purchase.product`?"
        ),
        ("where = { product = \"a\" }", "11:11 unknown field `product` in `where`; did you mean `purchase.product`?"),
        ("where = { sources = \"a\" }", "11:11 unknown field `sources` in `where`; did you mean `source`?"),
        ("where = { wholly_unknown = \"a\" }", "11:11 unknown field `wholly_unknown` in `where`"),
        (
            "where = { \"data.environment\" = \"a\" }",
            "11:11 unknown field `data.environment` in `where`; write `environment`"
        ),
        (
            "where = { purchase.product = \"a\" }",
            "11:11 `purchase` has fields of its own: name one of them in quotes, as in { \"purchase.key\" = \"…\" }"
        ),
        (
            "where = { \"transfer.from\" = \"a\" }",
            "11:11 `transfer.from` has fields of its own: name one of them in quotes, as in "
                + "{ \"transfer.from.user_id\" = \"…\" }"
        ),
        (
            "where = { \"original.price\" = \"1\" }",
            "11:11 `original.price` cannot be named in `where`: only fields that are the same for all sources can"
        ),
        (
            "where = { decoded = \"a\" }",
            "11:11 `decoded` cannot be named in `where`: only fields that are the same for all sources can"
        ),
        (
            "where = { access = \"a\" }",
            "11:11 `access` cannot be named in `where`: only fields that are the same for all sources can"
        ),
        (
            "where = { \"money.amount\" = \"9.99\" }",
            "11:11 `money.amount` cannot be named in `where`: only fields that are the same for all sources can"
        ),
        ("where = { source = true }", "11:20 \(isUsual) a boolean"),
        ("where = { source = 5 }", "11:20 \(isUsual) an integer"),
        ("where = { source = [\"a\", [\"b\"]] }", "11:26 \(isUsual) an array"),
        ("where = { source = { env = \"S\" } }", "11:20 \(isUsual) a table"),
        (
            "where = { \"transaction.purchased_at_ms\" = 1.5 }",
            "11:43 `transaction.purchased_at_ms` must be an integer, a string or an array of them; this is a float"
        ),
        ("where = { source = [] }", "11:20 `source` is empty: this integration would be sent nothing"),
        ("where = { source = \"\" }", "11:20 `source` must not be empty"),
        ("where = { source = \"a\\u0001\" }", "11:20 `source` must not hold control characters"),
        (
            "where = { source = 'a\\b' }",
            "11:20 `source`: a backslash must be followed by `*` or by another backslash, which it makes "
                + "ordinary characters"
        ),
        (
            "[integration.where]\nsource = \"a\"\norder = \"none\"",
            "13:1 `order` is a key of `[[integration]]`: write it above `where`"
        ),
    ]

    @Test(arguments: cases) func slipsStandAtTheirPlace(_ line: String, _ expected: String) {
        #expect(Harness.errors(Harness.with(line + "\n")) == [expected])
    }

    static let silent: [(lines: String, expected: String?)] = [
        (
            "where = { environment = \"production\" }",
            "11:25 `production` matches no `environment` of a message for this integration; did you mean `PRODUCTION`?"
        ),
        (
            "where = { environment = \"SANDBOX\" }\nenvironments = [\"PRODUCTION\"]",
            "11:25 `SANDBOX` matches no `environment` of a message for this integration"
        ),
        (
            "where = { source = [\"p*\", \"puchasely\"] }",
            "11:27 `puchasely` matches no `source` of a message for this integration; did you mean `purchasely`?"
        ),
        (
            "where = { type = \"SUBSCRIPTION_RENEWD\" }",
            "11:18 `SUBSCRIPTION_RENEWD` matches no `type` of a message for this integration that this version knows; "
                + "did you mean `SUBSCRIPTION_RENEWED`?"
        ),
        (
            "where = { \"purchase.kind\" = \"lifetime\" }",
            "11:29 `lifetime` matches no `purchase.kind` of a message for this integration"
        ),
        (
            "where = { \"transaction.purchased_at_ms\" = \"2026-*\" }",
            "11:43 `2026-*` matches no number, and `transaction.purchased_at_ms` is one"
        ),
        ("where = { \"transaction.purchased_at_ms\" = [\"-*\", 17, \"1*0\"] }", nil),
        (
            "where = { \"transaction.purchased_at_ms\" = [\"17*\", \"today\"] }",
            "11:51 `today` matches no number, and `transaction.purchased_at_ms` is one"
        ),
        (
            "where = { \"holder.user_id\" = \"a\", \"holder.anonymous_user_id\" = \"*\" }",
            "11:35 no message has both `holder.user_id` and `holder.anonymous_user_id`: this integration would be sent "
                + "nothing"
        ),
        (
            "where = { \"transfer.to.user_id\" = \"*\", \"transfer.from.anonymous_user_id\" = \"*\" }", nil
        ),
        ("where = { environment = \"*\", source = \"*ly\", type = \"*_STARTED\", \"purchase.kind\" = \"one*\" }", nil),
        ("where = { \"purchase.product\" = \"no.such\", event_name = \"x\" }", nil),
        (
            "where = { \"purchase.store\" = \"APP_STORE\" }",
            "11:30 `APP_STORE` matches no `purchase.store` of a message; did you mean `APPLE_APP_STORE`?"
        ),
        (
            "where = { \"purchase.store\" = [\"OWN_SHOP\", \"*_APP_STORE\", \"own_shop\"] }",
            "11:58 `own_shop` matches no `purchase.store` of a message; stores are written in capital letters"
        ),
        (
            "where = { \"transaction.status\" = \"ACTIVE\" }",
            "11:34 `ACTIVE` matches no `transaction.status` of a message for this integration that this version knows; "
                + "there are `AUTO_RENEWING`, `AUTO_RENEWING_CANCELED`, `IN_GRACE_PERIOD`, `ON_HOLD`, `PAUSED`, "
                + "`DEACTIVATED`, `REVOKED`, `UNPAID`"
        ),
        (
            "where = { \"transaction.offer_type\" = \"TRIAL\" }",
            "11:38 `TRIAL` matches no `transaction.offer_type` of a message for this integration that this version "
                + "knows; there are `NONE`, `FREE_TRIAL`, `INTRO_OFFER`, `PROMOTIONAL_OFFER`, `PROMO_CODE`"
        ),
        (
            "where = { \"transaction.offer_type\" = \"PROMO_COD\" }",
            "11:38 `PROMO_COD` matches no `transaction.offer_type` of a message for this integration that this version "
                + "knows; did you mean `PROMO_CODE`?"
        ),
        ("where = { \"transaction.status\" = \"AUTO_*\", \"transaction.offer_type\" = [\"NONE\", \"*TRIAL\"] }", nil),
    ]

    /// Each of these is valid, and lets nothing through.
    @Test(arguments: silent) func whatNoMessageCanMeetIsWarnedOf(_ lines: String, _ expected: String?) {
        #expect(Harness.errors(Harness.with(lines + "\n")) == [])
        #expect(Harness.warnings(Harness.with(lines + "\n")) == [expected].compactMap { $0 })
    }

    /// A type of a platform's own that only this version does not know.
    @Test func nothingIsSaidOfTypesThatAreNotKnown() {
        let text = Harness.with("where = { type = \"OWN\" }\n").replacing("[\"*\"]", with: "[\"OWN\"]")
        let warnings = Harness.warnings(text)
        #expect(warnings.count == 1 && warnings[0].hasPrefix("9:11 "), "\(warnings)")
    }

    @Test func listsAndTextsAreBounded() {
        let many = (0...ConfigurationLimits.listMembersMax).map { "\"v\($0)\"" }.joined(separator: ", ")
        #expect(
            Harness.errors(Harness.with("where = { source = [\(many)] }\n"))
                == ["11:20 `source` has 513 members; 512 are allowed"])
        let long = String(repeating: "v", count: Limits.identifierBytesMax + 1)
        #expect(
            Harness.errors(Harness.with("where = { source = \"\(long)\" }\n"))
                == ["11:20 a value of `source` may have 1024 bytes"])
        #expect(Harness.errors(Harness.with("where = { source = \"\(long.dropLast())\" }\n")) == [])
    }

    @Test func everyFieldCanBeNamed() throws {
        for field in MessageField.allCases {
            let outcome = Harness().check(Harness.with("where = { \"\(field.rawValue)\" = [\"a*\", \"b\"] }\n"))
            #expect(outcome.errors.isEmpty, "\(outcome.render())")
            let filter = try #require(outcome.configuration?.integrations.first?.filter)
            #expect(filter.conditions.map(\.field) == [field])
            let (isMet, isMetByAnother) = (
                filter.matches { $0 == field ? "b" : nil }, filter.matches { $0 == field ? "ba" : nil }
            )
            #expect(isMet && !isMetByAnother)
        }
    }

    @Test func valuesAreReadAsTheyAreWritten() throws {
        let table = #"""
            [integration.where]
            environment = "PRODUCTION"
            "purchase.product" = ["gold.*", 'a\*']
            "transaction.purchased_at_ms" = [1636307057000, "17*"]

            """#
        let outcome = Harness().check(Harness.with(table))
        let filter = try #require(outcome.configuration?.integrations.first?.filter, "\(outcome.render())")
        func matches(_ product: String?, purchasedAt: String, environment: String = "PRODUCTION") -> Bool {
            filter.matches { field in
                switch field {
                case .environment: environment
                case .product: product
                case .purchasedAt: purchasedAt
                default: nil
                }
            }
        }
        #expect(matches("gold.monthly", purchasedAt: "1636307057000"))
        #expect(matches("a*", purchasedAt: "1700000000000"))
        #expect(!matches("ab", purchasedAt: "1636307057000"))
        #expect(!matches("gold.monthly", purchasedAt: "1636307057001"))
        #expect(!matches("gold.monthly", purchasedAt: "1636307057000", environment: "production"))
        #expect(!matches(nil, purchasedAt: "1636307057000"))
    }

    @Test func withoutItThereIsNone() throws {
        let integration = try #require(Harness().check(Harness.minimal).configuration?.integrations.first)
        #expect(integration.filter == nil)
    }

    /// A reload compares integrations as a whole.
    @Test func anotherFilterIsAnotherIntegration() throws {
        func integration(plan: String) throws -> Integration {
            let text = Harness.with("where = { \"purchase.plan\" = \"\(plan)\" }\n")
            return try #require(Harness().check(text).configuration?.integrations.first)
        }
        let one = try integration(plan: "a")
        #expect(try integration(plan: "a") == one)
        #expect(try integration(plan: "b") != one)
    }

    /// A secret that was meant for the table above fell into this one.
    @Test func noSecretIsShown() {
        let shown = Harness().check(Harness.with("[integration.where]\nsecrets = [\"hunter2\"]\nsource = 1\n")).render()
        #expect(!shown.contains("hunter2"))
        #expect(shown.contains("source = 1"))
    }
}
