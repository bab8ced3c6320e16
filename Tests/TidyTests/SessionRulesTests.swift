import Testing

/// Behind a pooler that gives sessions to other clients nothing may be left in one, nor be expected there
/// (`Sources/Postgres/Pooling.swift`). So SQL that relies on a session is in the files that are listed here, each with
/// why it may be.
@Suite("Session rules")
struct SessionRulesTests {
    /// What they do is done on a connection with a session of its own: `[database] direct_url`, or `url` where no
    /// pooler changes sessions.
    private static let allowed = [
        "Sources/Postgres/Opening.swift": "sets the session where it is the connection's own",
        "Sources/Postgres/Planning.swift": "plans statements once where they are prepared in a session of one's own",
        "Sources/Ledger/Queue/WakeUps.swift": "listens on the direct connection",
        "Sources/Ledger/Schema/IndexMigration.swift": "builds indexes on the direct connection, in no transaction",
        "Sources/Ledger/Schema/SwitchGate.swift": "a time-out of the connection that builds indexes",
        "Sources/Ledger/Schema/PoolerProbe.swift": "leaves a mark in a session to see whose it is",
    ]

    private static var rules: [(what: String, pattern: Regex<Substring>)] {
        [
            ("a setting of the session", #/"SET (?!LOCAL )/#),
            ("a setting of the session", #/\bSET (?:SESSION )?(?:\w+_timeout|\w+_path|enable_\w+|plan_cache_mode)\b/#),
            ("a setting of the session", #/set_config\([^()]*(?:\([^()]*\)[^()]*)*, false\)/#),
            ("an isolation level beside `Isolation`", #/SET TRANSACTION|SESSION CHARACTERISTICS/#),
            ("an advisory lock of the session", #/pg_(?:try_)?advisory_(?:lock|unlock)/#),
            ("a temporary table", #/\b(?:TEMP|TEMPORARY) (?:TABLE|SEQUENCE|VIEW)\b/#),
            ("notifications", #/"(?:UN)?LISTEN /#),
            ("a cursor beyond its transaction", #/\bWITH HOLD\b/#),
            ("a prepared statement", #/"(?:PREPARE|EXECUTE|DEALLOCATE|DISCARD) /#),
            ("the session's last number of a sequence", #/\b(?:currval|lastval)\(/#),
            ("what no transaction can hold", #/\bCONCURRENTLY\b|"VACUUM/#),
        ]
    }

    @Test("SQL that relies on the session is where a session of one's own is")
    func places() {
        var found: Set<String> = []
        // Made once: a pattern is compiled where it is made.
        let rules = Self.rules
        for file in SourceTree.sources where ["Ledger", "Postgres"].contains(file.target) {
            for (index, line) in file.code.enumerated() {
                for rule in rules where line.firstMatch(of: rule.pattern) != nil {
                    if Self.allowed[file.path] != nil {
                        found.insert(file.path)
                    } else {
                        Issue.record("\(file.path):\(index + 1) relies on the session (\(rule.what)): \(line)")
                    }
                }
            }
        }
        #expect(found == Set(Self.allowed.keys), "a file that needs no exception has none")
    }

    @Test("Each rule finds what it is for, and nothing of a transaction's")
    func rules() {
        let rules = Self.rules
        func matches(_ line: String) -> Bool { rules.contains { line.firstMatch(of: $0.pattern) != nil } }
        for line in [
            #"session.script("SET lock_timeout = 500")"#, "SET statement_timeout = 30;",
            "set_config('jit', 'off', false)", "SELECT pg_advisory_lock($1)", "SELECT pg_try_advisory_lock($1)",
            "SELECT pg_advisory_unlock($1)", "CREATE TEMPORARY TABLE x ()", "CREATE TEMP TABLE x ()",
            #"script("LISTEN x")"#, "DECLARE c CURSOR WITH HOLD FOR", #""DISCARD ALL""#, "SELECT currval('a')",
            "CREATE INDEX CONCURRENTLY x", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        ] { #expect(matches(line), "\(line)") }
        for line in [
            #"session.script("SET LOCAL lock_timeout = 500")"#, "SET LOCAL statement_timeout = 0; ANALYZE x",
            "set_config('statement_timeout', least(setting::bigint, 1)::text, true)", "pg_advisory_xact_lock($1)",
            "pg_try_advisory_xact_lock($1)", "        SET kind = new.kind, product = new.product",
            "pg_advisory_xact_lock_shared($1)",
        ] { #expect(!matches(line), "\(line)") }
    }
}
