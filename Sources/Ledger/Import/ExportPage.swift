import Vocabulary

/// Purchases with all that belongs to them, as lines. Pure.
struct ExportPage: Sendable {
    let purchases: [ExportStatements.Bought]
    let holders: [ExportStatements.HolderRow]
    let transactions: [ExportStatements.Transacted]
    let said: [ExportStatements.Said]
    let tokens: [ExportStatements.Token]
    let transfers: [ExportStatements.TransferCount]

    /// A line with all that is known of who had the purchase, then one for each transaction.
    /// - Returns: the lines, and the number of purchases of which only the newest word is among them.
    var lines: (lines: [ImportLine], incomplete: Int) {
        let holding = Dictionary(grouping: holders, by: \.purchase)
        let transacted = Dictionary(grouping: transactions, by: \.purchase)
        let named = Dictionary(grouping: tokens, by: \.purchase)
        let passed = Dictionary(grouping: transfers, by: \.purchase)
        let said = Dictionary(grouping: said, by: \.purchase)
        var (lines, incomplete): ([ImportLine], Int) = ([], 0)
        for purchase in purchases {
            let transactions = transacted[purchase.id] ?? []
            let said = Dictionary(firstOf: (said[purchase.id] ?? []).map { (Array($0.transaction.utf8), $0) })
            // A purchase that nobody was ever stated to have has no holder to name.
            guard let holders = holding[purchase.id], let first = holders.first else { continue }
            let newest = transactions.first(where: \.isNewest)
            if let whole = whole(purchase, holders, newest, named[purchase.id] ?? []) {
                lines.append(whole)
            } else {
                incomplete += 1
                lines += words(purchase, holders, newest, passed[purchase.id] ?? [])
            }
            lines += transactions.map { line(purchase, first.holder, $0, said[Array($0.id.utf8)]) }
        }
        return (lines, incomplete)
    }

    /// - Returns: nil if the state cannot be read, or is too long for a line.
    private func whole(
        _ purchase: ExportStatements.Bought, _ holders: [ExportStatements.HolderRow],
        _ newest: ExportStatements.Transacted?, _ tokens: [ExportStatements.Token]
    ) -> ImportLine? {
        guard let state = purchase.state else { return nil }
        var stated = ImportLine.Stated(purchase: purchase.purchase, isActive: holders[0].isActive)
        stated.history = StatedHistory(
            state: state,
            holders: holders.map { StatedHistory.Holding(holder: $0.holder, isActive: $0.isActive, asOf: $0.asOf) })
        stated.tokens = tokens.map {
            ImportLine.Token(id: $0.id, isEnvironmentKnown: $0.isEnvironmentKnown, isReplaced: $0.isReplaced)
        }
        if purchase.asOf != holders[0].asOf { stated.statedAt = purchase.asOf }
        let line = ImportLine(
            scope: purchase.scope, holder: holders[0].holder, asOf: holders[0].asOf, until: newest?.until,
            subject: .purchase(stated))
        return line.canonical.count > Limits.importLineBytesMax ? nil : line
    }

    /// What each holder was last stated to have, and the numbers of transfers with the first.
    private func words(
        _ purchase: ExportStatements.Bought, _ holders: [ExportStatements.HolderRow],
        _ newest: ExportStatements.Transacted?, _ transfers: [ExportStatements.TransferCount]
    ) -> [ImportLine] {
        holders.enumerated().map { index, held in
            var stated = ImportLine.Stated(purchase: purchase.purchase, isActive: held.isActive)
            let statedAt = held.isActive ? newest?.asOf ?? purchase.asOf : purchase.asOf
            if statedAt != held.asOf { stated.statedAt = statedAt }
            if index == 0 {
                stated.transfers = transfers.map {
                    ImportLine.TransferCount(
                        from: $0.from, to: $0.to, ordinal: min(Int($0.ordinal), Limits.importOrdinalMax))
                }
            }
            if held.isActive, let newest { stated.name(newest) }
            // What ended reached no further than it is known to: a later end is not that holder's.
            return ImportLine(
                scope: purchase.scope, holder: held.holder, asOf: held.asOf,
                until: held.isActive ? newest?.until : held.asOf, subject: .purchase(stated))
        }
    }

    private func line(
        _ purchase: ExportStatements.Bought, _ holder: Holder, _ transaction: ExportStatements.Transacted,
        _ said: ExportStatements.Said?
    ) -> ImportLine {
        let known = purchase.purchase
        // Product and plan are of another time, and with the purchase's own line.
        let named = Purchase(
            key: known.key, kind: known.kind, store: known.store, product: nil, plan: nil, subscriptionID: nil)
        var stated = ImportLine.Stated(purchase: named, isActive: nil)
        stated.name(transaction)
        stated.previousOfferType = said?.previousOffer
        stated.isRefunded = said?.isRefunded ?? false
        return ImportLine(
            scope: purchase.scope, holder: holder, asOf: transaction.asOf, until: transaction.until,
            subject: .purchase(stated))
    }
}

extension ImportLine.Stated {
    fileprivate mutating func name(_ transaction: ExportStatements.Transacted) {
        let isUnnamed = transaction.id == ImportLine.unnamedTransaction
        transactionID = isUnnamed ? nil : transaction.id
        originalTransactionID = transaction.original
        purchasedAt = transaction.purchasedAt
        offerType = transaction.offerType
        status = transaction.status
    }
}
