/// One column of a table, with its value in a row of this program.
@usableFromInline package struct Column<Row>: Sendable {
    @usableFromInline package let name: String
    /// The declared type: INSERT casts to the column's own type where it can, COPY reads the bytes as that type.
    @usableFromInline package let oid: UInt32
    @usableFromInline package let arrayOID: UInt32
    /// Appends the value after its length: the form in which arrays and COPY have it.
    @usableFromInline package let write: @Sendable (Row, inout ValueWriter) -> Void

    @inlinable package init<Value: PostgresValue & PostgresElement>(
        _ name: StaticString, _ value: @escaping @Sendable (Row) -> Value
    ) {
        self.name = name.description
        oid = Value.oid
        arrayOID = Value.arrayOID
        write = { row, writer in writer.writeFramed(value(row)) }
    }

    @usableFromInline static func names(_ columns: [Column]) -> String { columns.map(\.name).joined(separator: ", ") }

    /// The relation `new`, of one array for each column.
    @usableFromInline static func unnested(_ columns: [Column]) -> String {
        "unnest(\((1...columns.count).map { "$\($0)" }.joined(separator: ", "))) AS new (\(names(columns)))"
    }
}

/// A table as this program writes it. Each column is described once, and every way of writing rows comes from that:
///
///     static let items = Table<Item>("items", [Column("id", \.id), Column("note", \.note)])
///     try session.enqueue(items.insert, rows)
///     try session.copy([items.copied(rows)])
///
/// All names are literals, as the SQL of a statement is.
@usableFromInline package struct Table<Row: Sendable>: Sendable {
    @usableFromInline package let name: String
    @usableFromInline package let columns: [Column<Row>]
    /// Inserts the rows. One that is there already fails the statement, unless the table has an `onConflict`.
    @usableFromInline package let insert: Statement<[Row], ()>
    /// The same of one row, which takes the server half of the time: it makes no relation of arrays.
    @usableFromInline package let insertOne: Statement<[Row], ()>
    @usableFromInline let copy: String

    /// - Parameter onConflict: the end of `insert`: `ON CONFLICT …`.
    @inlinable
    package init(_ name: StaticString, _ columns: [Column<Row>], onConflict: StaticString = "") {
        self.name = name.description
        self.columns = columns
        insert = Statement(
            name: "insert_\(name)", sql: Self.insertion(name.description, columns, onConflict), over: columns)
        insertOne = Statement(
            name: "insert_one_\(name)",
            sql: """
                INSERT INTO \(name) (\(Column.names(columns)))
                VALUES (\((1...columns.count).map { "$\($0)" }.joined(separator: ", "))) \(onConflict)
                """, ofOne: columns)
        copy = "COPY \(name) (\(Column.names(columns))) FROM STDIN (FORMAT binary)"
    }

    /// The statement that inserts these rows, at least one.
    package func inserting(_ rows: [Row]) -> Statement<[Row], ()> { rows.count == 1 ? insertOne : insert }

    @usableFromInline static func insertion(_ table: String, _ columns: [Column<Row>], _ end: StaticString) -> String {
        "INSERT INTO \(table) (\(Column.names(columns))) SELECT * FROM \(Column.unnested(columns)) \(end)"
    }
}

extension Statement {
    /// `Table.insert` with another end: `ON CONFLICT … DO NOTHING RETURNING …`.
    @inlinable
    package init<Written, each R: PostgresValue>(
        _ name: StaticString, insertInto table: Table<Written>, _ end: StaticString
    ) where Parameters == [Written], Row == (repeat each R) {
        self.init(
            name: name.description, sql: Table.insertion(table.name, table.columns, end), over: table.columns)
    }

    /// A statement that reads its rows as the relation `new`:
    ///
    ///     Statement<[Item], ()>(
    ///         "…", "UPDATE items i SET note = new.note FROM", new: items.columns, "WHERE i.id = new.id")
    @inlinable
    package init<Written, each R: PostgresValue>(
        _ name: StaticString, _ start: StaticString, new columns: [Column<Written>], _ end: StaticString
    ) where Parameters == [Written], Row == (repeat each R) {
        self.init(name: name.description, sql: "\(start) \(Column.unnested(columns)) \(end)", over: columns)
    }

    /// The parameters are the values of one row.
    @inlinable
    init<Written>(name: String, sql: String, ofOne columns: [Column<Written>])
    where Parameters == [Written], Row == () {
        self.name = name
        self.sql = sql
        parameterOIDs = columns.map { $0.oid }
        resultOIDs = []
        encode = { rows, buffer in for column in columns { buffer.append(column, ofOne: rows[0]) } }
        decode = { (_: inout RowCursor) throws(DecodingFailure) -> () in }
    }

    /// The parameters are one array for each column.
    @inlinable
    init<Written, each R: PostgresValue>(name: String, sql: String, over columns: [Column<Written>])
    where Parameters == [Written], Row == (repeat each R) {
        self.name = name
        self.sql = sql
        // A key path here ends the process: Swift 6.3 does not find its type in a function over a pack.
        parameterOIDs = columns.map { $0.arrayOID }
        var resultOIDs: [UInt32] = []
        repeat resultOIDs.append((each R).oid)
        self.resultOIDs = resultOIDs
        encode = { rows, buffer in for column in columns { buffer.append(column, of: rows) } }
        decode = { (cursor: inout RowCursor) throws(DecodingFailure) -> (repeat each R) in
            (repeat try cursor.next((each R).self))
        }
    }
}
