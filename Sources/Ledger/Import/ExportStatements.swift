import Postgres
import Vocabulary

/// The SQL of an export. It only reads.
enum ExportStatements {
    struct Bought: Sendable {
        let id: Identifier
        let scope: Scope
        let purchase: Purchase
        /// Those whose access does not follow from who has the subscription: it was shared with them.
        let sharers: Set<Holder>
        /// Of a purchase that several hold together.
        let together: Together?
    }

    /// What holders of one purchase have in common, and who was last given it.
    struct Together: Sendable {
        let period: PurchaseState.Period
        let given: Set<Holder>
    }

    private static func bought(
        id: Identifier, source: String, app: String, environment: String, store: String, key: String, kind: String,
        product: String?, plan: String?, subscriptionID: String?, state: [UInt8]
    ) -> Bought {
        let kind = Purchase.Kind(rawValue: kind) ?? .subscription
        // Of a one-time purchase, and under shared ownership (which has a period), all are free of tenures.
        // One that cannot be read says nothing of that.
        let state = (try? PurchaseState(bytes: state)) ?? PurchaseState()
        let isTogether = state.period != nil || kind == .oneTime
        return Bought(
            id: id, scope: Scope(source: source, app: app, environment: environment),
            purchase: Purchase(
                key: key, kind: kind, store: store, product: product, plan: plan, subscriptionID: subscriptionID),
            sharers: isTogether ? [] : Set(state.registers.filter(\.isTenureFree).map(\.holder)),
            together: state.period.map {
                Together(period: $0, given: Set(state.registers.filter(\.isOn).map(\.holder)))
            })
    }

    /// Purchases after id `$1`, of source `$2`; null: of all.
    static let purchases = Statement<(Identifier, String?, Int32), Bought>(
        "export_purchases",
        """
        SELECT id, source, app, environment, store, key, kind, product, plan, subscription_id, state
        FROM purchases WHERE id > $1 AND ($2 IS NULL OR source = $2) ORDER BY id LIMIT $3
        """, row: bought)

    struct Held: Sendable {
        let purchase: Identifier
        let holder: Holder
        let isActive: Bool
        let asOf: Timestamp
    }

    private static func held(purchase: Identifier, holder: String, isActive: Bool, asOf: Timestamp) -> Held {
        Held(purchase: purchase, holder: Holder(column: holder), isActive: isActive, asOf: asOf)
    }

    /// Those who have each purchase first.
    static let holders = Statement<[Identifier], Held>(
        "export_holders",
        """
        SELECT e.purchase, e.holder, e.active, \(KnownAccessStatements.asOf("e", of: "p"))
        FROM entitlements e JOIN purchases p ON p.id = e.purchase
        WHERE e.purchase = ANY ($1) ORDER BY e.purchase, e.active DESC, e.holder
        """, row: held)

    struct Transacted: Sendable {
        let purchase: Identifier
        let id: String
        let original: String?
        let purchasedAt: Timestamp?
        let until: Timestamp?
        let offerType: String?
        let status: String?
        let asOf: Timestamp
        /// By `AccessEnd`.
        let isNewest: Bool
        /// Whether one of its events says so: answers about offers depend on it.
        let isRefunded: Bool
        /// An offer that one of its events says was used.
        let previousOffer: String?
    }

