package import Postgres
package import Vocabulary

/// A webhook of a source, and whom it named when it was recorded.
package struct RecordedHolder: Sendable {
    package let source: String
    package let holder: Holder
    package let body: [UInt8]
    /// What a vendor's API answered about it; nil: none was asked.
    package let answer: [UInt8]?

    fileprivate init(source: String, holder: String, body: [UInt8], answer: [UInt8]?) {
        self.source = source
        self.holder = Holder(column: holder)
        self.body = body
        self.answer = answer
    }
}

/// The holders of the newest webhooks, to see whether a changed configuration names others.
package enum RecordedHolders {
    /// Newest events that are looked at, of all sources: no index leads to those of one.
    private static let eventsMax: Int32 = 1_000
    /// Webhooks that are returned: a body may have a megabyte.
    private static let webhooksMax: Int32 = 50

    static let newest = Statement<([String], Int32, Int32), RecordedHolder>(
        "recorded_holders",
        """
        SELECT e.source, e.holder, e.body, e.answer
        FROM (SELECT id, source, holder, type, name FROM events ORDER BY id DESC LIMIT $2) AS n
        \(RowByID.event("n.id", as: "e"))
        WHERE n.source = ANY ($1) AND n.holder <> '' AND n.type NOT LIKE 'posthouse.%'
            AND n.name <> 'posthouse.import'
        ORDER BY n.id DESC LIMIT $3
        """, row: RecordedHolder.init)

    /// Those of `sources` among the newest webhooks of the ledger, the newest first; also statements of the app's
    /// backend.
    package static func newest(of sources: [String], in pool: Pool) async throws -> [RecordedHolder] {
        if sources.isEmpty { return [] }
        return try await pool.withSession { session throws(DatabaseError) in
            try session.run(newest, (sources, eventsMax, webhooksMax))
        }
    }
}
