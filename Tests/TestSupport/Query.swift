import CLibpq
import Glibc

/// Statements asked by libpq, which is not ours: what `psql -c` does, without the start of a program, which took a
/// fifth of the ledger's tests.
package enum Query {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// For all that one call runs. A statement may wait for a lock that nobody releases, and the time limit of a test
    /// does not end a thread.
    private static let limit: Duration = .seconds(300)

    /// What changes how sessions begin, and so is not seen in one that has begun.
    private static let newDefaults = ["ALTER DATABASE", "ALTER ROLE", "ALTER SYSTEM"]

    /// Runs one or several statements in one transaction, as `psql -c` does.
    /// - Parameter isKept: in a session that then waits, as if it were new, for the next call with the same connection
    ///   string. Not where sessions are counted or all of them ended.
    /// - Returns: the rows of all of them, each value as PostgreSQL writes it; null is "".
    /// - Throws: what libpq or the server says, `ERROR:  …` and the lines below it; or that there was no answer
    ///   within `limit`.
    package static func rows(
        _ sql: String, on connectionString: String, inKeptSession isKept: Bool = false
    ) throws(Failure) -> [[String]] {
        let connection =
            if isKept, let idle = KeptSessions.take(connectionString) { idle } else { try connect(connectionString) }
        defer {
            let changesDefaults = newDefaults.contains { strstr(sql, $0) != nil }
            if changesDefaults { KeptSessions.end() }
            if isKept, !changesDefaults, isReset(connection) {
                KeptSessions.keep(connection, connectionString)
            } else {
                PQfinish(connection)
            }
        }
        return try run(sql, on: connection)
    }

    private static func connect(_ connectionString: String) throws(Failure) -> OpaquePointer {
        guard let connection = PQconnectdb(connectionString) else { throw Failure(description: "out of memory") }
        guard PQstatus(connection) == CONNECTION_OK else {
            defer { PQfinish(connection) }
            throw failure(of: connection)
        }
        PQsetNoticeProcessor(connection, { _, _ in }, nil)
        return connection
    }

    /// Takes back what statements have set, prepared and locked in a session; false: that is not possible.
    private static func isReset(_ connection: OpaquePointer) -> Bool {
        PQtransactionStatus(connection) == PQTRANS_IDLE && (try? run("DISCARD ALL", on: connection)) != nil
    }

    private static func run(_ sql: String, on connection: OpaquePointer) throws(Failure) -> [[String]] {
        guard PQsendQuery(connection, sql) == 1 else { throw failure(of: connection) }
        var rows: [[String]] = []
        var first: Failure?
        let end = ContinuousClock.now + limit
        while true {
            try awaitResult(of: connection, until: end)
            guard let result = PQgetResult(connection) else { break }
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

    /// Returns when the next result is there, or the connection is lost, which that result says.
    private static func awaitResult(of connection: OpaquePointer?, until end: ContinuousClock.Instant) throws(Failure) {
        while PQisBusy(connection) == 1 {
            guard ContinuousClock.now < end else { throw Failure(description: "no answer within \(limit)") }
            var descriptor = pollfd(fd: PQsocket(connection), events: Int16(POLLIN), revents: 0)
            // A second at most, so that the end is not missed.
            _ = poll(&descriptor, 1, 1_000)
            guard PQconsumeInput(connection) == 1 else { return }
        }
    }

    private static func failure(of connection: OpaquePointer?) -> Failure {
        Failure(description: String(cString: PQerrorMessage(connection)))
    }
}
