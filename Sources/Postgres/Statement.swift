/// One SQL statement with the types of its parameters and of its result's columns: a tuple for several, a plain type
/// for one, Void for none.
///
///     static let claim = Statement<(String, Int64), (Int64, [UInt8]?)>("claim", "SELECT … WHERE name = $1 …")
///
/// It is prepared once per connection under its name, so a name belongs to one text in the whole program. Where the
/// session is not the connection's, it is sent as text each time (`Pooling`).
@usableFromInline package struct Statement<Parameters: Sendable, Row: Sendable>: Sendable {
    @usableFromInline package let name: String
    @usableFromInline package let sql: String
    /// The declared types, in order; the server receives those of the parameters and must agree with those of the
    /// results.
    @usableFromInline package let parameterOIDs: [UInt32]
    @usableFromInline package let resultOIDs: [UInt32]
    @usableFromInline let encode: @Sendable (Parameters, inout ParameterBuffer) -> Void
    @usableFromInline let decode: @Sendable (inout RowCursor) throws(DecodingFailure) -> Row

    @inlinable
    package init<each P: PostgresValue, each R: PostgresValue>(_ name: StaticString, _ sql: SQL)
    where Parameters == (repeat each P), Row == (repeat each R) {
        self.name = name.description
        self.sql = sql.text
        parameterOIDs = Self.oids(repeat (each P).self)
        resultOIDs = Self.oids(repeat (each R).self)
        encode = { values, buffer in repeat buffer.append(each values) }
        decode = { (cursor: inout RowCursor) throws(DecodingFailure) -> (repeat each R) in
            (repeat try cursor.next((each R).self))
        }
    }

    /// A statement whose rows have names: `row` makes each of them from its columns, in the order of the columns. It is
    /// a struct's memberwise initialiser, or a function beside the SQL whose parameters name the columns:
    ///
    ///     struct Claimed { let id: Int64, attempts: Int16 }
    ///     static let claim = Statement<Int64, Claimed>("claim", "SELECT id, attempts …", row: Claimed.init)
    @inlinable
    package init<each P: PostgresValue, each R: PostgresValue>(
        _ name: StaticString, _ sql: SQL, row: @escaping @Sendable (repeat each R) -> Row
    ) where Parameters == (repeat each P) {
        self.name = name.description
        self.sql = sql.text
        parameterOIDs = Self.oids(repeat (each P).self)
        resultOIDs = Self.oids(repeat (each R).self)
        encode = { values, buffer in repeat buffer.append(each values) }
        decode = { (cursor: inout RowCursor) throws(DecodingFailure) -> Row in
            row(repeat try cursor.next((each R).self))
        }
    }

    @inlinable
    static func oids<each Value: PostgresValue>(_ types: repeat (each Value).Type) -> [UInt32] {
        var oids: [UInt32] = []
        repeat oids.append((each types).oid)
        return oids
    }
}

/// The server's types of a statement's parameters and of its result's columns.
package struct StatementDescription: Hashable, Sendable {
    package let parameterOIDs: [UInt32]
    package let resultOIDs: [UInt32]
}

/// The encoded parameters of one call, kept by the connection to reuse its memory.
@usableFromInline package struct ParameterBuffer {
    @usableFromInline var writer = ValueWriter()
    @usableFromInline var offsets: [Int] = []
    /// Bytes of each value; nil for NULL.
    @usableFromInline var lengths: [Int?] = []

    var byteCount: Int { writer.bytes.count }

    @inlinable
    mutating func append(_ value: some PostgresValue) {
        offsets.append(writer.bytes.count)
        lengths.append(writer.write(value))
    }

    /// Appends the array of a column's values.
    @inlinable
    mutating func append<Row>(_ column: Column<Row>, of rows: [Row]) {
        let start = writer.bytes.count
        offsets.append(start)
        writer.beginArray(rows.count, of: column.oid)
        for row in rows { column.write(row, &writer) }
        lengths.append(writer.bytes.count - start)
    }

    /// Appends a column's value of one row, which it writes behind its length.
    @inlinable
    mutating func append<Row>(_ column: Column<Row>, ofOne row: Row) {
        let frame = writer.bytes.count
        column.write(row, &writer)
        offsets.append(frame + 4)
        let isNull = writer.bytes[frame] == 0xff
        lengths.append(isNull ? nil : writer.bytes.count - frame - 4)
    }

    /// Empties the buffer; memory beyond `keeping` bytes is released, so that one large batch does not stay forever.
    mutating func reset(keeping: Int) {
        writer.removeAll(keepingCapacity: writer.bytes.capacity <= keeping)
        offsets.removeAll(keepingCapacity: true)
        lengths.removeAll(keepingCapacity: true)
    }

    /// Calls `body` with the arrays that libpq takes; the pointers are valid for the call. A value without bytes still
    /// has a pointer, because a null pointer means NULL.
    func withPointers<Result>(
        _ body: (_ values: [UnsafePointer<CChar>?], _ lengths: [Int32], _ formats: [Int32]) -> Result
    ) -> Result {
        writer.bytes.withUnsafeBytes { bytes in
            withUnsafeBytes(of: UInt8(0)) { empty in
                var values: [UnsafePointer<CChar>?] = []
                values.reserveCapacity(offsets.count)
                for (offset, length) in zip(offsets, lengths) {
                    let start = (length ?? 0) == 0 ? empty.baseAddress : bytes.baseAddress.map { $0 + offset }
                    values.append(length == nil ? nil : start?.assumingMemoryBound(to: CChar.self))
                }
                return body(
                    values, lengths.map { Int32(truncatingIfNeeded: $0 ?? 0) },
                    [Int32](repeating: 1, count: values.count))
            }
        }
    }
}
