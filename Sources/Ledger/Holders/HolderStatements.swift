import Postgres
import Vocabulary

extension Session {
    /// Enqueues the shared locks of sources, in the order of their keys, so that no two transactions wait for each
    /// other. Two sources may have the same key.
    func lockShared(sources: [String]) throws(DatabaseError) {
        for key in Set(sources.map { KeyHash.lock(ofSource: $0) }).sorted() {
            try enqueue(HolderStatements.lockShared, halfLockKey(key))
        }
    }
}

/// The SQL about holders beyond one purchase. Four arrays name holders, transactions or identities: text, source, app,
/// environment.
enum HolderStatements {
    typealias Keys = ([String], [String], [String], [String])
    typealias LinkRow = (key: HolderKnowledge.LinkKey, link: HolderKnowledge.Link)
    typealias IdentityRow = (key: HolderKnowledge.IdentityKey, identity: HolderKnowledge.Identity)

    /// The first key ("hold" as bytes) keeps these locks apart from other advisory locks. The second is a source's
    /// (`KeyHash.lock`), made the ledger's own (`Session.halfLockKey`).
    static let lock = Statement<Int32, ()>("holder_lock", "SELECT FROM pg_advisory_xact_lock(1752132708, $1)")
    static let lockShared = Statement<Int32, ()>(
        "holder_lock_shared", "SELECT FROM pg_advisory_xact_lock_shared(1752132708, $1)")

    private static func link(
        source: String, app: String, environment: String, anonymousID: String, userID: String?, until: Timestamp?,
        asOf: Timestamp
    ) -> LinkRow {
        let scope = Scope(source: source, app: app, environment: environment)
        return (
            HolderKnowledge.LinkKey(scope: scope, holder: .anonymous(anonymousID)),
            HolderKnowledge.Link(userID: userID, until: until, asOf: asOf)
        )
    }

    static let links = Statement<Keys, LinkRow>(
        "holder_links",
        """
        SELECT l.source, l.app, l.environment, l.anonymous_user_id, l.user_id, l.until_ms, l.as_of_ms
        FROM unnest($1, $2, $3, $4) AS w (anonymous_user_id, source, app, environment)
        JOIN holder_links l USING (anonymous_user_id, source, app, environment)
        """, row: link)

    static let linksOfUsers = Statement<Keys, LinkRow>(
        "holder_links_of_users",
        """
        SELECT l.source, l.app, l.environment, l.anonymous_user_id, l.user_id, l.until_ms, l.as_of_ms
        FROM unnest($1, $2, $3, $4) AS w (user_id, source, app, environment)
        JOIN holder_links l USING (user_id, source, app, environment)
        """, row: link)

    private static func identity(
        _ identity: String, source: String, app: String, environment: String, first: String?, linked: [String],
        isNamed: Bool
    ) -> IdentityRow {
        let scope = Scope(source: source, app: app, environment: environment)
        return (
            HolderKnowledge.IdentityKey(scope: scope, identity: .user(identity)),
            HolderKnowledge.Identity(first: first, linked: linked, isNamed: isNamed)
        )
    }

    /// What is known of an identity: the first install that identified as it; if that is not known, or erased, two of
    /// the installs that webhooks linked it with (the oldest links); and whether the ledger names it at all. Stray
    /// events are asked for by a subquery with LIMIT, here and below: EXISTS may be planned as one scan of their whole
    /// index.
    static let identities = Statement<Keys, IdentityRow>(
        "holder_identities",
        """
        SELECT w.identity, w.source, w.app, w.environment, i.install,
               ARRAY (SELECT l.anonymous_user_id FROM holder_links l
                      WHERE (i.install IS NULL OR \(EraseStatements.isStandIn(install: "i.install")))
                        AND l.user_id = w.identity AND l.source = w.source AND l.app = w.app
                        AND l.environment = w.environment
                      ORDER BY l.as_of_ms, l.anonymous_user_id LIMIT 2),
               i.install IS NOT NULL
                   OR EXISTS (SELECT FROM entitlements e JOIN purchases p ON p.id = e.purchase
                              WHERE e.holder = 'user:' || w.identity AND p.source = w.source AND p.app = w.app
                                AND p.environment = w.environment)
                   OR (SELECT true FROM events e
                       WHERE e.holder = 'user:' || w.identity AND e.stray AND e.source = w.source
                         AND e.app = w.app AND e.environment = w.environment LIMIT 1) IS NOT NULL
        FROM unnest($1, $2, $3, $4) AS w (identity, source, app, environment)
        LEFT JOIN install_identities i USING (identity, source, app, environment)
        """, row: identity)

