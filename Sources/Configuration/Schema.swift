/// Every table and key of the configuration, one row each: what is required, what may not be shown.
enum Schema {
    enum Requirement: Sendable, Hashable {
        case optional
        case required
    }

    struct Key: Sendable {
        let name: String
        /// After "must be ".
        let expected: String
        let requirement: Requirement
        /// A line with a text of this key in it is never shown.
        let mayHoldSecret: Bool
        /// Where the value is a table: its keys.
        let inner: [Key]
        /// The value is a table whose keys the file chooses.
        let holdsNames: Bool

        init(
            _ name: String, _ expected: String, _ requirement: Requirement = .optional, mayHoldSecret: Bool = false,
            inner: [Key] = [], holdsNames: Bool = false
        ) {
            self.name = name
            self.expected = expected
            self.requirement = requirement
            self.mayHoldSecret = mayHoldSecret
            self.inner = inner
            self.holdsNames = holdsNames
        }
    }

    struct Table: Sendable {
        let name: String
        /// `[[name]]`, any number of them.
        let isRepeated: Bool
        let keys: [Key]

        init(_ name: String, isRepeated: Bool = false, keys: [Key]) {
            self.name = name
            self.isRepeated = isRepeated
            self.keys = keys
        }

        var header: String { isRepeated ? "[[\(name)]]" : "[\(name)]" }

        func key(_ name: String) -> Key? { keys.first { $0.name == name } }
    }

    static func table(_ name: String) -> Table? { tables.first { $0.name == name } }

    private static let address = #"an address such as "127.0.0.1:8080", "[::1]:8080" or "unix:/run/posthouse/http""#
    private static let secret = #"{ credential = "…" }, { env = "…" } or { file = "…" }"#
    private static let someSecrets = #"an array of { credential = "…" }, { env = "…" } or { file = "…" }"#
    private static func duration(_ example: String) -> String { "a duration such as \"\(example)\"" }

