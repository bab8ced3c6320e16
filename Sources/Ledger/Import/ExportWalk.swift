package import Postgres
package import Vocabulary

/// Reads the ledger as lines of an import, page by page: purchases with their transactions, then what is known of
/// holders beyond a purchase. What a page has is of one moment; what changes meanwhile on others may be missing, and
/// comes with its webhook.
package struct ExportWalk: Sendable {
    private enum Stage { case purchases, links, firsts, installs, changes }

    /// Nil: of all sources.
    private let source: String?
    private var stage: Stage? = .purchases
    private var purchase = Identifier(high: 0, low: 0)
    private var link = ExportStatements.LinkCursor()
    private var change: Int64 = 0
    /// Purchases of which only the newest word is written, because their state cannot be read or is longer than a line
    /// may be; and changes of holders that cannot be read.
    package private(set) var incomplete = 0
    /// Purchases that the database cannot read, with the reasons: nothing of them is written.
    package private(set) var unreadable: [(purchase: Identifier, reason: String)] = []

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
        let wanted = (purchase, Limits.exportPageRows)
        let seen = try await pool.withSession { session throws(DatabaseError) in
            try session.run(ExportStatements.seen, wanted)
        }
        let ids = seen.filter { isWanted($0.source) }.map(\.id)
        let found = try await lines(of: ids, in: pool)
        if let last = seen.last { purchase = last.id }
        if seen.count < Int(Limits.exportPageRows) { stage = .links }
        return found
    }

    /// The lines of purchases. Where the database cannot read something, or all of them in time, they are read in
    /// halves, and a purchase of what it cannot read is left out.
    private mutating func lines(
        of purchases: [Identifier], in pool: Pool
    ) async throws(DatabaseError) -> [ImportLine] {
        if purchases.isEmpty { return [] }
        do throws(DatabaseError) {
            let page = try await Self.read(purchases, in: pool).lines
            incomplete += page.incomplete
            return page.lines
        } catch {
            let isTooMuch = error.isStatementTimeout && purchases.count > 1
            guard isTooMuch || error.isUnreadableData && unreadable.count < Limits.exportUnreadableMax
            else { throw error }
            if purchases.count == 1 {
                unreadable.append((purchases[0], "\(error)"))
                return []
            }
            let middle = purchases.count / 2
            let first = try await lines(of: Array(purchases[..<middle]), in: pool)
            let second = try await lines(of: Array(purchases[middle...]), in: pool)
            return first + second
        }
    }

    private static func read(_ ids: [Identifier], in pool: Pool) async throws(DatabaseError) -> ExportPage {
        try await pool.withSession { session throws(DatabaseError) in
            try PeriodTables.inOneSnapshot(on: session) { session throws(DatabaseError) in
                let purchases = try session.run(ExportStatements.purchases, ids)
                let named = (
                    purchases.map(\.id), purchases.map(\.scope.source), purchases.map(\.purchase.key),
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
    }

    private mutating func nextLinks(
        _ statement: Statement<ExportStatements.After, ExportStatements.Link>, then following: Stage?, in pool: Pool
    ) async throws(DatabaseError) -> [ImportLine] {
        let wanted = (link.id, link.source, link.app, link.environment, Limits.exportPageRows)
        let page = try await pool.withSession { session throws(DatabaseError) in try session.run(statement, wanted) }
        if page.count < Int(Limits.exportPageRows) {
            stage = following
            link = ExportStatements.LinkCursor()
        } else if let last = page.last {
            link = last.place
        }
        return page.filter { isWanted($0.place.source) }.map(\.line)
    }

    private mutating func nextChanges(in pool: Pool) async throws(DatabaseError) -> [ImportLine] {
        let wanted = (change, Limits.exportPageRows)
        let page = try await pool.withSession { session throws(DatabaseError) in
            try session.run(ExportStatements.changes, wanted)
        }
        if page.count < Int(Limits.exportPageRows) { stage = nil }
        change = page.last?.row ?? change
        let changes = page.filter { isWanted($0.source) }
        let lines = changes.compactMap(\.line)
        incomplete += changes.count - lines.count
        return lines
    }

    private func isWanted(_ source: String) -> Bool {
        self.source.map { $0.utf8.elementsEqual(source.utf8) } ?? true
    }
}
