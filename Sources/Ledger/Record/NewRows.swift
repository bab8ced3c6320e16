import Postgres

/// Rows that a batch takes for new, in the order of their tables: inserted, or kept and copied together.
struct NewRows {
    private let mode: WriteMode
    private var kept: [CopiedRows] = []

    init(mode: WriteMode) { self.mode = mode }

    mutating func write<Row>(
        _ rows: [Row], to table: Table<Row>, on session: borrowing Session
    ) throws(DatabaseError) {
        if rows.isEmpty { return }
        switch mode {
        case .copy: kept.append(table.copied(rows))
        case .insert, .insertIfAbsent: try session.enqueue(table.inserting(rows), rows)
        }
    }

    /// Copies what is kept.
    mutating func copy(on session: borrowing Session) throws(DatabaseError) {
        try session.copy(kept)
        kept = []
    }
}
