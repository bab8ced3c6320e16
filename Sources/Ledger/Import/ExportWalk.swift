package import Postgres
import Vocabulary

/// Reads the ledger as lines of an import, page by page: purchases with their transactions, then what is known of
/// holders beyond a purchase. What a page has is of one moment; what changes meanwhile on others may be missing, and
/// comes with its webhook.
package struct ExportWalk: Sendable {
    private enum Stage { case purchases, links, firsts, installs, changes }

    /// Nil: of all sources.
    private let source: String?
    private var stage: Stage? = .purchases
    private var purchase = Identifier(high: 0, low: 0)
    private var link = ExportStatements.Place()
    private var change: Int64 = 0
    /// Purchases of which only the newest word is written, because their state cannot be read or is longer than a line
    /// may be; and changes of holders that cannot be read.
    package private(set) var incomplete = 0

    package var isDone: Bool { stage == nil }

    package init(source: String? = nil) { self.source = source }

    /// Reads the next page.
    /// - Returns: its lines; perhaps none.
    package mutating func next(in pool: Pool) async throws(DatabaseError) -> [ImportLine] {
        switch stage {
        case .purchases: try await nextPurchases(in: pool)
        case .links: try await nextLinks(ExportStatements.links, then: .firsts, in: pool)
        case .firsts: try await nextLinks(ExportStatements.firsts, then: .installs, in: pool)
        case .installs: try await nextLinks(ExportStatements.installs, then: .changes, in: pool)
        case .changes: try await nextChanges(in: pool)
        case nil: []
        }
    }

    private mutating func nextPurchases(in pool: Pool) async throws(DatabaseError) -> [ImportLine] {
        let wanted = (purchase, source, Limits.exportPageRows)
        let page = try await pool.withSession { session throws(DatabaseError) in
            try session.transaction(.snapshot) { session throws(DatabaseError) in
                let purchases = try session.run(ExportStatements.purchases, wanted)
                let ids = purchases.map(\.id)
                let named = (
                    ids, purchases.map(\.scope.source), purchases.map(\.purchase.key),
                    purchases.map(\.scope.environment)
                )
                return ExportPage(
                    purchases: purchases, holders: try session.run(ExportStatements.holders, ids),
                    transactions: try session.run(ExportStatements.transactions, ids),
                    said: try session.run(ExportStatements.said, ids),
                    tokens: try session.run(ExportStatements.tokens, named),
                    transfers: try session.run(ExportStatements.transfers, ids))
            }
        }
        if let last = page.purchases.last { purchase = last.id }
        if page.purchases.count < Int(Limits.exportPageRows) { stage = .links }
        let lines = page.lines
        incomplete += lines.incomplete
        return lines.lines
    }

    private mutating func nextLinks(
        _ statement: Statement<ExportStatements.After, ExportStatements.Link>, then following: Stage?, in pool: Pool
    ) async throws(DatabaseError) -> [ImportLine] {
        let wanted = (
            link.id, link.source, link.app, link.environment, source, Limits.exportPageRows
        )
        let page = try await pool.withSession { session throws(DatabaseError) in try session.run(statement, wanted) }
        if page.count < Int(Limits.exportPageRows) {
            stage = following
            link = ExportStatements.Place()
        } else if let last = page.last {
            link = last.place
        }
        return page.map(\.line)
    }

    private mutating func nextChanges(in pool: Pool) async throws(DatabaseError) -> [ImportLine] {
        let wanted = (change, source, Limits.exportPageRows)
        let page = try await pool.withSession { session throws(DatabaseError) in
            try session.run(ExportStatements.changes, wanted)
        }
        if page.count < Int(Limits.exportPageRows) { stage = nil }
        change = page.last?.row ?? change
        let lines = page.compactMap(\.line)
        incomplete += page.count - lines.count
        return lines
    }
}