    static let transactions = Statement<[Identifier], Transacted>(
        "export_transactions",
        """
        SELECT x.purchase, x.store_transaction_id, x.store_original_transaction_id, x.purchased_at_ms,
               x.effective_next_renewal_at_ms, x.offer_type, x.status, x.as_of_ms,
               x.store_transaction_id = t.store_transaction_id,
               coalesce(s.is_refunded, false), s.offer
        FROM unnest($1) AS p (id) JOIN transactions x ON x.purchase = p.id
        \(AccessEnd.newestTransaction(of: "p.id"))
        LEFT JOIN LATERAL (
            SELECT bool_or(e.type = 'SUBSCRIPTION_REFUNDED_REVOKED') AS is_refunded,
                   coalesce(
                       min(CASE WHEN e.type IN ('TRIAL_STARTED', 'TRIAL_CONVERTED', 'TRIAL_NOT_CONVERTED')
                                THEN 'FREE_TRIAL'
                                WHEN e.type IN ('INTRO_OFFER_STARTED', 'INTRO_OFFER_CONVERTED',
                                                'INTRO_OFFER_NOT_CONVERTED') THEN 'INTRO_OFFER' END),
                       min(v) FILTER (WHERE v IN ('FREE_TRIAL', 'INTRO_OFFER'))) AS offer
            FROM events e
            CROSS JOIN LATERAL substring(encode(e.body, 'escape')
                FROM '"previous_offer_type"\\s*:\\s*"([A-Z_]+)"') AS v
            WHERE e.purchase = p.id AND e.store_transaction_id = x.store_transaction_id
        ) AS s ON true
        ORDER BY x.purchase, x.as_of_ms, x.store_transaction_id
        """, row: Transacted.init)

    struct Passed: Sendable {
        let purchase: Identifier
        let from: Holder
        let to: Holder
        let ordinal: Int32
    }

    private static func passed(purchase: Identifier, from: String, to: String, ordinal: Int32) -> Passed {
        Passed(purchase: purchase, from: Holder(column: from), to: Holder(column: to), ordinal: ordinal)
    }

    static let transfers = Statement<[Identifier], Passed>(
        "export_transfers",
        """
        SELECT purchase, from_holder, to_holder, max(ordinal) FROM transfers WHERE purchase = ANY ($1)
        GROUP BY purchase, from_holder, to_holder ORDER BY purchase, from_holder, to_holder
        """, row: passed)

    /// The key of a link, after which a page begins.
    struct Place: Sendable {
        var id = ""
        var source = ""
        var app = ""
        var environment = ""
    }

    /// A place, a source (null: all) and a limit.
    typealias After = (String, String, String, String, String?, Int32)

    struct Link: Sendable {
        let place: Place
        let line: ImportLine
    }

    private static func link(
        id: String, source: String, app: String, environment: String, user: String?, asOf: Timestamp,
        until: Timestamp?
    ) -> Link {
        Link(
            place: Place(id: id, source: source, app: app, environment: environment),
            line: ImportLine(
                scope: Scope(source: source, app: app, environment: environment), holder: .anonymous(id), asOf: asOf,
                until: until, subject: .link(user: user, isFirst: false)))
    }

    static let links = Statement<After, Link>(
        "export_links",
        """
        SELECT anonymous_user_id, source, app, environment, user_id, as_of_ms, until_ms
        FROM holder_links
        WHERE (anonymous_user_id, source, app, environment) > ($1, $2, $3, $4) AND ($5 IS NULL OR source = $5)
        ORDER BY anonymous_user_id, source, app, environment LIMIT $6
        """, row: link)

    private static func first(
        identity: String, source: String, app: String, environment: String, install: String, asOf: Timestamp
    ) -> Link {
        Link(
            place: Place(id: identity, source: source, app: app, environment: environment),
            line: ImportLine(
                scope: Scope(source: source, app: app, environment: environment), holder: .anonymous(install),
                asOf: asOf, until: nil, subject: .link(user: identity, isFirst: true)))
    }

    /// As of the event that stated it; where that is not kept any more, as of its recording.
    static let firsts = Statement<After, Link>(
        "export_firsts",
        """
        SELECT f.identity, f.source, f.app, f.environment, f.install,
               coalesce((SELECT e.occurred_at_ms FROM events e WHERE e.id = f.event LIMIT 1),
                        (extract(epoch FROM f.linked_at) * 1000)::bigint)
        FROM install_identities f
        WHERE (f.identity, f.source, f.app, f.environment) > ($1, $2, $3, $4) AND ($5 IS NULL OR f.source = $5)
        ORDER BY f.identity, f.source, f.app, f.environment LIMIT $6
        """, row: first)
}
