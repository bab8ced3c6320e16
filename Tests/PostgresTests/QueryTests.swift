import TestSupport
import Testing

/// How tests ask a database. Oracle: sessions that are not kept.
@Suite("Kept sessions of tests", .timeLimit(.minutes(30)))
struct QueryTests {
    private let url: String

    init() throws { url = try TestCluster.shared.createDatabase() }

    @discardableResult
    private func kept(_ sql: String) throws -> String {
        try Query.rows(sql, on: url, inKeptSession: true).last?.last ?? ""
    }

    @discardableResult
    private func other(_ sql: String) throws -> String { try Query.rows(sql, on: url).last?.last ?? "" }

    @Test("A session is used again, and nothing is left in it: no setting, lock, statement or failed transaction")
    func asNew() throws {
        let process = "SELECT pg_backend_pid()"
        // Another test may end all of them between two calls.
        let isKept = try (0..<100).contains { _ in try kept(process) == kept(process) }
        #expect(isKept)
        #expect(throws: Query.Failure.self) { try kept("BEGIN; SELECT 1 / 0") }
        for _ in 1...2 {
            #expect(try kept("SET statement_timeout = '1h'; SHOW statement_timeout") == "1h")
            #expect(try kept("SELECT pg_advisory_lock(4711); PREPARE one AS SELECT 1; EXECUTE one") == "1")
        }
        #expect(try kept("SHOW statement_timeout") == "0")
        #expect(try other("SELECT pg_try_advisory_lock(4711)") == "t")
    }

    @Test("One that the server has ended is begun anew; new defaults are seen at once; a copy finds nobody connected")
    func ended() throws {
        let process = try kept("SELECT pg_backend_pid()")
        try other("SELECT pg_terminate_backend(\(process), 300000)")
        #expect(try kept("SELECT 1") == "1")
        let name = try kept("SELECT current_database()")
        for value in ["1h", "2h"] {
            try kept("ALTER DATABASE \(name) SET statement_timeout = '\(value)'")
            #expect(try kept("SHOW statement_timeout") == value)
        }
        _ = try TestCluster.shared.createDatabase(copyOf: name)
    }
}
