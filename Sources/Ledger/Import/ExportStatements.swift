import Postgres
import Vocabulary

/// The SQL of an export. It only reads.
enum ExportStatements {
    struct Bought: Sendable {
        let id: Identifier
        let scope: Scope
        let purchase: Purchase
        /// The time of what is known of its product.
        let asOf: Timestamp
        /// As it is stored; nil: it cannot be read.
        let state: [UInt8]?
    }

    private static func bought(
        id: Identifier, source: String, app: String, environment: String, store: String, key: String, kind: String,
        product: String?, plan: String?, subscriptionID: String?, asOf: Timestamp, state: [UInt8]
    ) -> Bought {
        Bought(
            id: id, scope: Scope(source: source, app: app, environment: environment),
            purchase: Purchase(
                key: key, kind: Purchase.Kind(rawValue: kind) ?? .subscription, store: store, product: product,
                plan: plan, subscriptionID: subscriptionID),
            asOf: asOf, state: (try? PurchaseState(bytes: state))?.bytes)
    }

    struct Seen: Sendable {
        let id: Identifier
        let source: String
    }

    /// Purchases after id `$1`, like all pages here of any source: no index leads to those of one, so a statement that
    /// looked for them would read what lies between.
    static let seen = Statement<(Identifier, Int32), Seen>(
        "export_seen", "SELECT id, source FROM purchases WHERE id > $1 ORDER BY id LIMIT $2", row: Seen.init)

    static let purchases = Statement<[Identifier], Bought>(
        "export_purchases",
        """
        SELECT id, source, app, environment, store, key, kind, product, plan, subscription_id, as_of_ms, state
        FROM purchases WHERE id = ANY ($1) ORDER BY id
        """, row: bought)

    struct HolderRow: Sendable {
        let purchase: Identifier
        let holder: Holder
        let isActive: Bool
        let asOf: Timestamp
    }

    private static func held(purchase: Identifier, holder: String, isActive: Bool, asOf: Timestamp) -> HolderRow {
        HolderRow(purchase: purchase, holder: Holder(column: holder), isActive: isActive, asOf: asOf)
    }

    /// Those who have each purchase first.
    static let holders = Statement<[Identifier], HolderRow>(
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
    }

    static let transactions = Statement<[Identifier], Transacted>(
        "export_transactions",
        """
        SELECT x.purchase, x.store_transaction_id, x.store_original_transaction_id, x.purchased_at_ms,
               x.effective_next_renewal_at_ms, x.offer_type, x.status, x.as_of_ms,
               x.store_transaction_id = t.store_transaction_id
        FROM unnest($1) AS p (id) JOIN transactions x ON x.purchase = p.id
        \(AccessEnd.newestTransaction(of: "p.id"))
        ORDER BY x.purchase, x.as_of_ms, x.store_transaction_id
        """, row: Transacted.init)

    /// What answers about offers take from the events of a transaction.
    struct Said: Sendable {
        let purchase: Identifier
        let transaction: String
        let isRefunded: Bool
        /// An offer that one of its events says was used.
        let previousOffer: String?
    }

    /// The events of each purchase are read once, whatever its number of transactions; bodies only for the one member
    /// that is looked for.
    static let said = Statement<[Identifier], Said>(
        "export_said",
        """
        SELECT p.id, s.store_transaction_id, s.is_refunded, s.offer
        FROM unnest($1) AS p (id) CROSS JOIN LATERAL (
            SELECT e.store_transaction_id, bool_or(e.type = 'SUBSCRIPTION_REFUNDED_REVOKED') AS is_refunded,
                   coalesce(
                       min(CASE WHEN e.type IN ('TRIAL_STARTED', 'TRIAL_CONVERTED', 'TRIAL_NOT_CONVERTED')
                                THEN 'FREE_TRIAL'
                                WHEN e.type IN ('INTRO_OFFER_STARTED', 'INTRO_OFFER_CONVERTED',
                                                'INTRO_OFFER_NOT_CONVERTED') THEN 'INTRO_OFFER' END),
                       min(v) FILTER (WHERE v IN ('FREE_TRIAL', 'INTRO_OFFER'))) AS offer
            FROM events e
            CROSS JOIN LATERAL (SELECT CASE WHEN position('"previous_offer_type"'::bytea IN e.body) > 0
                THEN substring(encode(e.body, 'escape') FROM '"previous_offer_type"\\s*:\\s*"([A-Z_]+)"') END) AS o (v)
            WHERE e.purchase = p.id AND e.store_transaction_id IS NOT NULL
            GROUP BY e.store_transaction_id
        ) AS s
        WHERE s.is_refunded OR s.offer IS NOT NULL
        """, row: Said.init)

    struct Token: Sendable {
        let purchase: Identifier
        let id: Identifier
        let isEnvironmentKnown: Bool
        let isReplaced: Bool
    }

