import CLibpq

/// A connection of libpq; closed when its life ends.
struct ConnectionHandle: ~Copyable {
    let pointer: OpaquePointer

    deinit { PQfinish(pointer) }
}

/// A result of libpq; released when its life ends.
struct ResultHandle: ~Copyable {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { self.pointer = pointer }

    deinit { PQclear(pointer) }

    var status: ExecStatusType { PQresultStatus(pointer) }

    /// The rows that the command touched or returned; 0 for a command that counts none.
    var affectedRows: Int { Int(String(cString: PQcmdTuples(pointer))) ?? 0 }

    /// COMMIT, ROLLBACK, INSERT 0 1 …
    var commandTag: String { String(cString: PQcmdStatus(pointer)) }

    var columnOIDs: [UInt32] { (0..<PQnfields(pointer)).map { PQftype(pointer, $0) } }

    var parameterOIDs: [UInt32] { (0..<PQnparams(pointer)).map { PQparamtype(pointer, $0) } }

    func field(_ code: Int32) -> String? { PQresultErrorField(pointer, code).map { String(cString: $0) } }

    /// The server's ERROR in this result. An error without SQLSTATE comes from libpq itself.
    func refusal(statement: String?) -> Refusal? {
        guard let code = field(posthouse_diag_sqlstate) else { return nil }
        return Refusal(
            sqlState: SQLState(code), message: field(posthouse_diag_message_primary) ?? "no message",
            constraint: field(posthouse_diag_constraint_name), statement: statement)
    }

    /// All rows, decoded. The columns' types must have been compared with the declared ones before.
    func rows<Row>(
        _ decode: (inout RowCursor) throws(DecodingFailure) -> Row
    ) throws(DecodingFailure) -> [Row] {
        let count = PQntuples(pointer)
        var rows: [Row] = []
        rows.reserveCapacity(Int(count))
        for row in 0..<count {
            var cursor = RowCursor(result: pointer, row: row)
            rows.append(try decode(&cursor))
        }
        return rows
    }
}

/// Walks the columns of one row. Lives only inside `ResultHandle.rows`, which keeps the result alive.
@usableFromInline package struct RowCursor {
    let result: OpaquePointer
    let row: Int32
    private var column: Int32 = 0

    init(result: OpaquePointer, row: Int32) {
        self.result = result
        self.row = row
    }

    @inlinable
    mutating func next<Value: PostgresValue>(_: Value.Type) throws(DecodingFailure) -> Value {
        try Value.decode(nextBytes())
    }

    /// The next column's bytes; nil for NULL.
    @usableFromInline
    mutating func nextBytes() -> UnsafeRawBufferPointer? {
        defer { column += 1 }
        if PQgetisnull(result, row, column) != 0 { return nil }
        let length = Int(PQgetlength(result, row, column))
        return UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: length)
    }
}
