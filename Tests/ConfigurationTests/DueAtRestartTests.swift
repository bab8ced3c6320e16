@testable import Configuration
import Testing

/// What a reload cannot take over. Oracle: the keys that the text differs in.
@Suite struct DueAtRestartTests {
    static let cases: [(text: String, keys: [String])] = [
        ("", []),
        ("[server]\nlisten = \"127.0.0.1:81\"", ["[server] listen"]),
        ("[server]\napi_listen = \"127.0.0.1:82\"", ["[server] api_listen"]),
        ("[server]\ntls = { certificate = \"/c\", key = \"/k\" }", ["[server] tls"]),
        ("[server]\nmax_body = \"2MiB\"", []),
        ("[database]\nurl = \"postgresql:///x\"", ["[database] url"]),
        ("[database]\npool = 7", ["[database] pool"]),
        ("[database]\nstatement_timeout = \"7s\"", ["[database] statement_timeout"]),
        (
            "[database]\nurl = \"postgresql:///x\"\nschema = \"posthouse\"\ndurability = \"declared\"",
            ["[database] url", "[database] schema", "[database] durability"]
        ),
        (
            "[database]\nurl = \"postgresql:///x\"\nschema = \"a\"\npooling = \"transaction\"\ndirect_url = \"postgresql:///y\"",
            ["[database] url", "[database] schema", "[database] pooling"]
        ),
        ("[embedded]\ndirectory = \"/elsewhere\"", ["[embedded] directory"]),
        ("[spool]\ndirectory = \"/elsewhere\"", ["[spool]"]),
        ("[spool]\nmax = \"2GiB\"", ["[spool]"]),
        ("[[source]]\nname = \"a\"\nkind = \"apphud\"\nsecret = { env = \"S\" }", []),
        ("[journal]\ndetail_limit = 5\n[retention]\nattempts = \"40d\"", []),
        ("[journal]\nformat = \"json\"", ["[journal] format"]),
        (
            "[server]\nlisten = \"127.0.0.1:81\"\n[database]\npool = 7\nurl = \"postgresql:///x\"",
            ["[server] listen", "[database] url", "[database] pool"]
        ),
        // A database of one's own: where a private cluster would lie says nothing.
        ("[database]\nurl = \"postgresql:///x\"\n[embedded]\ndirectory = \"/elsewhere\"", ["[database] url"]),
    ]

    private func configuration(_ text: String) throws -> Configuration {
        var harness = Harness()
        for path in ["/c", "/k"] { harness.files[path] = Harness.file(Harness.pem) }
        let outcome = harness.check(Harness.minimal + text)
        return try #require(outcome.configuration, "\(outcome.render())")
    }

    @Test(arguments: cases) func everyKey(_ text: String, _ keys: [String]) throws {
        let (started, changed) = (try configuration(""), try configuration(text))
        #expect(changed.dueAtRestart(since: started) == keys)
        #expect(changed.dueAtRestart(since: changed) == [])
    }

    /// A reload tries another url of the same ledger by itself.
    @Test func url() throws {
        let (first, second) = (
            try configuration("[database]\nurl = \"postgresql:///x\""),
            try configuration("[database]\nurl = \"postgresql:///y\"")
        )
        #expect(second.dueAtRestart(since: first) == [])
        #expect(try configuration("").dueAtRestart(since: first) == ["[database] url"])
    }

    /// Switched off again is due as well, and other files of a listener that has TLS are not.
    @Test func certificates() throws {
        let with = try configuration("[server]\ntls = { certificate = \"/c\", key = \"/k\" }")
        let other = try configuration("[server]\ntls = { certificate = \"/k\", key = \"/c\" }")
        #expect(try configuration("").dueAtRestart(since: with) == ["[server] tls"])
        #expect(other.dueAtRestart(since: with) == [])
    }
}
