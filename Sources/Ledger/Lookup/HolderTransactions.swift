import Postgres
package import Vocabulary

/// One transaction of a purchase that a subject holds or held: the eligibility for an offer is decided from these.
package struct HeldTransaction: Sendable {
    package let purchase: Identifier
    package let kind: Purchase.Kind
    package let product: String
    /// End of the paid period, grace included.
    package let until: Timestamp?
    package let offerType: String?
    package let status: String?
    /// Types of its events, of those that were asked for, each once.
    package let eventTypes: Set<String>
    /// Values of the requested member in its events' bodies, each once.
    package let stated: Set<String>
}

extension HolderLookup {
    /// Transactions of one look-up at most.
    package static let transactionsMax = 10_000

    /// The transactions of all purchases of `products` that the subject has or had; nil: more than `transactionsMax`.
    ///
    /// - Parameters:
    ///   - eventTypes: the types of event to look for in each transaction.
    ///   - member: a member of the events' bodies whose value is a plain word.
    package func transactions(
        of subject: LookupSubject, in scope: LookupScope, products: [String], eventTypes: [String],
        stating member: String
    ) async throws(LookupFailure) -> [HeldTransaction]? {
        let found = try await read { session throws(DatabaseError) in
            let meant = try MeantHolders(subject, in: scope, on: session)
            return try session.run(
                HolderTransactionStatements.transactions,
                (
                    meant.holders, meant.sources, meant.apps, scope.environment, scope.source, products, eventTypes,
                    Int32(Self.transactionsMax + 1), #""\#(member)"\s*:\s*"([A-Z_]+)""#
                )
            )
        }
        return found.count > Self.transactionsMax ? nil : found
    }
}

enum HolderTransactionStatements {
    private static func transaction(
        purchase: Identifier, kind: String, product: String, until: Timestamp?, offerType: String?, status: String?,
        eventTypes: [String], stated: [String]
    ) -> HeldTransaction {
        HeldTransaction(
            purchase: purchase, kind: Purchase.Kind(rawValue: kind) ?? .subscription, product: product, until: until,
            offerType: offerType, status: status, eventTypes: Set(eventTypes), stated: Set(stated))
    }

    static let transactions = Statement<
        ([String], [String?], [String?], String, String?, [String], [String], Int32, String), HeldTransaction
    >(
        "lookup_transactions",
        """
        SELECT p.id, p.kind, p.product, t.effective_next_renewal_at_ms, t.offer_type, t.status,
               ARRAY (SELECT DISTINCT e.type FROM events e
                      WHERE e.store_transaction_id = t.store_transaction_id AND e.purchase = p.id
                        AND e.type = ANY ($7)),
               ARRAY (SELECT DISTINCT v FROM events e, substring(encode(e.body, 'escape') FROM $9) AS v
                      WHERE e.store_transaction_id = t.store_transaction_id AND e.purchase = p.id AND v IS NOT NULL)
        FROM (
            SELECT DISTINCT e.purchase FROM unnest($1, $2, $3) AS w (holder, source, app)
            JOIN entitlements e ON e.holder = w.holder
            JOIN purchases p ON p.id = e.purchase AND p.environment = $4 AND p.product = ANY ($6)
            WHERE ($5 IS NULL OR p.source = $5) AND (w.source IS NULL OR p.source = w.source AND p.app = w.app)
        ) AS h
        JOIN purchases p ON p.id = h.purchase
        JOIN transactions t ON t.purchase = p.id
        LIMIT $8
        """, row: transaction)
}
