import Postgres
import TestSupport
import Testing

@testable import Ledger

/// An app has tables in the schema, of the same owner. Oracle: SQL.
@Suite("A ledger in a schema that others use, too", .timeLimit(.minutes(30)))
struct SharedSchemaTests {
    private static let others = """
        CREATE TABLE users (id bigserial PRIMARY KEY);
        CREATE SEQUENCE invoice_numbers;
        CREATE TABLE measurements (at timestamptz NOT NULL) PARTITION BY RANGE (at);
        CREATE TABLE measurements_old PARTITION OF measurements DEFAULT
        """

    private func lines(_ ledger: TestLedger, _ sql: String) throws -> [String] {
        try ledger.psql(sql).split(separator: "\n").map(String.init)
    }

    @Test("A role needs privileges of what is the ledger's, of all of it and of nothing else")
    func privileges() async throws {
        let ledger = try await TestLedger()
        let tables = try lines(
            ledger,
            """
            SELECT relname FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
            """)
        let sequences = try lines(
            ledger,
            """
            SELECT relname FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
                AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                                                          AND d.deptype = 'i')
            """)
        let partitions = try lines(
            ledger,
            """
            SELECT t.relid::regclass FROM pg_class c CROSS JOIN LATERAL pg_partition_tree(c.oid) AS t
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'p'
            """)
        try ledger.psql(Self.others)
        let role = "beside_\(ledger.database)"
        try ledger.psql("CREATE ROLE \(role) LOGIN")
        let settings = try TestLedger.settings(
            ledger.connectionString.replacing(/user=\w+/, with: "user=\(role)"))
        let (open, own) = (try pool(TestLedger.settings(ledger.connectionString)), pool(settings))
        open.start()
        own.start()
        let result: Result<Void, any Error>
        do {
            let missing = try await MissingPrivilege.read(from: own)
            func objects(_ privilege: String, _ kind: String) -> Set<String> {
                Set(missing.filter { $0.privilege == privilege && $0.object.hasPrefix(kind) }.map(\.object))
            }
            #expect(objects("SELECT", "TABLE ") == Set(tables.map { "TABLE \($0)" }))
            #expect(objects("USAGE", "SEQUENCE ") == Set(sequences.map { "SEQUENCE \($0)" }))
            #expect(objects("OWNER", "TABLE ") == ["TABLE attempts", "TABLE events", "TABLE messages"])
            let mark = try await LedgerMark.read(from: open)
            let problem = try await mark.problem(with: settings, insteadOf: open, isDeclared: true)
            #expect(problem?.contains("lacks the privilege") == true, "\(problem ?? "")")

            try ledger.psql(
                """
                GRANT CREATE ON SCHEMA public TO \(role);
                GRANT SELECT, INSERT, UPDATE, DELETE ON \(tables.joined(separator: ", ")) TO \(role);
                GRANT USAGE, UPDATE ON SEQUENCE \(sequences.joined(separator: ", ")) TO \(role)
                """)
            try ledger.psql(partitions.map { "ALTER TABLE \($0) OWNER TO \(role);" }.joined(separator: " "))
            #expect(try await MissingPrivilege.read(from: own) == [])
            #expect(try await mark.problem(with: settings, insteadOf: open, isDeclared: true) == nil)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        await own.close()
        await open.close()
        try result.get()
    }

    private func pool(_ settings: ConnectionSettings) -> Pool {
        Pool(
            settings, size: 1, waiting: Pool.Waiting(waitersMax: 4, limit: .seconds(120)),
            backoff: .milliseconds(50)...(.seconds(1)))
    }
}
