/// One SQL statement with the types of its parameters and of its result's columns: a tuple for several, a plain type
/// for one, Void for none.
///
///     static let claim = Statement<(String, Int64), (Int64, [UInt8]?)>("claim", "SELECT … WHERE name = $1 …")
///
/// It is prepared once per connection under its name, so a name belongs to one text in the whole program. Name and SQL
/// are literals: nothing from outside can become part of a statement.
package struct Statement<Parameters: Sendable, Row: Sendable>: Sendable {
    package let name: String
    package let sql: String
    /// The declared types, in order; the server receives those of the parameters and must agree with those of the
    /// results.
    package let parameterOIDs: [UInt32]
    package let resultOIDs: [UInt32]
    let encode: @Sendable (Parameters, inout ParameterBuffer) -> Void
    let decode: @Sendable (inout RowCursor) throws(DecodingFailure) -> Row

    package init<each P: PostgresValue, each R: PostgresValue>(_ name: StaticString, _ sql: StaticString)
    where Parameters == (repeat each P), Row == (repeat each R) {
        self.name = name.description
        self.sql = sql.description
        var parameterOIDs: [UInt32] = []
        var resultOIDs: [UInt32] = []
        repeat parameterOIDs.append((each P).oid)
        repeat resultOIDs.append((each R).oid)
        self.parameterOIDs = parameterOIDs
        self.resultOIDs = resultOIDs
        encode = { values, buffer in repeat buffer.append(each values) }
        decode = { (cursor: inout RowCursor) throws(DecodingFailure) -> (repeat each R) in
            (repeat try cursor.next((each R).self))
        }
    }

    /// A statement whose rows are structs: each column of the result is an argument of `row`, in the order of the
    /// columns. A struct's memberwise initialiser names them beside the SQL:
    ///
    ///     struct Claimed { let id: Int64, attempts: Int16 }
    ///     static let claim = Statement<Int64, Claimed>("claim", "SELECT id, attempts …", row: Claimed.init)
    package init<each P: PostgresValue, each R: PostgresValue>(
        _ name: StaticString, _ sql: StaticString, row: @escaping @Sendable (repeat each R) -> Row
    ) where Parameters == (repeat each P) {
        self.name = name.description
        self.sql = sql.description
        var parameterOIDs: [UInt32] = []
        var resultOIDs: [UInt32] = []
        repeat parameterOIDs.append((each P).oid)
        repeat resultOIDs.append((each R).oid)
        self.parameterOIDs = parameterOIDs
        self.resultOIDs = resultOIDs
        encode = { values, buffer in repeat buffer.append(each values) }
        decode = { (cursor: inout RowCursor) throws(DecodingFailure) -> Row in
            row(repeat try cursor.next((each R).self))
        }
    }
}

/// The server's types of a statement's parameters and of its result's columns.
package struct StatementDescription: Hashable, Sendable {
    package let parameterOIDs: [UInt32]
    package let resultOIDs: [UInt32]
}

/// The encoded parameters of one call, kept by the connection to reuse its memory.
struct ParameterBuffer {
    private var writer = ValueWriter()
    private var offsets: [Int] = []
    /// Bytes of each value; nil for NULL.
    private var lengths: [Int?] = []

    var byteCount: Int { writer.bytes.count }

    mutating func append(_ value: some PostgresValue) {
        offsets.append(writer.bytes.count)
        lengths.append(writer.write(value))
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
