package import Postgres

/// What a database holds of a ledger. The database may have no schema yet.
package struct LedgerContents: Sendable, Equatable {
    /// Whether a webhook was ever recorded there: events, or purchases, which outlive them.
    package let hasHistory: Bool
    /// Deliveries still to do.
    package let unsettledDeliveries: Int64
    /// Webhooks in quarantine, which were acknowledged like every other.
    package let quarantined: Int64

    package var isEmpty: Bool { !hasHistory && unsettledDeliveries == 0 && quarantined == 0 }

    static let hasSchema = Statement<(), Bool>(
        "contents_has_schema",
        """
        SELECT to_regclass('events') IS NOT NULL AND to_regclass('purchases') IS NOT NULL
           AND to_regclass('deliveries') IS NOT NULL AND to_regclass('quarantine') IS NOT NULL
        """)
    static let contents = Statement<(), LedgerContents>(
        "contents",
        """
        SELECT EXISTS (SELECT FROM events) OR EXISTS (SELECT FROM purchases), (SELECT count(*) FROM deliveries),
            (SELECT count(*) FROM quarantine)
        """, row: LedgerContents.init)

    static let isBegun = Statement<(), Bool>(
        "contents_is_begun",
        """
        SELECT EXISTS (SELECT FROM events) OR EXISTS (SELECT FROM purchases) OR EXISTS (SELECT FROM deliveries)
            OR EXISTS (SELECT FROM quarantine)
        """)
    static let hasMoves = Statement<(), Bool>("contents_has_moves", "SELECT to_regclass('moves') IS NOT NULL")
    static let isMoved = Statement<(), Bool>("contents_is_moved", "SELECT EXISTS (SELECT FROM moves)")

    /// Whether a ledger was begun there by a webhook, or moved there, though it were empty. Both stay in a dump.
    package static func isLedger(on session: borrowing Session) throws(DatabaseError) -> Bool {
        guard try session.run(hasSchema, ()).first == true else { return false }
        if try session.run(isBegun, ()).first == true { return true }
        // Schemas before the third have no such table.
        guard try session.run(hasMoves, ()).first == true else { return false }
        return try session.run(isMoved, ()).first == true
    }

    package static func read(from pool: Pool) async throws -> LedgerContents {
        try await pool.withSession { session throws(DatabaseError) in
            guard try session.run(hasSchema, ()).first == true,
                let contents = try session.run(contents, ()).first
            else { return LedgerContents(hasHistory: false, unsettledDeliveries: 0, quarantined: 0) }
            return contents
        }
    }
}