    private static func registered(
        install: String, source: String, app: String, environment: String
    ) -> HolderKnowledge.LinkKey {
        HolderKnowledge.LinkKey(
            scope: Scope(source: source, app: app, environment: environment), holder: .anonymous(install))
    }

    /// Registers the installs that nothing in the ledger names yet, and returns those.
    static let register = Statement<Keys, HolderKnowledge.LinkKey>(
        "holder_register",
        """
        INSERT INTO installs (install, source, app, environment)
        SELECT * FROM unnest($1, $2, $3, $4) AS w (install, source, app, environment)
        WHERE NOT EXISTS (SELECT FROM install_identities i
                          WHERE i.install = w.install AND i.source = w.source AND i.app = w.app
                            AND i.environment = w.environment)
          AND NOT EXISTS (SELECT FROM holder_links l
                          WHERE l.anonymous_user_id = w.install AND l.source = w.source AND l.app = w.app
                            AND l.environment = w.environment)
          AND NOT EXISTS (SELECT FROM entitlements e JOIN purchases p ON p.id = e.purchase
                          WHERE e.holder = 'anon:' || w.install AND p.source = w.source AND p.app = w.app
                            AND p.environment = w.environment)
          AND (SELECT true FROM events e
               WHERE e.holder = 'anon:' || w.install AND e.stray AND e.source = w.source
                 AND e.app = w.app AND e.environment = w.environment LIMIT 1) IS NULL
        ORDER BY w.install, w.source, w.app, w.environment
        ON CONFLICT (install, source, app, environment) DO NOTHING
        RETURNING install, source, app, environment
        """, row: registered)

    /// The first `$6` purchases, by id, after `$5` that each of these holders ever held, with the holder's position in
    /// the arrays (from 1).
    static let purchases = Statement<
        ([String], [String], [String], [String], [Identifier], Int64), (Int64, Identifier)
    >(
        "holder_purchases",
        """
        SELECT w.place, p.id
        FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY AS w (holder, source, app, environment, after, place)
        CROSS JOIN LATERAL (
            SELECT p.id FROM entitlements e
            JOIN purchases p ON p.id = e.purchase AND p.source = w.source AND p.app = w.app
                AND p.environment = w.environment
            WHERE e.holder = w.holder AND e.purchase > w.after ORDER BY e.purchase LIMIT $6
        ) AS p
        """)

    /// A restore may name any transaction of a purchase, or the one that is its key.
    static let restored = Statement<Keys, (Identifier, String)>(
        "holder_restored",
        """
        WITH w AS (SELECT * FROM unnest($1, $2, $3, $4) AS w (name, source, app, environment))
        SELECT p.id, w.name FROM w JOIN transactions t ON t.store_transaction_id = w.name
        JOIN purchases p ON p.id = t.purchase AND p.source = w.source AND p.app = w.app
            AND p.environment = w.environment
        UNION
        SELECT p.id, w.name FROM w JOIN purchases p ON p.key = w.name AND p.source = w.source AND p.app = w.app
            AND p.environment = w.environment
        """)

