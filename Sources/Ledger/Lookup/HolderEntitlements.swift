import Postgres
package import Vocabulary

/// One holder's access to one purchase, and the event that it follows from.
package struct HeldPurchase: Sendable {
    /// The event that the access is as of.
    package struct Cause: Sendable {
        /// The platform's id of the event, otherwise the relay's.
        package let eventID: String
        package let name: String
        package let type: String
    }

    /// Id of the purchase.
    package let id: Identifier
    package let scope: Scope
    package let purchase: Purchase
    package let holder: Holder
    /// By what the ledger says, and by the clock (`TimedAccess`).
    package let isActive: Bool
    /// The stated end has passed, and no webhook has said what became of the purchase.
    package let isOverdue: Bool
    /// The event time that the access is as of.
    package let asOf: Timestamp
    /// When the oldest transaction was purchased.
    package let startedAt: Timestamp?
    /// By the time of purchase.
    package let newestTransaction: Transaction?
    /// The purchase's end, grace included; nil: none is stated.
    package var until: Timestamp? { newestTransaction?.effectiveNextRenewalAt }
    /// Nil: the event is not kept any more.
    package fileprivate(set) var cause: Cause?
    /// Row of that event, kept or not.
    fileprivate let event: Int64?
}

extension HolderLookup {
    /// What a subject holds, each purchase once: if the subject means several holders, the one that has access. The
    /// order is that of the purchases' ids, which never changes.
    ///
    /// - Parameters:
    ///   - isActive: only those with access, or only those without; nil: all.
    ///   - limit: 1 to `entriesMax`.
    package func entitlements(
        of subject: LookupSubject, in scope: LookupScope, isActive: Bool? = nil, after cursor: LookupCursor? = nil,
        limit: Int = HolderLookup.entriesMax
    ) async throws(LookupFailure) -> LookupPage<HeldPurchase> {
        let found = try await read(of: subject, in: scope) { meant, session throws(DatabaseError) in
            let held = try session.run(
                HolderEntitlementStatements.page,
                (
                    meant.holders, meant.sources, meant.apps, scope.environment, scope.source, isActive,
                    (cursor ?? .least).identifier, Int32(limit + 1), leeways.names, leeways.milliseconds
                )
            )
            return try Self.named(held, on: session)
        }
        return LookupPage(found, limit: limit) { LookupCursor(number: 0, identifier: $0.id) }
    }
}

extension HolderLookup {
    /// What a subject holds or held by product, each product once. The order is that of digests of the products' names,
    /// because access may change between two pages.
    ///
    /// - Parameter limit: 1 to `entriesMax`.
    package func products(
        of subject: LookupSubject, in scope: LookupScope, after cursor: LookupCursor? = nil, limit: Int
    ) async throws(LookupFailure) -> LookupPage<HeldPurchase> {
        let found = try await read(of: subject, in: scope) { meant, session throws(DatabaseError) in
            let held = try session.run(
                HolderEntitlementStatements.products,
                (
                    meant.holders, meant.sources, meant.apps, scope.environment, scope.source,
                    (cursor ?? .least).identifier, Int32(limit + 1), leeways.names, leeways.milliseconds
                )
            )
            return try Self.named(held, on: session)
        }
        return LookupPage(found, limit: limit) { held in
            LookupCursor(
                number: 0, identifier: KeyHash.body(Array((held.purchase.product ?? held.purchase.key).utf8)))
        }
    }

    /// With the causes, read by themselves: to plan a join with all periods takes longer than the rest.
    private static func named(
        _ held: [HeldPurchase], on session: borrowing Session
    ) throws(DatabaseError) -> [HeldPurchase] {
        guard let ids = IDsInPeriods(held.compactMap(\.event)) else { return held }
        let found = try session.run(HolderEntitlementStatements.causes, ids.parameters)
        let causes = Dictionary(
            firstOf: found.map { id, key, eventID, name, type in
                (id, HeldPurchase.Cause(eventID: eventID ?? key.eventID, name: name, type: type))
            })
        return held.map { held in
            var held = held
            held.cause = held.event.flatMap { causes[$0] }
            return held
        }
    }
}

enum HolderEntitlementStatements {
    private static let asOf = KnownAccessStatements.asOf("e", of: "p")
    private static let event = KnownAccessStatements.event("e", of: "p")

    /// - Parameters:
    ///   - transaction: the newest by the time of purchase; nil, like all up to `status`: none is known.
    ///   - event: row of its cause, which is added later.
    private static func held(
        id: Identifier, holder: String, isActive: Bool, isOverdue: Bool, asOf: Timestamp, source: String, app: String,
        environment: String, store: String, key: String, kind: String, product: String?, plan: String?,
        subscriptionID: String?, startedAt: Timestamp?, transaction: String?, originalTransaction: String?,
        purchasedAt: Timestamp?, effectiveNextRenewalAt: Timestamp?, offerType: String?, status: String?, event: Int64?
    ) -> HeldPurchase {
        HeldPurchase(
            id: id, scope: Scope(source: source, app: app, environment: environment),
            purchase: Purchase(
                key: key, kind: Purchase.Kind(rawValue: kind) ?? .subscription, store: store, product: product,
                plan: plan, subscriptionID: subscriptionID),
            holder: Holder(column: holder), isActive: isActive, isOverdue: isOverdue, asOf: asOf, startedAt: startedAt,
            newestTransaction: transaction.map {
                Transaction(
                    storeTransactionID: $0, storeOriginalTransactionID: originalTransaction, purchasedAt: purchasedAt,
                    effectiveNextRenewalAt: effectiveNextRenewalAt, offerType: offerType, status: status)
            }, event: event)
    }

