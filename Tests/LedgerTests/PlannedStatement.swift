import Postgres

/// A statement whose plan a test reads.
struct PlannedStatement: Sendable {
    let name: String
    let sql: String
    let types: [UInt32]

    init<Parameters, Row>(_ statement: Statement<Parameters, Row>) {
        (name, sql, types) = (statement.name, statement.sql, statement.parameterOIDs)
    }

    /// As `Planning.onceByIndex` sets it.
    private static let onceByIndex = """
        SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;
        SET enable_mergejoin = off
        """

    /// Lines of EXPLAIN.
    /// - Parameters:
    ///   - values: SQL of each parameter.
    ///   - planning: of the session.
    ///   - isRun: it is run and rolled back, and the plan says which parts were not.
    func plan(
        with values: [String], planning: Planning = .onceByIndex, isRun: Bool = false, in ledger: TestLedger
    ) throws -> [String] {
        let names = types.map { "\($0)::regtype::text" }.joined(separator: " || ', ' || ")
        let declared = names.isEmpty ? "" : "(\(try ledger.psql("SELECT \(names)")))"
        let given = values.isEmpty ? "" : "(\(values.joined(separator: ", ")))"
        let settings =
            switch planning {
            case .onceByIndex: Self.onceByIndex
            case .eachTime: "SET plan_cache_mode = force_custom_plan"
            }
        return try ledger.psql(
            """
            \(settings);
            BEGIN;
            PREPARE s \(declared) AS \(sql);
            EXPLAIN (COSTS OFF\(isRun ? ", ANALYZE, TIMING OFF, SUMMARY OFF" : "")) EXECUTE s \(given);
            ROLLBACK
            """
        ).split(separator: "\n").map(String.init)
    }
}
