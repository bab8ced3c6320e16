import CLibpq

/// Statements asked by libpq, which is not ours, over a connection that ends with them: what `psql -c` does, without
/// the start of a program, which took a fifth of the ledger's tests.
package enum Query {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Runs one or several statements in one transaction, as `psql -c` does.
    /// - Returns: the rows of all of them, each value as PostgreSQL writes it; null is "".
    /// - Throws: what libpq or the server says, `ERROR:  …` and the lines below it.
    package static func rows(_ sql: String, on connectionString: String) throws(Failure) -> [[String]] {
        let connection = PQconnectdb(connectionString)
        defer { PQfinish(connection) }
        guard PQstatus(connection) == CONNECTION_OK else { throw failure(of: connection) }
        PQsetNoticeProcessor(connection, { _, _ in }, nil)
        guard PQsendQuery(connection, sql) == 1 else { throw failure(of: connection) }
        var rows: [[String]] = []
        var first: Failure?
        while let result = PQgetResult(connection) {
            defer { PQclear(result) }
            switch PQresultStatus(result) {
            case PGRES_TUPLES_OK:
                for row in 0..<PQntuples(result) {
                    rows.append((0..<PQnfields(result)).map { String(cString: PQgetvalue(result, row, $0)) })
                }
            case PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: break
            case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH:
                throw Failure(description: "COPY between server and client is not for tests")
            default: first = first ?? Failure(description: String(cString: PQresultErrorMessage(result)))
            }
        }
        if let first { throw first }
        return rows
    }

    private static func failure(of connection: OpaquePointer?) -> Failure {
        Failure(description: String(cString: PQerrorMessage(connection)))
    }
}