    private static func transaction(
        purchase: Identifier, id: String, originalID: String?, purchasedAt: Timestamp?,
        effectiveNextRenewalAt: Timestamp?, offerType: String?, status: String?, asOf: Timestamp, asOfEvent: Identifier,
        isVoided: Bool
    ) -> BatchPlan.TransactionRow {
        let transaction = Transaction(
            storeTransactionID: id, storeOriginalTransactionID: originalID, purchasedAt: purchasedAt,
            effectiveNextRenewalAt: effectiveNextRenewalAt, offerType: offerType, status: status)
        return BatchPlan.TransactionRow(
            purchase: purchase, transaction: transaction, asOf: asOf, asOfEvent: asOfEvent, isVoided: isVoided)
    }

    /// The newest transaction of each purchase, by the time of purchase: what is said later of an older one (a refund)
    /// does not make it the newest (`BatchPlan.TransactionRow.isNewer`).
    static let newestTransactions = Statement<[Identifier], BatchPlan.TransactionRow>(
        "holder_newest_transactions",
        """
        SELECT p.id, t.store_transaction_id, t.store_original_transaction_id, t.purchased_at_ms,
               t.effective_next_renewal_at_ms, t.offer_type, t.status, t.as_of_ms, t.as_of_event, t.is_voided
        FROM unnest($1) AS p (id)
        CROSS JOIN LATERAL (
            SELECT *, \(AccessEnd.isVoided(of: "p.id")) AS is_voided FROM transactions t
            WHERE t.purchase = p.id AND t.store_transaction_id <> 'posthouse.import'
            ORDER BY is_voided, coalesce(t.purchased_at_ms, least(t.effective_next_renewal_at_ms, t.as_of_ms)) DESC,
                t.as_of_ms DESC, t.as_of_event DESC LIMIT 1
        ) AS t
        """, row: transaction)

    /// One row of `changes`.
    struct SubjectChange {
        /// The subject's position in the arrays, from 1.
        let place: Int
        /// The time from which the subject's changes were read.
        let from: Timestamp
        /// Nil, like all that follows: the subject has no changes from then on.
        let row: Int64?
        let kind: String?
        let target: String?
        /// Nil: the change has one target.
        let second: String?
        let at: Timestamp?
    }

    /// The first page (`$8` rows and ties) of the changes of each subject from a time on. For a name under which its
    /// purchase was not known before, all changes are read; a subject without any gives one row of nulls. Uses the
    /// index `holder_changes_next`.
    static let changes = Statement<Subjects, SubjectChange>(
        "holder_changes",
        changes(ofPurchase: "coalesce(hash, id) = w.purchase"), row: SubjectChange.init)

    /// The same before `LedgerForm.timedKeys`: ids are hashes, and the index over hashes may not be there.
    static let changesBeforeTimedKeys = Statement<Subjects, SubjectChange>(
        "holder_changes_before_timed_keys", changes(ofPurchase: "id = w.purchase"),
        row: SubjectChange.init)

    typealias Subjects = ([String], [String], [String], [String], [Bool], [Timestamp], [Identifier?], Int64)

    private static func changes(ofPurchase named: SQL) -> SQL {
        """
        SELECT w.place, w.from_ms, h.id, h.kind, h.target, h.second_target, h.at_ms
        FROM (
            SELECT place, subject, w.source, w.app, w.environment, is_login,
                   CASE WHEN purchase IS NULL OR 'txn:' || p.key = subject
                       OR (SELECT true FROM transactions t
                           WHERE t.store_transaction_id = substr(subject, 5) AND t.purchase = p.id LIMIT 1)
                   THEN at_ms ELSE '-9223372036854775808'::bigint END AS from_ms
            FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY
                AS w (subject, source, app, environment, is_login, at_ms, purchase, place)
            LEFT JOIN LATERAL (SELECT id, key FROM purchases WHERE \(named) LIMIT 1) AS p ON true
        ) AS w
        LEFT JOIN LATERAL (
            SELECT id, kind, target, second_target, at_ms FROM holder_changes h
            WHERE h.subject = w.subject AND h.source = w.source AND h.app = w.app AND h.environment = w.environment
                AND (h.kind = 'login') = w.is_login AND h.at_ms >= w.from_ms
            ORDER BY h.at_ms FETCH FIRST ($8) ROWS WITH TIES
        ) AS h ON true
        """
    }