    /// Ids, sources, keys and environments of purchases.
    static let tokens = Statement<([Identifier], [String], [String], [String]), Token>(
        "export_tokens",
        """
        SELECT p.id, t.token, t.environment IS NOT NULL, t.is_replaced
        FROM unnest($1, $2, $3, $4) AS p (id, source, key, environment)
        CROSS JOIN LATERAL (
            SELECT * FROM purchase_tokens
            WHERE first = p.key AND source = p.source AND coalesce(environment, p.environment) = p.environment
            ORDER BY token OFFSET 0) AS t
        """, row: Token.init)

    struct TransferCount: Sendable {
        let purchase: Identifier
        let from: Holder
        let to: Holder
        let ordinal: Int32
    }

    private static func transfer(purchase: Identifier, from: String, to: String, ordinal: Int32) -> TransferCount {
        TransferCount(purchase: purchase, from: Holder(column: from), to: Holder(column: to), ordinal: ordinal)
    }

    static let transfers = Statement<[Identifier], TransferCount>(
        "export_transfers",
        """
        SELECT purchase, from_holder, to_holder, max(ordinal) FROM transfers WHERE purchase = ANY ($1)
        GROUP BY purchase, from_holder, to_holder ORDER BY purchase, from_holder, to_holder
        """, row: transfer)

    /// The key of a link, after which a page begins.
    struct LinkCursor: Sendable {
        var id = ""
        var source = ""
        var app = ""
        var environment = ""
    }

    /// A cursor and a limit.
    typealias After = (String, String, String, String, Int32)

    struct Link: Sendable {
        let place: LinkCursor
        let line: ImportLine
    }

    private static func link(
        id: String, source: String, app: String, environment: String, user: String?, asOf: Timestamp,
        until: Timestamp?
    ) -> Link {
        Link(
            place: LinkCursor(id: id, source: source, app: app, environment: environment),
            line: ImportLine(
                scope: Scope(source: source, app: app, environment: environment), holder: .anonymous(id), asOf: asOf,
                until: until, subject: .link(user: user, isFirst: false)))
    }

    static let links = Statement<After, Link>(
        "export_links",
        """
        SELECT anonymous_user_id, source, app, environment, user_id, as_of_ms, until_ms
        FROM holder_links
        WHERE (anonymous_user_id, source, app, environment) > ($1, $2, $3, $4)
        ORDER BY anonymous_user_id, source, app, environment LIMIT $5
        """, row: link)

    private static func first(
        identity: String, source: String, app: String, environment: String, install: String, asOf: Timestamp
    ) -> Link {
        Link(
            place: LinkCursor(id: identity, source: source, app: app, environment: environment),
            line: ImportLine(
                scope: Scope(source: source, app: app, environment: environment), holder: .anonymous(install),
                asOf: asOf, until: nil, subject: .first(identity: identity)))
    }

    static let firsts = Statement<After, Link>(
        "export_firsts",
        """
        SELECT identity, source, app, environment, install, (extract(epoch FROM linked_at) * 1000)::bigint
        FROM install_identities
        WHERE (identity, source, app, environment) > ($1, $2, $3, $4)
        ORDER BY identity, source, app, environment LIMIT $5
        """, row: first)

    private static func install(
        id: String, source: String, app: String, environment: String, createdAt: Timestamp
    ) -> Link {
        Link(
            place: LinkCursor(id: id, source: source, app: app, environment: environment),
            line: ImportLine(
                scope: Scope(source: source, app: app, environment: environment), holder: .anonymous(id),
                asOf: createdAt, until: nil, subject: .install))
    }

    static let installs = Statement<After, Link>(
        "export_installs",
        """
        SELECT install, source, app, environment, (extract(epoch FROM created_at) * 1000)::bigint
        FROM installs
        WHERE (install, source, app, environment) > ($1, $2, $3, $4)
        ORDER BY install, source, app, environment LIMIT $5
        """, row: install)

    struct Change: Sendable {
        let row: Int64
        let source: String
        /// Nil: it cannot be read.
        let line: ImportLine?
    }

    private static func change(
        row: Int64, source: String, app: String, environment: String, subject: String, kind: String, target: String,
        second: String?, at: Timestamp
    ) -> Change {
        let scope = Scope(source: source, app: app, environment: environment)
        let read = try? HolderChangeRow(
            row: row, scope: scope, subject: subject, kind: kind, target: target, second: second,
            at: at.milliseconds)
        let line = read.map {
            ImportLine(
                scope: scope, holder: $0.from ?? $0.target, asOf: at, until: nil, subject: .change($0.kept))
        }
        return Change(row: row, source: source, line: line)
    }

    /// Changes of holders after row `$1`.
    static let changes = Statement<(Int64, Int32), Change>(
        "export_changes",
        """
        SELECT id, source, app, environment, subject, kind, target, second_target, at_ms
        FROM holder_changes WHERE id > $1 ORDER BY id LIMIT $2
        """, row: change)
}