    static let causes = Statement<([Int64], Int64, Int64), (Int64, Identifier, String?, String, String)>(
        "lookup_causes",
        "SELECT id, key, vendor_event_id, name, type FROM events WHERE \(IDsInPeriods.condition("id"))")

    private static let goesOn = AccessEnd.goesOn(sources: "$9", leeways: "$10")
    private static let goesOnByProduct = AccessEnd.goesOn(sources: "$8", leeways: "$9")

    static let page = Statement<
        ([String], [String?], [String?], String, String?, Bool?, Identifier, Int32, [String], [Int64?]), HeldPurchase
    >(
        "lookup_entitlements",
        """
        SELECT f.* FROM (
            SELECT h.purchase, h.holder,
                   h.active AND \(goesOn) AS active,
                   h.active AND \(AccessEnd.hasPassed) AS overdue,
                   h.as_of_ms, p.source, p.app, p.environment, p.store, p.key AS purchase_key, p.kind, p.product,
                   p.plan, p.subscription_id,
                   (SELECT min(coalesce(purchased_at_ms, nullif(as_of_ms, 0))) FROM transactions WHERE purchase = p.id),
                   t.store_transaction_id, t.store_original_transaction_id, t.purchased_at_ms,
                   t.effective_next_renewal_at_ms, t.offer_type, t.status, h.event
            FROM (
                SELECT DISTINCT ON (e.purchase) e.purchase, e.holder, e.active, \(asOf) AS as_of_ms,
                       \(event) AS event
                FROM unnest($1, $2, $3) AS w (holder, source, app)
                JOIN entitlements e ON e.holder = w.holder AND e.purchase > $7
                JOIN purchases p ON p.id = e.purchase AND p.environment = $4
                WHERE ($5 IS NULL OR p.source = $5) AND (w.source IS NULL OR p.source = w.source AND p.app = w.app)
                ORDER BY e.purchase, e.active DESC, as_of_ms DESC, e.holder
            ) AS h
            JOIN purchases p ON p.id = h.purchase
            \(AccessEnd.newestTransaction(of: "h.purchase"))
            -- What the ledger calls inactive has no access whatever its transactions say: they are not looked at.
            WHERE h.active OR $6 IS DISTINCT FROM true
        ) AS f
        WHERE $6 IS NULL OR f.active = $6
        ORDER BY f.purchase LIMIT $8
        """, row: held)

    /// The same by product, each once: of its purchases, one with access before one without, then the one that lasts
    /// longer. `$6` is the digest at which the previous page ended.
    static let products = Statement<
        ([String], [String?], [String?], String, String?, Identifier, Int32, [String], [Int64?]), HeldPurchase
    >(
        "lookup_products",
        """
        SELECT f.purchase, f.holder, f.active, f.overdue, f.as_of_ms, f.source, f.app, f.environment, f.store,
               f.purchase_key, f.kind, f.product, f.plan, f.subscription_id,
               (SELECT min(coalesce(purchased_at_ms, nullif(as_of_ms, 0))) FROM transactions
                WHERE purchase = f.purchase),
               f.store_transaction_id, f.store_original_transaction_id, f.purchased_at_ms,
               f.effective_next_renewal_at_ms, f.offer_type, f.status, f.event
        FROM (
            SELECT * FROM (
            SELECT DISTINCT ON (x.id) x.*, encode(substring(sha256(convert_to(x.id, 'UTF8')) FOR 16), 'hex')::uuid AS digest
            FROM (
                SELECT coalesce(p.product, p.key) AS id, h.purchase, h.holder,
                       h.active AND \(goesOnByProduct) AS active,
                       h.active AND \(AccessEnd.hasPassed) AS overdue,
                       h.as_of_ms, h.event, p.source, p.app, p.environment, p.store, p.key AS purchase_key, p.kind,
                       p.product, p.plan, p.subscription_id, t.store_transaction_id, t.store_original_transaction_id,
                       t.purchased_at_ms, t.effective_next_renewal_at_ms, t.offer_type, t.status
                FROM (
                    SELECT DISTINCT ON (e.purchase) e.purchase, e.holder, e.active, \(asOf) AS as_of_ms,
                           \(event) AS event
                    FROM unnest($1, $2, $3) AS w (holder, source, app)
                    JOIN entitlements e ON e.holder = w.holder
                    JOIN purchases p ON p.id = e.purchase AND p.environment = $4
                    WHERE ($5 IS NULL OR p.source = $5)
                      AND (w.source IS NULL OR p.source = w.source AND p.app = w.app)
                    ORDER BY e.purchase, e.active DESC, as_of_ms DESC, e.holder
                ) AS h
                JOIN purchases p ON p.id = h.purchase
                \(AccessEnd.newestTransaction(of: "h.purchase"))
            ) AS x
            ORDER BY x.id, x.active DESC, x.effective_next_renewal_at_ms DESC NULLS FIRST, x.purchase
            ) AS g
            WHERE g.digest > $6 ORDER BY g.digest LIMIT $7
        ) AS f
        ORDER BY f.digest
        """, row: held)
}
