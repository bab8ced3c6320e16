import CLibpq

/// Rows of one table in the form in which they are copied (PostgreSQL manual, "COPY", "Binary Format"): each value
/// encoded like a parameter and framed like an array's element.
@usableFromInline package struct CopiedRows {
    /// The name that a refusal has.
    @usableFromInline let name: String
    @usableFromInline let sql: String
    @usableFromInline let count: Int
    @usableFromInline let write: (inout ValueWriter) -> Void

    @inlinable
    init(name: String, sql: String, count: Int, write: @escaping (inout ValueWriter) -> Void) {
        self.name = name
        self.sql = sql
        self.count = count
        self.write = write
    }
}

extension Table {
    /// These rows, for `Session.copy`.
    @inlinable
    package func copied(_ rows: [Row]) -> CopiedRows {
        CopiedRows(name: "copy_\(name)", sql: copy, count: rows.count) { [columns] writer in
            for row in rows {
                writer.append(bigEndian: Int16(truncatingIfNeeded: columns.count))
                for column in columns { column.write(row, &writer) }
            }
        }
    }
}

extension ValueWriter {
    /// Writes what a copy sends for one table, in place of what was here; memory beyond `keeping` bytes is released.
    fileprivate mutating func fill(with rows: CopiedRows, keeping: Int) {
        removeAll(keepingCapacity: bytes.capacity <= keeping)
        // The signature, no flags, no extension of the header.
        append([0x50, 0x47, 0x43, 0x4F, 0x50, 0x59, 0x0A, 0xFF, 0x0D, 0x0A, 0x00])
        append(bigEndian: UInt64(0))
        rows.write(&self)
        append(bigEndian: Int16(-1))
    }
}

extension Session {
    /// Writes all rows of these tables, in their order, by COPY or, throwing, none: a refusal fails the surrounding
    /// transaction, like that of any statement. For wide batches it costs the server less than an INSERT over arrays,
    /// because it fills pages and writes WAL by the page, but a wait for each table and one more. It has no ON
    /// CONFLICT. A table without rows costs nothing.
    ///
    /// The server reads each value as the column's type: a value of another type is rejected for its length, or goes
    /// unnoticed. So the types of a copied table's columns are tested.
    package func copy(_ tables: [CopiedRows]) throws(DatabaseError) {
        try wire.copyIn(tables.filter { $0.count > 0 }, within: wire.settings.statementDeadline)
    }
}

extension Wire {
    /// Copies into one table after the other. All commands are sent as one, so that the server goes on to the next
    /// table by itself; rows are encoded while it is busy with those before.
    fileprivate func copyIn(_ tables: [CopiedRows], within limit: Duration) throws(DatabaseError) {
        guard let first = tables.first else { return }
        try sendCopy(tables.map(\.sql).joined(separator: "; "), limit)
        copyRows.fill(with: first, keeping: Self.parameterBytesKept)
        for (index, table) in tables.enumerated() {
            let isLast = index == tables.count - 1
            try awaitCopy(PGRES_COPY_IN, begin(limit), statement: table.name)
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
            try sendCopyEnd(limit)
            if !isLast { copyRows.fill(with: tables[index + 1], keeping: Self.parameterBytesKept) }
            let written = try copyResult(limit, statement: table.name, isLast: isLast)
            guard written == table.count else {
                let reason = "\(table.name) wrote \(written) rows of \(table.count)"
                // The server waits for the next table's rows: the connection is of no use inside a copy.
                if !isLast { end(reason) }
                throw .protocolViolation(reason: reason)
            }
        }
    }
}
