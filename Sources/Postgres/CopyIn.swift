import CLibpq

/// The bytes of a copy (PostgreSQL manual, "COPY", "Binary Format"): each value encoded like a parameter and framed
/// like an array's element.
struct CopyRows {
    private var writer = ValueWriter()

    var bytes: [UInt8] { writer.bytes }

    mutating func begin() {
        // The signature, no flags, no extension of the header.
        writer.append([0x50, 0x47, 0x43, 0x4F, 0x50, 0x59, 0x0A, 0xFF, 0x0D, 0x0A, 0x00])
        writer.append(bigEndian: UInt64(0))
    }

    mutating func end() { writer.append(bigEndian: Int16(-1)) }

    mutating func add<Row>(_ row: Row, _ columns: [Column<Row>]) {
        writer.append(bigEndian: Int16(columns.count))
        for column in columns { column.write(row, &writer) }
    }

    /// Empties the buffer; memory beyond `keeping` bytes is released.
    mutating func reset(keeping: Int) { writer.removeAll(keepingCapacity: writer.bytes.capacity <= keeping) }
}

extension Session {
    /// Writes all rows by COPY or, throwing, none: a refusal fails the surrounding transaction, like that of any
    /// statement. For wide batches it costs the server less than an INSERT over arrays, because it fills pages and
    /// writes WAL by the page, but one more round trip. It has no ON CONFLICT.
    ///
    /// The server reads each value as the column's type: a value of another type is rejected for its length, or goes
    /// unnoticed. So the types of a copied table's columns are tested.
    package func copy<Row>(_ table: Table<Row>, _ rows: some Sequence<Row>) throws(DatabaseError) {
        wire.copyRows.reset(keeping: Wire.parameterBytesKept)
        wire.copyRows.begin()
        var count = 0
        for row in rows {
            wire.copyRows.add(row, table.columns)
            count += 1
        }
        wire.copyRows.end()
        let name = "copy_\(table.name)"
        guard wire.copyRows.bytes.count <= Wire.parameterBytesMax else {
            throw .protocolViolation(reason: "the rows of \(name) exceed \(Wire.parameterBytesMax) bytes")
        }
        let written = try wire.copyIn(name, table.copy, within: wire.settings.statementDeadline)
        guard written == count else {
            throw .protocolViolation(reason: "\(name) wrote \(written) rows of \(count)")
        }
    }
}

extension Wire {
    /// Sends the contents of `copyRows`; returns the rows that the server counted.
    fileprivate func copyIn(_ name: String, _ sql: String, within limit: Duration) throws(DatabaseError) -> Int {
        try beginCopy(sql, PGRES_COPY_IN, limit, statement: name)
        try copyRows.bytes.withUnsafeBytes { bytes in
            // `withUnsafeBytes` of Array passes typed errors on only as values.
            Result<Void, DatabaseError> { () throws(DatabaseError) in
                // In pieces, because libpq holds a copy of each until it is written to the socket.
                for start in stride(from: 0, to: bytes.count, by: Self.copyBytesQueued) {
                    let end = min(start + Self.copyBytesQueued, bytes.count)
                    try putCopy(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), limit)
                }
            }
        }.get()
        return try endCopy(limit, statement: name)
    }
}
