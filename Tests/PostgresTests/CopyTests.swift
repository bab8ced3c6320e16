import Postgres
import TestSupport
import Testing

/// COPY from one database into another, over two real connections. Oracle: SQL on both.
@Suite("Copies", .timeLimit(.minutes(30)))
struct CopyTests {
    private static let out = "COPY (SELECT id, note FROM items) TO STDOUT"
    private static let into = "COPY items (id, note) FROM STDIN"

    /// Two databases with the table; `rows` of about a kilobyte in the first.
    private func databases(rows: Int) throws -> (source: String, target: String) {
        let cluster = try TestCluster.shared
        let pair = (try cluster.createDatabase(), try cluster.createDatabase())
        for text in [pair.0, pair.1] { try cluster.psql(Sample.createTable, database: name(text)) }
        try cluster.psql(
            "INSERT INTO items SELECT n, repeat(n || E'\\t\\\\ \\n', 100) FROM generate_series(1, \(rows)) n",
            database: name(pair.0))
        return pair
    }

    private func name(_ connectionString: String) -> String {
        String(connectionString.split(separator: "=").last ?? "")
    }

    private func sum(_ connectionString: String) throws -> String {
        try TestCluster.shared.psql(
            "SELECT count(*), md5(string_agg(id || note, '' ORDER BY id)) FROM items", database: name(connectionString))
    }

    private func copy(
        _ source: String, _ target: String, _ out: String = CopyTests.out, step: Int = 1_000,
        goesOn: @escaping @Sendable (Int) -> Bool = { _ in true }
    ) async throws -> Result<[Int], CopyFailure> {
        let (from, to) = (try settings(source), try settings(target))
        let connection = try await Connection.open(to)
        let result = try await connection.withSession { target throws(DatabaseError) in
            try target.decidedTransaction { target throws(DatabaseError) in
                var result = Result<[Int], CopyFailure>.failure(.givenUp)
                try target.beside(from) { source throws(DatabaseError) in
                    do throws(CopyFailure) {
                        let (read, written) = try source.copy(
                            out, to: target, Self.into, stall: .seconds(300), step: step, goesOn: goesOn)
                        result = .success([read, written])
                    } catch {
                        result = .failure(error)
                    }
                }
                if case .success = result { return .commit(result) }
                return .rollBack(result)
            }
        }
        await connection.close()
        return result
    }

    @Test("Row for row, more than any buffer holds, whatever is in them")
    func whole() async throws {
        let (source, target) = try databases(rows: 30_000)
        #expect(try await copy(source, target).get() == [30_000, 30_000])
        #expect(try sum(target) == sum(source))
    }

    @Test("Given up half-way, cut off by the source, refused by the target: nothing is kept, and it says who failed")
    func failed() async throws {
        let (source, target) = try databases(rows: 5_000)
        let givenUp = try await copy(source, target, goesOn: { $0 < 3_000 })
        guard case .failure(.givenUp) = givenUp else {
            Issue.record("\(givenUp)")
            return
        }
        let cutOff = try await copy(
            source, target, "COPY (SELECT id, note FROM items WHERE 1 / (4000 - id) < 2) TO STDOUT")
        guard case .failure(.source(.refused)) = cutOff else {
            Issue.record("\(cutOff)")
            return
        }
        let missing = try await copy(source, target, "COPY nothing TO STDOUT")
        guard case .failure(.source(.refused)) = missing else {
            Issue.record("\(missing)")
            return
        }
        let twice = try await copy(source, target, "COPY (SELECT id % 4999, note FROM items) TO STDOUT")
        guard case .failure(.target(.refused(let refusal))) = twice else {
            Issue.record("\(twice)")
            return
        }
        #expect(refusal.sqlState == "23505")
        #expect(try sum(target).hasPrefix("0|"))
    }

    @Test("A number of a table that only the catalogue knows")
    func number() async throws {
        let (source, _) = try databases(rows: 12)
        let connection = try await Connection.open(settings(source))
        let numbers = try await connection.withSession { session throws(DatabaseError) in
            [
                try session.number("SELECT count(*) FROM items"),
                try session.number("SELECT id FROM items WHERE false", stall: .seconds(300)),
            ]
        }
        #expect(numbers == [12, nil])
        // The connection is as good as before.
        #expect(
            try await connection.withSession { session throws(DatabaseError) in try session.run(Sample.count, ()) } == [
                12
            ])
        await connection.close()
    }
}
