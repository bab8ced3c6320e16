@testable import Configuration
import Testing

/// Places and words of what is wrong. The oracle is the text beside it: lines and columns were counted by hand.
@Suite struct DiagnosticTests {
    static let cases: [(line: String, expected: String)] = [
        ("concurency = 16", "11:1 unknown key `concurency`; did you mean `concurrency`?"),
        ("listen = \"x\"", "11:1 unknown key `listen`; it belongs in `[server]`"),
        ("wholly_unknown = 1", "11:1 unknown key `wholly_unknown`"),
        (
            "rate = \"100\"",
            "11:8 `rate` must be a rate such as \"100/s\" or \"30/m\", not `100`; the units are /s and /m"
        ),
        ("rate = 100", "11:8 `rate` must be a rate such as \"100/s\" or \"30/m\", not an integer"),
        ("rate = \"0/s\"", "11:8 `rate` must be from 1 to 10000, not 0"),
        ("rate = \"10001/m\"", "11:8 `rate` must be from 1 to 10000, not 10001"),
        ("confirm = \"yes\"", "11:11 `confirm` must be true or false, not a string"),
        ("confirm_timeout = \"8s\"", "11:19 `confirm_timeout` must be from 100ms to 7s, not 8s"),
        ("timeout = 15", "11:11 `timeout` must be a duration such as \"15s\", not an integer"),
        (
            "timeout = \"15 s\"",
            "11:11 `timeout` must be a duration such as \"15s\", not `15 s`; the units are ms, s, m, h and d"
        ),
        ("timeout = \"1h\"", "11:11 `timeout` must be from 10ms to 2m, not 1h"),
        ("timeout = \"\"", "11:11 `timeout` must not be empty"),
        ("  concurrency = 0", "11:17 `concurrency` must be from 1 to 1024, not 0"),
        ("concurrency = 1.5", "11:15 `concurrency` must be a number of attempts such as 16, not a float"),
        ("jitter = 1.01", "11:10 `jitter` must be a number from 0 to 1 such as 0.2, not 1.01"),
        ("jitter = nan", "11:10 `jitter` must be a number from 0 to 1 such as 0.2, not nan"),
        ("jitter = \"x\"", "11:10 `jitter` must be a number from 0 to 1 such as 0.2, not a string"),
        (
            "permanent = [400, 99]",
            "11:19 `permanent` must be an array of HTTP statuses such as [400, 422], each from 100 to 599"
        ),
        (
            "order = \"purchse\"",
            "11:9 `order` must be \"purchase\" or \"none\", not `purchse`; did you mean `purchase`?"
        ),
        ("include = [\"acces\"]", "11:12 `include` must be [\"access\"], not `acces`; did you mean `access`?"),
        ("include = []", "11:11 `include` is empty; leave it out for nothing more"),
        ("include = \"access\"", "11:11 `include` must be [\"access\"], not a string"),
        (
            "include = [\"access\"]\nformat = \"source\"",
            "11:11 `include` adds to the standard format; with `format = \"source\"` the body is the source's own"
        ),
        ("format = \"json\"", "11:10 `format` must be \"standard\" or \"source\", not `json`"),
        ("allow_private = \"no\"", "11:17 `allow_private` must be true or false, not a string"),
        ("sources = [\"purchasly\"]", "11:12 no `[[source]]` has the name `purchasly`; did you mean `purchasely`?"),
        ("sources = []", "11:11 `sources` is empty; leave it out for all"),
        ("environments = []", "11:16 `environments` is empty; leave it out for all"),
        (
            "schedule = [\"5s\", 5]",
            "11:19 `schedule` must be an array of durations such as [\"5s\", \"5m\", \"2h\"]; this is an integer"
        ),
        ("give_up_after = 1979-05-27", "11:17 `give_up_after` must be a duration such as \"7d\", not a date or time"),
        ("headers = { Host = \"x\" }", "11:13 the header `Host` is set by the relay itself; remove it"),
        ("headers = { Content-Type = \"x\" }", "11:13 the header `Content-Type` is set by the relay itself; remove it"),
        ("headers = { Webhook-A = \"x\" }", "11:13 the header `Webhook-A` is set by the relay itself; remove it"),
        ("headers = { Webhook-Id = \"x\" }", "11:13 the header `Webhook-Id` is set by the relay itself; remove it"),
        ("headers = { \"a b\" = \"x\" }", "11:13 `a b` is not a name of an HTTP header field"),
        (
            "headers = { A = \"x\\r\\nB: y\" }",
            "11:17 the value of the header `A` must be 1 to 8192 bytes without control characters or outer blanks"
        ),
        ("headers = { A = \"x\", a = \"y\" }", "11:22 the header `a` is set twice"),
        ("ca_file = \"/none.pem\"", "11:11 the file `/none.pem` cannot be read: no such file"),
        ("secrets = [{ env = \"K\" }]", "11:1 `secrets` is given beside `secret`; write one of them"),
        ("[intgration]", "11:2 unknown table `intgration`; did you mean `[[integration]]`?"),
        (
            "[subscription_group]",
            "11:1 `subscription_group` may be given more than once: write `[[subscription_group]]`"
        ),
        ("[[api_tokens]]", "11:3 unknown table `api_tokens`; did you mean `[[api_token]]`?"),
        ("products = [\"a\"]", "11:1 unknown key `products`; it belongs in `[[subscription_group]]`"),
        ("[[server]]", "11:1 `server` is given once: write `[server]`"),
        (
            "[server]\nlisten = \"localhost\"",
            "12:10 `listen` must be an address such as \"127.0.0.1:8080\", \"[::1]:8080\" or "
                + "\"unix:/run/posthouse/http\": `localhost` has no port: write an address and a port such as "
                + "127.0.0.1:8080"
        ),
        (
            "[server]\nmax_body = \"1XB\"",
            "12:12 `max_body` must be a size such as \"1MiB\" or \"64KiB\", not `1XB`; the units are B, KiB, MiB and GiB"
        ),
        ("[server]\nmax_body = \"1B\"", "12:12 `max_body` must be from 1KiB to 64MiB, not 1B"),
        (
            "[server]\ntls = { certificate = \"/none.pem\" }",
            "12:7 `[server.tls]` needs `key`: the path of a PEM file"
        ),
        ("[server.tls]\nkei = 1\n", "11:1 `[server.tls]` needs `certificate`: the path of a PEM file"),
        (
            "[database]\nurl = 5",
            "12:7 `url` must be a libpq connection string such as \"postgresql:///posthouse\", not an integer"
        ),
        ("[database]\npool = 1", "12:8 `pool` must be from 2 to 256, not 1"),
        (
            "[database]\nurl = \"postgresql:///x\"\nschema = \"Posthouse\"",
            "13:10 `schema` must be a schema such as \"posthouse\": lower-case letters, digits and _, the first no digit, "
                + "63 at most, not `Posthouse`"
        ),
        (
            "[database]\nurl = \"postgresql:///x\"\nschema = \"pg_posthouse\"",
            "13:10 `schema` must not be `pg_posthouse`: PostgreSQL keeps such names to itself"
        ),
        (
            "[database]\nschema = \"posthouse\"",
            "12:10 `schema` goes with `url`: the private cluster holds nothing else and is the daemon's own"
        ),
        (
            "[database]\nurl = \"postgresql:///x\"\ndurability = \"no\"",
            "13:14 `durability` must be \"checked\" or \"declared\", not `no`"
        ),
        (
            "[database]\nurl = \"postgresql:///x\"\npooling = \"statement\"",
            "13:11 `pooling` must be \"session\" or \"transaction\", not `statement`"
        ),
        (
            "[database]\nurl = \"postgresql:///x\"\npooling = \"transaction\"",
            "13:11 `pooling = \"transaction\"` needs `schema`: other clients change the search path of the sessions that "
                + "it leads to; \"public\" is that of a ledger which was made without the key, in most databases"
        ),
        (
            "[database]\ndirect_url = \"postgresql:///x\"",
            "12:14 `direct_url` goes with `url`: the private cluster holds nothing else and is the daemon's own"
        ),
        ("[retention]\nduplicates = \"20d\"", "12:14 `duplicates` must be from 21d to 36500d, not 20d"),
        (
            "[retention]\nevents = \"30d\"",
            "12:10 `events` (30d) must be at least `duplicates` (60d): an event keeps its own event key"
        ),
        ("[spool]\nmax = \"1KiB\"", "12:7 `max` must be from 1MiB to 1024GiB, not 1KiB"),
        ("[journal]\nformat = \"xml\"", "12:10 `format` must be \"json\" or \"logfmt\", not `xml`"),
        ("[journal]\ndetail_limit = -1", "12:16 `detail_limit` must be from 0 to 100000, not -1"),
        ("order = [}", "11:10 this is not TOML: `}` closes no bracket that is open here"),
        ("[.x]", "11:2 this is not TOML: unexpected character"),
        ("ordér = 1", "11:4 this is not TOML: key-value pair: expected '='"),
        ("a = = 1", "11:5 this is not TOML: value: could not determine value type"),
        ("order = purchase", "11:9 this is not TOML: value: could not determine value type\(quotes)"),
        ("order = “purchase”", "11:9 this is not TOML: value: could not determine value type\(quotes)"),
        ("order = none", "11:10 this is not TOML: floating-point: expected 'nan', saw 'no'\(quotes)"),
        ("timeout = 15s", "11:13 this is not TOML: decimal integer: expected digit, saw 's'\(quotes)"),
    ]