    /// Which of the sources have changes of holders.
    static let changing = Statement<[String], String>(
        "holder_changing",
        "SELECT s FROM unnest($1) AS s WHERE EXISTS (SELECT FROM holder_changes h WHERE h.source = s)")

    /// A change that is not applied to all purchases yet.
    struct Unfinished {
        let row: Int64
        /// Or why the row cannot be read.
        let change: Result<HolderChangeRow, HolderChangeRow.Unreadable>
        /// Row of the event that stated it.
        let event: Int64
        let appliedThrough: Identifier
    }

    private static func unfinishedChange(
        row: Int64, source: String, app: String, environment: String, subject: String, kind: String, target: String,
        second: String?, at: Timestamp, event: Int64, appliedThrough: Identifier
    ) -> Unfinished {
        let scope = Scope(source: source, app: app, environment: environment)
        let change = Result { () throws(HolderChangeRow.Unreadable) in
            try HolderChangeRow(
                row: row, scope: scope, subject: subject, kind: kind, target: target, second: second,
                at: at.milliseconds)
        }
        return Unfinished(row: row, change: change, event: event, appliedThrough: appliedThrough)
    }

    /// Those of the sources ($2) that have changes, other than those in `$1`, which are not applied to all purchases
    /// yet.
    static let unfinishedSources = Statement<([Int64], [String]), String>(
        "holder_unfinished_sources",
        """
        SELECT DISTINCT source FROM holder_changes
        WHERE applied_through IS NOT NULL AND id <> ALL ($1) AND source = ANY ($2)
        """)

    /// The oldest change that is not applied to all purchases yet and that no other transaction has locked, except
    /// those in `$1`.
    static let unfinished = Statement<([Int64], [String]), Unfinished>(
        "holder_unfinished",
        """
        SELECT id, source, app, environment, subject, kind, target, second_target, at_ms, event, applied_through
        FROM holder_changes WHERE applied_through IS NOT NULL AND id <> ALL ($1) AND source = ANY ($2)
        ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
        """, row: unfinishedChange)

    /// Changes of these sources that are not applied to all purchases yet: mostly none.
    static let unfinishedOf = Statement<[String], Unfinished>(
        "holder_unfinished_of",
        """
        SELECT id, source, app, environment, subject, kind, target, second_target, at_ms, event, applied_through
        FROM holder_changes WHERE applied_through IS NOT NULL AND source = ANY ($1)
        """, row: unfinishedChange)

    /// Changes from or to these holders that are not applied to all purchases yet; `$2` is the source, null: any.
    static let unfinishedAmong = Statement<([String], String?), Unfinished>(
        "holder_unfinished_among",
        """
        SELECT id, source, app, environment, subject, kind, target, second_target, at_ms, event, applied_through
        FROM holder_changes
        WHERE applied_through IS NOT NULL AND ($2 IS NULL OR source = $2)
            AND (subject = ANY ($1) OR target = ANY ($1) OR second_target = ANY ($1))
        """, row: unfinishedChange)

    /// The event that stated a change.
    struct Cause {
        let key: Identifier
        let vendorEventID: String?
        let name: String
        let type: String
        /// As `Holder.storageKey` writes it.
        let holder: String
        let body: [UInt8]
        /// The database's time.
        let now: Timestamp
    }

    static let cause = Statement<Int64, Cause>(
        "holder_change_cause",
        """
        SELECT key, vendor_event_id, name, type, holder, body, (extract(epoch FROM now()) * 1000)::bigint
        FROM events WHERE id = $1 FOR KEY SHARE
        """, row: Cause.init)

    /// Records the last purchase that a change was applied to; null: it is applied to all.
    static let advance = Statement<(Int64, Identifier?), ()>(
        "holder_advance", "UPDATE holder_changes SET applied_through = $2 WHERE id = $1")
}
