import Postgres
import Vocabulary

/// A period of a purchase, as a transaction states it.
struct PurchasePeriod: Hashable {
    /// The purchase.
    let purchase: Identifier
    /// The store's id of the transaction, as bytes.
    let id: [UInt8]
    let purchasedAt: Timestamp
    /// Nil: no end.
    let end: Timestamp?
    let offerType: String?
    /// The newest event that states it.
    let asOf: Timestamp
    let asOfEvent: Identifier
}

/// Decides whether a renewal converts a trial, for vendors who call it a renewal like any other. Only what is known of
/// the purchase can say it: that the period before was a free trial.
///
/// The answer is the best at the moment at which the renewal is recorded, and what was sent stands: a trial of which
/// nothing is known yet is not waited for. Who has access does not depend on it.
enum TrialConversion {
    /// The type of a renewal that converts a trial.
    static let type = "TRIAL_CONVERTED"
    /// `offer_type` of a trial.
    private static let freeTrial = "FREE_TRIAL"
    /// How long after the end of a trial the period begins that it was converted to: a store charges a day before the
    /// end or after it. If it begins later, the period in between is the one, although nothing is known of it.
    static let delayMaxMilliseconds: Int64 = 24 * 3_600_000

    /// - Parameters:
    ///   - time: of the renewal's event, which counts where the transaction does not say when it began.
    ///   - known: periods of the same purchase, in any order; the renewal's own may be among them, and one may be there
    ///     twice.
    static func isConversion(by renewal: Transaction, at time: Timestamp, after known: [PurchasePeriod]) -> Bool {
        if renewal.offerType == freeTrial { return false }
        let purchasedAt = renewal.purchasedAt ?? time
        let own = Array(renewal.storeTransactionID.utf8)
        var newest: [[UInt8]: PurchasePeriod] = [:]
        for period in known where period.id != own {
            if let other = newest[period.id], (other.asOf, other.asOfEvent) >= (period.asOf, period.asOfEvent) {
                continue
            }
            newest[period.id] = period
        }
        let last = newest.values.filter { $0.purchasedAt < purchasedAt }.max { first, second in
            first.purchasedAt != second.purchasedAt
                ? first.purchasedAt < second.purchasedAt : first.id.lexicographicallyPrecedes(second.id)
        }
        guard let last, last.offerType == freeTrial else { return false }
        return last.end.map { purchasedAt <= $0.advanced(byMilliseconds: delayMaxMilliseconds) } ?? true
    }
}

extension BatchPlan {
    /// The event under the type that the plan knows for it by now.
    func named(_ new: PlannedEvent) -> PlannedEvent {
        guard let purchase = new.purchase, let type = rememberedType(of: new.event, purchase) else { return new }
        return new.named(type)
    }

    /// Nil: the event's own.
    private func rememberedType(of event: Event, _ purchase: Identifier) -> String? {
        if let type = event.typeIfKnown, purchases[purchase] != nil { return type }
        if let type = event.typeIfPaused {
            let stated = stated(of: purchase).compactMap { KnownStatus($0) }
            return PauseEnd.isPaused(after: (statuses[purchase] ?? []) + stated) ? type : nil
        }
        guard event.mayConvertTrial, let renewal = event.transaction else { return nil }
        let stated = stated(of: purchase).compactMap { PurchasePeriod($0) }
        let known = (purchasePeriods[purchase] ?? []) + stated
        return TrialConversion.isConversion(by: renewal, at: event.occurredAt, after: known)
            ? TrialConversion.type : nil
    }

    /// The transactions of a purchase that earlier events of this plan state: most often there is no such event, and
    /// nothing is searched.
    private func stated(of purchase: Identifier) -> [TransactionRow] {
        touched.contains(purchase) ? transactions.values.filter { $0.purchase == purchase } : []
    }
}

extension PurchasePeriod {
    /// Nil: it does not say when it began.
    fileprivate init?(_ row: BatchPlan.TransactionRow) {
        let transaction = row.transaction
        guard let purchasedAt = transaction.purchasedAt else { return nil }
        self.init(
            purchase: row.purchase, id: Array(transaction.storeTransactionID.utf8), purchasedAt: purchasedAt,
            end: transaction.effectiveNextRenewalAt, offerType: transaction.offerType, asOf: row.asOf,
            asOfEvent: row.asOfEvent)
    }
}

enum PurchasePeriodStatements {
    private static func period(
        purchase: Identifier, id: [UInt8], purchasedAt: Timestamp, end: Timestamp?, offerType: String?,
        asOf: Timestamp, asOfEvent: Identifier
    ) -> PurchasePeriod {
        PurchasePeriod(
            purchase: purchase, id: id, purchasedAt: purchasedAt, end: end, offerType: offerType, asOf: asOf,
            asOfEvent: asOfEvent)
    }

    /// The periods of purchases, by their hashes ($1), that began last before a time ($2, milliseconds): two, because
    /// one may be the renewal's own.
    static let ofNamed = Statement<([Identifier], [Int64]), PurchasePeriod>(
        "record_periods_before_of_named",
        """
        \(selected) FROM unnest($1, $2) AS w (hash, before)
        CROSS JOIN LATERAL (SELECT id FROM purchases p WHERE coalesce(p.hash, p.id) = w.hash LIMIT 1) AS p
        \(newest)
        """, row: period)

    /// The same before `LedgerForm.timedKeys`, by their ids.
    static let ofIDs = Statement<([Identifier], [Int64]), PurchasePeriod>(
        "record_periods_before",
        """
        \(selected) FROM unnest($1, $2) AS w (id, before) CROSS JOIN LATERAL (SELECT w.id) AS p
        \(newest)
        """, row: period)

    private static let selected: SQL = """
        SELECT p.id, convert_to(t.store_transaction_id, 'UTF8'), t.purchased_at_ms, t.effective_next_renewal_at_ms,
               t.offer_type, t.as_of_ms, t.as_of_event
        """
    private static let newest: SQL = """
        CROSS JOIN LATERAL (
            SELECT * FROM transactions t WHERE t.purchase = p.id AND t.purchased_at_ms < w.before
            ORDER BY t.purchased_at_ms DESC, t.store_transaction_id DESC LIMIT 2) AS t
        """
}
