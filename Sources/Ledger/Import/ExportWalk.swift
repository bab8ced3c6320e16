package import Postgres
import Vocabulary

/// Reads the ledger as lines of an import, page by page: purchases with their holders, transactions and numbers of
/// transfers, then who anonymous ids are, then which install each identity identified on first. What a page has is of
/// one moment; what changes meanwhile on others may be missing, and comes with its webhook.
package struct ExportWalk: Sendable {
    private enum Stage { case purchases, links, firsts }

    /// Nil: of all sources.
    private let source: String?
    private var stage: Stage? = .purchases
    private var purchase = Identifier(high: 0, low: 0)
    private var link = ExportStatements.Place()

    package var isDone: Bool { stage == nil }

    package init(source: String? = nil) { self.source = source }

    /// Reads the next page.
    /// - Returns: its lines; perhaps none.
    package mutating func next(in pool: Pool) async throws(DatabaseError) -> [ImportLine] {
        switch stage {
        case .purchases: try await nextPurchases(in: pool)
        case .links: try await nextLinks(ExportStatements.links, then: .firsts, in: pool)
        case .firsts: try await nextLinks(ExportStatements.firsts, then: nil, in: pool)
        case nil: []
        }
    }

    private mutating func nextPurchases(in pool: Pool) async throws(DatabaseError) -> [ImportLine] {
        let wanted = (purchase, source, Limits.exportPageRows)
        let page = try await pool.withSession { session throws(DatabaseError) in
            try session.transaction(.snapshot) { session throws(DatabaseError) in
                let purchases = try session.run(ExportStatements.purchases, wanted)
                let ids = purchases.map(\.id)
                return ExportPage(
                    purchases: purchases, holders: try session.run(ExportStatements.holders, ids),
                    transactions: try session.run(ExportStatements.transactions, ids),
                    transfers: try session.run(ExportStatements.transfers, ids))
            }
        }
        if let last = page.purchases.last { purchase = last.id }
        if page.purchases.count < Int(Limits.exportPageRows) { stage = .links }
        return page.lines
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
}

/// Purchases with all that belongs to them.
struct ExportPage: Sendable {
    let purchases: [ExportStatements.Bought]
    let holders: [ExportStatements.Held]
    let transactions: [ExportStatements.Transacted]
    let transfers: [ExportStatements.Passed]

    var lines: [ImportLine] {
        let holding = Dictionary(grouping: holders, by: \.purchase)
        let transacted = Dictionary(grouping: transactions, by: \.purchase)
        let passed = Dictionary(grouping: transfers, by: \.purchase)
        return purchases.flatMap { purchase in
            lines(
                of: purchase, holding[purchase.id] ?? [], transacted[purchase.id] ?? [], passed[purchase.id] ?? [])
        }
    }

    /// One line for each holder and for each transaction, but that the newest transaction stands with those who have
    /// the purchase. Numbers of transfers stand with the first.
    private func lines(
        of purchase: ExportStatements.Bought, _ holders: [ExportStatements.Held],
        _ transactions: [ExportStatements.Transacted], _ transfers: [ExportStatements.Passed]
    ) -> [ImportLine] {
        // A purchase that nobody was ever stated to have has no holder to name.
        guard let first = holders.first else { return [] }
        let newest = transactions.first { $0.isNewest }
        let isShown = holders.contains(where: \.isActive)
        var stated = transactions.filter { !($0.isNewest && isShown) }.map { transaction in
            line(purchase, first, nil, transaction, asOf: transaction.asOf)
        }
        stated += holders.map { line(purchase, $0, $0.isActive, $0.isActive ? newest : nil, asOf: $0.asOf) }
        stated += period(of: purchase, first)
        guard !transfers.isEmpty, case .purchase(var leading) = stated[0].subject else { return stated }
        leading.transfers = transfers.map {
            ImportLine.Passed(from: $0.from, to: $0.to, ordinal: min(Int($0.ordinal), Limits.importOrdinalMax))
        }
        let leader = stated[0]
        stated[0] = ImportLine(
            scope: leader.scope, holder: leader.holder, asOf: leader.asOf, until: leader.until,
            subject: .purchase(leading))
        return stated
    }

    /// Whether a purchase that several hold together runs: its holders' own lines do not say it.
    private func period(of purchase: ExportStatements.Bought, _ first: ExportStatements.Held) -> [ImportLine] {
        // While it runs and nobody has it, nobody can be named who was given it.
        guard let period = purchase.together?.period, first.isActive || !period.isOn else { return [] }
        let stated = ImportLine.Stated(purchase: purchase.purchase, isActive: period.isOn)
        return [
            ImportLine(
                scope: purchase.scope, holder: first.holder, asOf: period.at, until: nil, subject: .purchase(stated))
        ]
    }

    private func line(
        _ purchase: ExportStatements.Bought, _ held: ExportStatements.Held, _ isActive: Bool?,
        _ transaction: ExportStatements.Transacted?, asOf: Timestamp
    ) -> ImportLine {
        var stated = ImportLine.Stated(purchase: purchase.purchase, isActive: isActive)
        if let isActive {
            stated.isFamilyShared = purchase.sharers.contains(held.holder) || purchase.together != nil
            stated.isActive = purchase.together.map { $0.given.contains(held.holder) } ?? isActive
        }
        if let transaction {
            let isUnnamed = transaction.id == ImportLine.unnamedTransaction
            stated.transactionID = isUnnamed ? nil : transaction.id
            stated.originalTransactionID = transaction.original
            stated.purchasedAt = transaction.purchasedAt
            stated.offerType = transaction.offerType
            stated.previousOfferType = transaction.previousOffer
            stated.status = transaction.status
            stated.isRefunded = transaction.isRefunded
            if transaction.asOf != asOf { stated.statedAt = transaction.asOf }
        }
        // What ended reached no further than it is known to: a later end is not that holder's.
        let until = stated.isActive == false ? asOf : transaction?.until
        return ImportLine(
            scope: purchase.scope, holder: held.holder, asOf: asOf, until: until, subject: .purchase(stated))
    }
}
