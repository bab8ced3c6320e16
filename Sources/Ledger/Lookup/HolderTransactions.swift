import Postgres
package import Vocabulary

/// One transaction of a purchase that a subject holds or held, or an anonymous holder that is now a user of it: the
/// eligibility for an offer is decided from these.
package struct HeldTransaction: Sendable {
    package let kind: Purchase.Kind
    package let product: String
    /// End of the paid period, grace included.
    package let until: Timestamp?
    package let offerType: String?
    package let status: String?
    /// Whether one of these has access by it now (`TimedAccess`): it is the newest of its purchase, and neither did
    /// that pass to another, say, nor is its end over by more than the leeway.
    package let isRunning: Bool
    /// Whether the subject itself does.
    package let isRunningForSubject: Bool
    /// Types of its events, of those that were asked for, each once.
    package let eventTypes: Set<String>
    /// Values of the requested member in its events' bodies, each once.
    package let stated: Set<String>
}

extension HolderLookup {
    /// Transactions of one look-up at most.
    package static let transactionsMax = 10_000

    /// The transactions of all purchases of `products` that the subject has or had; nil: more than `transactionsMax`.
    /// A login moves only what still lasts. So what an anonymous holder had counts for the user that it is now, in the
    /// source that says so. It does not where it passed to another user, as by a login of that user: it is theirs.
    ///
    /// - Parameters:
    ///   - eventTypes: the types of event to look for in each transaction.
    ///   - member: a member of the events' bodies whose value is a plain word.
    package func transactions(
        of subject: LookupSubject, in scope: LookupScope, products: [String], eventTypes: [String],
        stating member: String
    ) async throws(LookupFailure) -> [HeldTransaction]? {
        let found = try await read(of: subject, in: scope) { meant, session throws(DatabaseError) in
            return try session.run(
                HolderTransactionStatements.transactions,
                (
                    meant.holders, meant.sources, meant.apps, scope.environment, scope.source, products, eventTypes,
                    Int32(Self.transactionsMax + 1), #""\#(member)"\s*:\s*"([A-Z_]+)""#, leeways.names,
                    leeways.milliseconds
                )
            )
        }
        return found.count > Self.transactionsMax ? nil : found
    }
}

enum HolderTransactionStatements {
    private static func transaction(
        kind: String, product: String, until: Timestamp?, offerType: String?, status: String?, isRunning: Bool,
        isRunningForSubject: Bool, eventTypes: [String], stated: [String]
    ) -> HeldTransaction {
        HeldTransaction(
            kind: Purchase.Kind(rawValue: kind) ?? .subscription, product: product, until: until, offerType: offerType,
            status: status, isRunning: isRunning, isRunningForSubject: isRunningForSubject,
            eventTypes: Set(eventTypes), stated: Set(stated))
    }

    private static let goesOn = AccessEnd.goesOn(sources: "$10", leeways: "$11")

    static let transactions = Statement<
        ([String], [String?], [String?], String, String?, [String], [String], Int32, String, [String], [Int64?]),
        HeldTransaction
    >(
        "lookup_transactions",
        """
        WITH w AS MATERIALIZED (
            SELECT holder, source, app, true AS is_meant FROM unnest($1, $2, $3) AS m (holder, source, app)
            UNION ALL
            SELECT 'anon:' || l.anonymous_user_id, l.source, l.app, false
            FROM unnest($1, $2, $3) AS m (holder, source, app)
            JOIN holder_links l ON l.user_id = substr(m.holder, 6) AND l.environment = $4
            WHERE m.holder LIKE 'user:%' AND (m.source IS NULL OR l.source = m.source AND l.app = m.app)
                AND (l.until_ms IS NULL OR l.until_ms > \(AccessEnd.now))
        ), h AS MATERIALIZED (
            SELECT e.purchase, bool_or(e.active) AS active, bool_or(e.active AND w.is_meant) AS meant_active
            FROM w JOIN entitlements e ON e.holder = w.holder
            JOIN purchases p ON p.id = e.purchase AND p.environment = $4 AND p.product = ANY ($6)
            WHERE ($5 IS NULL OR p.source = $5) AND (w.source IS NULL OR p.source = w.source AND p.app = w.app)
                AND (w.is_meant OR NOT EXISTS (
                    SELECT FROM entitlements o
                    WHERE o.purchase = e.purchase AND o.holder LIKE 'user:%' AND o.holder <> ALL ($1)))
            GROUP BY e.purchase
        ), held AS MATERIALIZED (
            SELECT p.id, p.kind, p.product, t.store_transaction_id AS newest, h.active AND \(goesOn) AS active,
                   h.meant_active
            FROM h JOIN purchases p ON p.id = h.purchase
            \(AccessEnd.newestTransaction(of: "h.purchase"))
        ), chosen AS MATERIALIZED (
            SELECT held.kind, held.product, held.active AND held.newest = t.store_transaction_id AS running,
                   held.meant_active, t.*
            FROM held JOIN transactions t ON t.purchase = held.id LIMIT $8
        ), stated AS MATERIALIZED (
            SELECT e.purchase, e.store_transaction_id, array_agg(DISTINCT e.type) FILTER (WHERE e.type = ANY ($7)) AS types,
                   array_agg(DISTINCT v) FILTER (WHERE v IS NOT NULL) AS texts
            FROM (SELECT DISTINCT purchase FROM chosen) AS p JOIN events e ON e.purchase = p.purchase
            JOIN chosen c ON c.purchase = e.purchase AND c.store_transaction_id = e.store_transaction_id
            CROSS JOIN LATERAL substring(encode(e.body, 'escape') FROM $9) AS v
            GROUP BY e.purchase, e.store_transaction_id
        )
        SELECT c.kind, c.product, c.effective_next_renewal_at_ms, c.offer_type, c.status, c.running,
               c.running AND c.meant_active, coalesce(s.types, '{}'), coalesce(s.texts, '{}')
        FROM chosen c
        LEFT JOIN stated s ON s.purchase = c.purchase AND s.store_transaction_id = c.store_transaction_id
        """, row: transaction)
}