    private static let quotes = "; write text in straight quotes, as in \"backend\""

    @Test(arguments: cases) func standsAtItsPlace(_ line: String, _ expected: String) {
        #expect(Harness.errors(Harness.with(line)).contains(expected), "\(Harness.errors(Harness.with(line)))")
    }

    static let sourceCases: [(line: String, expected: String)] = [
        (
            "freshness = \"on\"",
            "5:13 `freshness` must be a duration such as \"5m\" or \"off\", not `on`; the units are ms, s, m, h and d"
        ),
        ("app = \"\"", "5:7 `app` must not be empty"),
    ]

    @Test(arguments: sourceCases) func standsAtItsPlaceInASource(_ line: String, _ expected: String) {
        #expect(Harness.errors(Harness.with(source: line + "\n")).contains(expected))
    }

    @Test func theFixtureIsRight() {
        #expect(Harness().check(Harness.minimal).diagnostics.isEmpty)
        #expect(Harness().check("\u{FEFF}" + Harness.minimal + "# Ünïcödé\r\n").diagnostics.isEmpty)
        #expect(Harness.minimal.split(separator: "\n", omittingEmptySubsequences: false).count == 11)
    }

    @Test func whatIsMissingPointsToTheHeader() {
        #expect(
            Harness.errors("\n  [[source]]\n[[integration]]") == [
                "2:3 `[[source]]` needs `name`: a name such as \"purchasely\"",
                "2:3 `[[source]]` needs `kind`: a kind of source such as \"purchasely\"",
                "2:3 `[[source]]` needs `secret`: { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }",
                "3:1 `[[integration]]` needs `name`: a name such as \"backend\"",
                "3:1 `[[integration]]` needs `url`: a URL such as \"https://api.example.com/hooks\"",
                "3:1 `[[integration]]` needs `events`: an array of globs over event types such as [\"SUBSCRIPTION_*\"]",
                "3:1 `[[integration]]` needs `secret`: { credential = \"…\" }, { env = \"…\" } or { file = \"…\" }",
            ])
    }

    @Test func aNameStandsOnce() throws {
        let outcome = Harness().check(Harness.minimal + Harness.minimal)
        #expect(
            Harness.places(outcome.errors) == [
                "12:8 another `[[source]]` has the name `purchasely`",
                "17:8 another `[[integration]]` has the name `backend`",
            ])
        let note = try #require(outcome.errors.first?.notes.first)
        #expect(Harness.places([note]) == ["2:8 the first one is here"])
        #expect(note.severity == .note)
    }

    @Test(arguments: ["a/b", "ä", "a b", String(repeating: "a", count: 65), ".", ".."]) func namesAreNarrow(
        _ name: String
    ) {
        let errors = Harness.errors(Harness.minimal.replacing("\"purchasely\"\nkind", with: "\"\(name)\"\nkind"))
        #expect(errors.count == 1 && errors[0].hasPrefix("2:8 `name` must be 1 to 64 of A-Z a-z 0-9 _ . -, not "))
    }

    @Test func kinds() {
        func errors(_ kind: String) -> [String] {
            Harness.errors(Harness.minimal.replacing("kind = \"purchasely\"", with: "kind = \"\(kind)\""))
        }
        #expect(errors("purchaseley") == ["3:8 unknown kind `purchaseley`; did you mean `purchasely`?"])
        #expect(
            errors("paypal") == [
                "3:8 unknown kind `paypal`; there are `purchasely`, `qonversion`, `apphud`, `revenuecat`, `adapty`, "
                    + "`sessions`, `apple`, `google-play`, `stripe`"
            ])
    }

    static let urls: [(url: String, error: EndpointError)] = [
        ("api.example.com/hooks", .notAbsolute), ("ftp://example.com", .scheme), ("https:///x", .noHost),
        ("https://u:p@example.com", .userInfo), ("https://example.com/#a", .fragment), ("https://exa mple.com", .host),
        ("https://example.com:0", .port), ("https://example.com:99999", .port), ("https://example.com:", .port),
        ("https://example.com/ä", .character), ("https://bücher.example", .host), ("https://[::1", .host),
        ("https://[1.2.3.4]/", .host), ("https://a..b/", .host), ("https://example.com/a b", .character),
    ]

    @Test(arguments: urls) func badURLs(_ url: String, _ error: EndpointError) {
        let text = Harness.minimal.replacing("https://api.example.com/hooks", with: url)
        let instead = error == .userInfo ? "; set `headers` with a secret instead" : ""
        #expect(Harness.errors(text) == ["8:7 `url` \(error.text)\(instead)"])
    }

    @Test func emptyEvents() {
        #expect(
            Harness.errors(Harness.minimal.replacing("[\"*\"]", with: "[]"))
                == ["9:10 `events` is empty: this integration would be sent nothing; [\"*\"] means all"])
    }

    @Test func allErrorsAtOnceInTheOrderOfTheFile() {
        let outcome = Harness().check(
            """
            [retention]
            duplicates = "1d"
            [[integration]]
            url = "nowhere"
            evnts = ["*"]
            [server]
            listen = 8080
            [[source]]
            name = "a"
            kind = "b"
            """)
        let lines = outcome.diagnostics.compactMap { $0.span?.line }
        #expect(lines == lines.sorted())
        #expect(Set(lines) == [2, 3, 4, 5, 7, 8, 10])
        #expect(outcome.errors.count == 9)
        #expect(outcome.configuration == nil)
        #expect(outcome.count() == "9 errors")
        #expect(outcome.count(besides: 1) == "9 errors, 1 warning")
    }

    @Test func warnings() {
        #expect(
            Harness.warnings("") == [
                "no `[[source]]`: nobody can send webhooks here",
                "no `[[integration]]`: events are kept, and sent to nobody",
            ])
        #expect(
            Harness.warnings(Harness.minimal.replacing("https:", with: "http:"))
                == ["8:7 `url` is http://: what it is sent can be read and changed on the way"])
        #expect(
            Harness.warnings(Harness.minimal.replacing("https://api.example.com", with: "http://127.0.0.1:9000"))
                == ["8:7 `127.0.0.1` is inside: deliveries are refused unless `allow_private = true`"])
        #expect(
            Harness.warnings(Harness.minimal.replacing("api.example.com", with: "0.0.0.0"))
                == ["8:7 `0.0.0.0` is unspecified: no server can be there"])
        #expect(
            Harness.warnings(
                Harness.with("allow_private = true").replacing("https://api.example.com", with: "http://localhost:9000")
            )
            .isEmpty)
        #expect(
            Harness.warnings(Harness.with(source: "auth = \"none\"\n"))
                == ["5:8 `auth = \"none\"`: anyone who reaches this source can grant purchases"])
        #expect(
            Harness.warnings(Harness.minimal.replacing("[\"*\"]", with: "[\"SUBSCRIPTION_RECIEVED\"]"))
                == [
                    "9:11 `SUBSCRIPTION_RECIEVED` \(Self.noType); did you mean `SUBSCRIPTION_RECEIVED`?"
                ])
        // A platform's own names.
        #expect(
            Harness.warnings(Harness.minimal.replacing("[\"*\"]", with: "[\"INITIAL_PURCHASE\", \"RENEWAL\"]"))
                == ["9:11 `INITIAL_PURCHASE` \(Self.noType)", "9:31 `RENEWAL` \(Self.noType)"])
        #expect(
            Harness.warnings(Harness.minimal.replacing("[\"*\"]", with: "[\"posthouse.integration.failng\"]"))
                .contains { $0.hasSuffix("did you mean `posthouse.integration.failing`?") })
        #expect(
            Harness.warnings(Harness.with("environments = [\"production\"]"))
                == ["11:17 no source sends the environment `production`; did you mean `PRODUCTION`?"])
        #expect(
            Harness.warnings(Harness.with("environments = [\"PROD\"]"))
                == ["11:17 no source sends the environment `PROD`; there are `PRODUCTION`, `SANDBOX`"])
        #expect(Harness.warnings(Harness.with("allow_private = true")).isEmpty)
        let ofTheRelay = ["posthouse.*", "posthouse.integration.*", "posthouse.integration.dead", "posthouse.access.*"]
        for type in ["SESSION_*", "TRANSFER", "ENTITLEMENT_GRANTED", "paywall_*"] + ofTheRelay {
            #expect(Harness.warnings(Harness.minimal.replacing("[\"*\"]", with: "[\"\(type)\"]")).isEmpty)
        }
    }

    private static let noType =
        "matches no event type that this version knows (posthouse-sources(7), \"Vocabulary\", lists them beside the "
        + "platforms' own names, which `event_name` in `where` takes)"

    @Test("A status that is judged before `permanent` does nothing there")
    func permanentStatusesWithoutEffect() {
        #expect(
            Harness.warnings(Harness.with("permanent = [400, 200, 410, 299, 300]")) == [
                "11:19 `permanent` does nothing with 200: any 2xx accepts the message",
                "11:24 `permanent` does nothing with 410: such an answer pauses the integration",
                "11:29 `permanent` does nothing with 299: any 2xx accepts the message",
            ])
    }

    @Test("A database's url in a form that libpq does not have is explained, and libpq's own reason is not repeated")
    func formsOfConnectionStrings() {
        let libraries = LibraryChecks(
            connectionString: { _ in "missing \"=\"" }, certificate: { _ in nil }, authorities: { _ in nil })
        func errors(_ url: String) -> [String] {
            let outcome = Harness(libraries: libraries).check(Harness.minimal + "[database]\nurl = \"\(url)\"")
            return Harness.places(outcome.errors)
        }
        for url in ["mysql://x", "mysql://u:p@x/y?ssl=1", "posthouse"] {
            #expect(
                errors(url) == [
                    "12:7 `url` must begin with postgresql:// or be key = value pairs such as "
                        + "\"host=db dbname=posthouse\""
                ])
        }
        for url in ["postgresql://x:y", "postgres://x:y", "host=db dbname", "options=a://b c"] {
            #expect(errors(url) == ["12:7 `url` cannot be used: missing \"=\""])
        }
    }

    @Test func renderedLikeACompiler() {
        let outcome = Harness().check(Harness.with("\tconcurency = 16\nrate = \"0/s\"\n"))
        #expect(
            outcome.render() == """
                posthouse.toml:11:2: error: unknown key `concurency`; did you mean `concurrency`?
                   11 | \tconcurency = 16
                      | \t^~~~~~~~~~
                posthouse.toml:12:8: error: `rate` must be from 1 to 10000, not 0
                   12 | rate = "0/s"
                      |        ^~~~~
                2 errors

                """)
        #expect(!outcome.render().contains("\u{1B}"))
        #expect(outcome.render(coloured: true).contains("\u{1B}[1;31merror: "))
        #expect(Harness().check(Harness.minimal).render() == "")
        #expect(Harness().check("x = 1").count() == "1 error, 2 warnings")
    }

    @Test func aLineThatIsNoTOMLIsShownWhereItHoldsNoSecret() {
        #expect(
            Harness().check("[server]\nlisten = = \"x\"").render() == """
                posthouse.toml:2:10: error: this is not TOML: value: could not determine value type
                    2 | listen = = "x"
                      |          ^
                1 error

                """)
        #expect(Harness().check("[server").render().contains("\n    1 | [server\n"))
    }

    @Test func columnsCountCharactersNotBytes() {
        let text = Harness.with("headers = { A = \"äöü\", Host = \"x\" }")
        #expect(Harness.errors(text) == ["11:24 the header `Host` is set by the relay itself; remove it"])
    }

    @Test func aLongLineIsShownAroundItsPlace() throws {
        let long = String(repeating: "\"ACTIVATE\", ", count: 100)
        let outcome = Harness().check(Harness.minimal.replacing("[\"*\"]", with: "[\(long)5]"))
        guard case .line(let text, let caret, _) = try #require(outcome.errors.first?.excerpt) else {
            Issue.record("not shown")
            return
        }
        #expect(text.unicodeScalars.count == ConfigurationLimits.excerptCharactersMax)
        #expect(Array(text)[caret] == "5")
    }
}
