import CLibpq

/// A connection in use, inside a closure of `Connection.withSession` or `Pool.withSession`. Every call blocks the
/// connection's thread until the server has answered or the deadline has passed.
///
/// It cannot be copied and cannot leave the closure.
package struct Session: ~Copyable {
    let wire: Wire

    init(wire: Wire) { self.wire = wire }

    /// Whether the database can store every character. A database of another encoding refuses text with characters that
    /// it lacks.
    package var holdsUnicode: Bool {
        get throws(DatabaseError) {
            guard let encoding = PQparameterStatus(try wire.pointer(), "server_encoding") else { return true }
            return String(cString: encoding) == "UTF8"
        }
    }

    /// Runs a statement and returns its rows.
    /// - Parameter isPlannedAnyhow: outside a transaction it may be planned as the last transaction was
    ///   (`Planning.onceByIndex` says for which statements): this saves a round trip wherever that was not the default.
    package func run<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters, isPlannedAnyhow: Bool = false
    ) throws(DatabaseError) -> [Row] {
        if needsTransaction { return try answer(to: runAlone(statement, parameters)) }
        return try statement.rows(of: send(statement, parameters, isPlannedAnyhow: isPlannedAnyhow))
    }

    /// Runs a statement and returns the number of rows that it touched; returned rows are dropped.
    @discardableResult
    package func execute<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters
    ) throws(DatabaseError) -> Int {
        if needsTransaction { return try runAlone(statement, parameters).affectedRows }
        return try send(statement, parameters).affectedRows
    }

    /// Runs SQL of one or several statements without parameters, for migrations and settings. Several are one
    /// transaction unless they contain BEGIN and COMMIT.
    /// - Parameter limit: how long to wait instead of the settings' deadline. Lifting the server's own limit is left to
    ///   the SQL.
    package func script(_ sql: String, upTo limit: Duration? = nil) throws(DatabaseError) {
        if needsTransaction {
            return try transaction { session throws(DatabaseError) in try session.script(sql, upTo: limit) }
        }
        try planOutsideTransaction()
        try acknowledged {
            () throws(DatabaseError) in
            try wire.roundTrip(statement: nil, within: limit ?? wire.settings.statementDeadline) {
                PQsendQuery($0, sql)
            }
        }
    }

    /// Runs a statement outside a transaction, and says when it was sent: behind the round trips that may come before,
    /// and behind a pooler's wait for a session.
    package func runTimed<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters
    ) throws(DatabaseError) -> (sentAt: ContinuousClock.Instant, rows: [Row]) {
        if needsTransaction {
            return try transaction { session throws(DatabaseError) in
                try session.wire.collect()
                return (sentAt: ContinuousClock.now, rows: try session.run(statement, parameters))
            }
        }
        try planOutsideTransaction()
        try prepare(statement)
        return (sentAt: ContinuousClock.now, rows: try run(statement, parameters))
    }

    /// Prepares a statement and asks the server for the types of its parameters and columns. In a session of one's own
    /// alone.
    package func describe<Parameters, Row>(
        _ statement: Statement<Parameters, Row>
    ) throws(DatabaseError) -> StatementDescription {
        try prepare(statement)
        let result = try wire.roundTrip(statement: statement.name, within: wire.settings.statementDeadline) {
            PQsendDescribePrepared($0, statement.name)
        }
        return StatementDescription(parameterOIDs: result.parameterOIDs, resultOIDs: result.columnOIDs)
    }

    // MARK: The way of a statement

    private func send<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters, isPlannedAnyhow: Bool = false
    ) throws(DatabaseError) -> ResultHandle {
        if wire.pipelined.isEmpty, !isPlannedAnyhow { try planOutsideTransaction() }
        try prepare(statement)
        try encode(statement, parameters)
        if !wire.pipelined.isEmpty {
            // Sent together with the enqueued statements.
            try wire.enqueue(statement)
            return try wire.collectResults(within: wire.settings.statementDeadline)
        }
        return try acknowledged {
            () throws(DatabaseError) in
            try wire.roundTrip(statement: statement.name, within: wire.settings.statementDeadline) { connection in
                wire.queueExecution(of: statement, on: connection)
            }
        }
    }

    func encode<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters
    ) throws(DatabaseError) {
        wire.parameters.reset(keeping: Wire.parameterBytesKept)
        statement.encode(parameters, &wire.parameters)
        guard wire.parameters.byteCount <= Wire.parameterBytesMax else {
            throw .protocolViolation(
                reason: "the parameters of \(statement.name) exceed \(Wire.parameterBytesMax) bytes")
        }
    }

    /// Prepares the statement unless it is already prepared on this connection, or the session is not the connection's.
    func prepare<Parameters, Row>(_ statement: Statement<Parameters, Row>) throws(DatabaseError) {
        guard wire.settings.pooling == .session else { return }
        if let sql = wire.prepared[statement.name] {
            guard sql == statement.sql else {
                throw .protocolViolation(reason: "two statements are named \(statement.name)")
            }
            return
        }
        let result = try wire.roundTrip(statement: statement.name, within: wire.settings.statementDeadline) {
            PQsendPrepare(
                $0, statement.name, statement.sql, Int32(statement.parameterOIDs.count), statement.parameterOIDs)
        }
        _ = consume result
        wire.prepared[statement.name] = statement.sql
    }

    /// Runs a command. Outside a transaction it commits itself, and a warning about that commit means that it is not
    /// confirmed.
    @discardableResult
    private func acknowledged(
        _ command: () throws(DatabaseError) -> ResultHandle
    ) throws(DatabaseError) -> ResultHandle {
        let commitsItself = wire.transactionStatus == PQTRANS_IDLE && wire.pipelined.isEmpty
        let result = try command()
        if commitsItself, let reason = wire.notices.doubtAboutCommit(commitAlone: false) {
            throw .commitUnknown(reason: reason)
        }
        return result
    }
}

extension Statement {
    /// The rows of an answer, if its columns have the declared types.
    func rows(of result: borrowing ResultHandle) throws(DatabaseError) -> [Row] {
        let columns = result.columnOIDs
        guard columns == resultOIDs else {
            throw .protocolViolation(
                reason: "statement \(name) returns the types \(columns), declared are \(resultOIDs)")
        }
        do throws(DecodingFailure) {
            return try result.rows(decode)
        } catch {
            throw .protocolViolation(reason: "statement \(name) returned \(error.reason.rawValue)")
        }
    }
}

extension Wire {
    /// Bytes of the encoded parameters of one statement; PostgreSQL accepts messages of less than 1 GiB.
    static let parameterBytesMax = 512 << 20
    /// Bytes of memory that a connection keeps for its parameters between calls.
    static let parameterBytesKept = 1 << 20

    /// Queues the statement with the parameters in the buffer, all binary: by its name, or where it is not prepared by
    /// its text.
    func queueExecution<Parameters, Row>(
        of statement: Statement<Parameters, Row>, on connection: OpaquePointer
    ) -> Int32 {
        parameters.withPointers { values, lengths, formats in
            let count = Int32(values.count)
            return switch settings.pooling {
            case .session:
                PQsendQueryPrepared(connection, statement.name, count, values, lengths, formats, 1)
            case .transaction:
                PQsendQueryParams(
                    connection, statement.sql, count, statement.parameterOIDs, values, lengths, formats, 1)
            }
        }
    }
}