    static let server = Table(
        "server",
        keys: [
            Key("listen", address),
            Key("api_listen", address),
            Key("max_body", #"a size such as "1MiB" or "64KiB""#),
            Key("tls", #"{ certificate = "…", key = "…" }, both paths of PEM files"#, inner: tls.keys),
        ])
    /// The inside of `[server] tls`.
    static let tls = Table(
        "server.tls",
        keys: [
            Key("certificate", "the path of a PEM file", .required),
            Key("key", "the path of a PEM file", .required),
        ])
    static let database = Table(
        "database",
        keys: [
            Key("url", #"a libpq connection string such as "postgresql:///posthouse""#, mayHoldSecret: true),
            Key("pool", "a number of connections such as 8"),
            Key("statement_timeout", duration("30s")),
            Key("schema", #"a schema such as "posthouse""#),
            Key("durability", #""checked" or "declared""#),
        ])
    static let embedded = Table("embedded", keys: [Key("directory", "the path of a directory")])
    static let spool = Table(
        "spool", keys: [Key("directory", "the path of a directory"), Key("max", #"a size such as "1GiB""#)])
    static let source = Table(
        "source", isRepeated: true,
        keys: [
            Key("name", #"a name such as "purchasely""#, .required),
            Key("kind", #"a kind of source such as "purchasely""#, .required),
            Key("secret", secret, mayHoldSecret: true),
            Key("secrets", someSecrets, mayHoldSecret: true),
            Key("auth", #""signature", "token" or "none""#),
            Key("app", "a string"),
            Key("environment", #"a string such as "PRODUCTION""#),
            Key("ownership", #""exclusive" or "install_and_identity""#),
            Key("restore", #""transfer" or "copy""#),
            Key("merge", "true or false"),
            Key(
                "event_names",
                #"a table from names that are sent to the platform's own such as { "my_trial" = "trial_started" }"#,
                holdsNames: true),
            Key("freshness", duration("5m") + #" or "off""#),
            Key("leeway", duration("24h") + #" or "off""#),
            Key("spool", "true or false"),
            Key("bundle_ids", #"an array of bundle ids such as ["com.example.app"]"#),
            Key("roots", #"an array of SHA-256 fingerprints of certificates such as ["sha256:63343abf…"]"#),
            Key("account_token", #""user" or "anonymous""#),
            Key("user_key", #"a key of Stripe's metadata such as "user_id""#),
            Key("packages", #"an array of package names such as ["com.example.app"]"#),
            Key(
                "audience",
                #"the push subscription's audience such as "https://example.com/ingest/play", or an array of them"#),
            Key(
                "sender", #"the address of a service account such as "push@example-project.iam.gserviceaccount.com""#),
            Key(
                "keys", #"a URL such as "https://www.googleapis.com/oauth2/v3/certs", or { file = "…" }"#,
                inner: keySet.keys),
            Key("api", secret, mayHoldSecret: true),
            Key("api_url", #"a URL such as "https://androidpublisher.googleapis.com""#),
            Key("allow_private", "true or false"),
            Key("account_id", #""user" or "anonymous""#),
        ])
    /// The inside of `keys` of a `[[source]]`.
    static let keySet = Table("source.keys", keys: [Key("file", "the path of a JSON Web Key Set", .required)])
    static let integration = Table(
        "integration", isRepeated: true,
        keys: [
            Key("name", #"a name such as "backend""#, .required),
            Key("url", #"a URL such as "https://api.example.com/hooks""#, .required),
            Key("events", #"an array of globs over event types such as ["SUBSCRIPTION_*"]"#, .required),
            Key("environments", #"an array of environments such as ["PRODUCTION"]"#),
            Key("sources", #"an array of names of sources such as ["purchasely"]"#),
            Key("where", #"a table from fields to values such as { "purchase.product" = "gold.*" }"#, holdsNames: true),
            Key("format", #""standard" or "source""#),
            Key("include", #"["access"]"#),
            Key("secret", secret, mayHoldSecret: true),
            Key("secrets", someSecrets, mayHoldSecret: true),
            Key(
                "headers", #"a table of strings or secrets such as { Authorization = { env = "…" } }"#,
                mayHoldSecret: true),
            Key("timeout", duration("15s")),
            Key("schedule", #"an array of durations such as ["5s", "5m", "2h"]"#),
            Key("jitter", "a number from 0 to 1 such as 0.2"),
            Key("give_up_after", duration("7d")),
            Key("permanent", "an array of HTTP statuses such as [400, 422]"),
            Key("concurrency", "a number of attempts such as 16"),
            Key("rate", #"a rate such as "100/s" or "30/m""#),
            Key("order", #""purchase" or "none""#),
            Key("confirm", "true or false"),
            Key("confirm_timeout", duration("5s")),
            Key("allow_private", "true or false"),
            Key("ca_file", "the path of a PEM file"),
        ])
    static let subscriptionGroup = Table(
        "subscription_group", isRepeated: true,
        keys: [
            Key("name", #"a name such as "premium""#, .required),
            Key("products", #"an array of product ids such as ["premium.monthly", "premium.yearly"]"#, .required),
        ])
    static let apiToken = Table(
        "api_token", isRepeated: true,
        keys: [
            Key("name", #"a name such as "backend""#, .required),
            Key("token", secret, .required, mayHoldSecret: true),
            Key("scopes", #"an array of "read" and "write""#, .required),
            Key("source", #"the name of a source such as "purchasely""#),
        ])
    static let journal = Table(
        "journal",
        keys: [
            Key("detail_limit", "a number of entries a second such as 2000"),
            Key("format", #""json" or "logfmt""#),
        ])
    static let retention = Table(
        "retention",
        keys: [
            Key("attempts", duration("30d")),
            Key("events", duration("400d")),
            Key("duplicates", duration("60d")),
        ])

    static let tables = [
        server, database, embedded, spool, source, integration, subscriptionGroup, apiToken, journal, retention,
    ]

    /// The forms of a secret; anything else in its place is clear text.
    static let secretForms = ["credential", "env", "file"]
    static let expectedSecret = secret
}
