import Postgres
import Vocabulary

/// The SQL about holders beyond one purchase. Four arrays name a holder, a transaction or an identity each: the text,
/// source, app, environment.
enum HolderStatements {
    typealias Keys = ([String], [String], [String], [String])
    typealias LinkRow = (String, String, String, String, String?, Int64?, Int64)
    typealias IdentityRow = (String, String, String, String, String?, [String], Bool)
    typealias RegisteredRow = (String, String, String, String)
    typealias TransactionRow = (Identifier, String, String?, Int64?, Int64?, String?, String?)
    typealias ChangeRow = (String, String, String, String, String, String, String?, Int64)

    /// The first number ("hold" as bytes) keeps these locks apart from others.
    static let lock = Statement<Int32, ()>("holder_lock", "SELECT FROM pg_advisory_xact_lock(1752132708, $1)")
    static let lockShared = Statement<Int32, ()>(
        "holder_lock_shared", "SELECT FROM pg_advisory_xact_lock_shared(1752132708, $1)")

    static let links = Statement<Keys, LinkRow>(
        "holder_links",
        """
        SELECT l.source, l.app, l.environment, l.anonymous_user_id, l.user_id, l.until_ms, l.as_of_ms
        FROM unnest($1, $2, $3, $4) AS w (anonymous_user_id, source, app, environment)
        JOIN holder_links l USING (anonymous_user_id, source, app, environment)
        """)

    static let linksOfUsers = Statement<Keys, LinkRow>(
        "holder_links_of_users",
        """
        SELECT l.source, l.app, l.environment, l.anonymous_user_id, l.user_id, l.until_ms, l.as_of_ms
        FROM unnest($1, $2, $3, $4) AS w (user_id, source, app, environment)
        JOIN holder_links l USING (user_id, source, app, environment)
        """)

    /// All that is known of an identity: the install that identified as it first; where that is not known, two of the
    /// installs that webhooks linked it with, the oldest links, and whether the ledger names it at all.
    static let identities = Statement<Keys, IdentityRow>(
        "holder_identities",
        """
        SELECT w.identity, w.source, w.app, w.environment, i.install,
               ARRAY (SELECT l.anonymous_user_id FROM holder_links l
                      WHERE i.install IS NULL AND l.user_id = w.identity AND l.source = w.source AND l.app = w.app
                        AND l.environment = w.environment
                      ORDER BY l.as_of_ms, l.anonymous_user_id LIMIT 2),
               i.install IS NOT NULL
                   OR EXISTS (SELECT FROM entitlements e JOIN purchases p ON p.id = e.purchase
                              WHERE e.holder = 'user:' || w.identity AND p.source = w.source AND p.app = w.app
                                AND p.environment = w.environment)
                   OR EXISTS (SELECT FROM events e
                              WHERE e.holder = 'user:' || w.identity AND e.source = w.source AND e.app = w.app
                                AND e.environment = w.environment)
        FROM unnest($1, $2, $3, $4) AS w (identity, source, app, environment)
        LEFT JOIN install_identities i USING (identity, source, app, environment)
        """)

    /// Registers the installs that nothing knows of yet, and gives those back.
    static let register = Statement<Keys, RegisteredRow>(
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
          AND NOT EXISTS (SELECT FROM events e
                          WHERE e.holder = 'anon:' || w.install AND e.source = w.source AND e.app = w.app
                            AND e.environment = w.environment)
        ORDER BY w.install, w.source, w.app, w.environment
        ON CONFLICT (install, source, app, environment) DO NOTHING
        RETURNING install, source, app, environment
        """)

    /// All purchases that these holders ever held.
    static let purchases = Statement<Keys, Identifier>(
        "holder_purchases",
        """
        SELECT p.id FROM unnest($1, $2, $3, $4) AS w (holder, source, app, environment)
        JOIN entitlements e USING (holder)
        JOIN purchases p ON p.id = e.purchase AND p.source = w.source AND p.app = w.app
            AND p.environment = w.environment
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

    static let newestTransactions = Statement<[Identifier], TransactionRow>(
        "holder_newest_transactions",
        """
        SELECT p.id, t.store_transaction_id, t.store_original_transaction_id, t.purchased_at_ms,
               t.effective_next_renewal_at_ms, t.offer_type, t.status
        FROM unnest($1) AS p (id)
        CROSS JOIN LATERAL (
            SELECT store_transaction_id FROM events e
            WHERE e.purchase = p.id AND e.store_transaction_id IS NOT NULL ORDER BY e.id DESC LIMIT 1
        ) AS newest
        JOIN transactions t ON t.store_transaction_id = newest.store_transaction_id AND t.purchase = p.id
        """)

    /// What was stated of them, and of whom that leads to: what passed to somebody may have passed on.
    static let changes = Statement<Keys, ChangeRow>(
        "holder_changes",
        """
        WITH RECURSIVE c AS (
            SELECT h.* FROM unnest($1, $2, $3, $4) AS w (subject, source, app, environment)
            JOIN holder_changes h USING (subject, source, app, environment)
            UNION
            SELECT h.* FROM c JOIN holder_changes h ON h.subject IN (c.target, c.second_target)
                AND h.source = c.source AND h.app = c.app AND h.environment = c.environment
        )
        SELECT source, app, environment, subject, kind, target, second_target, at_ms FROM c ORDER BY at_ms, id
        """)

    static let addChanges = Statement<
        ([String], [String], [String], [String], [String], [String], [String?], [Int64], [Int64]), ()
    >(
        "holder_add_changes",
        """
        INSERT INTO holder_changes (source, app, environment, subject, kind, target, second_target, at_ms, event)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
        """)

    static let addIdentities = Statement<([String], [String], [String], [String], [String], [Int64]), ()>(
        "holder_add_identities",
        """
        INSERT INTO install_identities (identity, source, app, environment, install, event)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
        ON CONFLICT (identity, source, app, environment) DO NOTHING
        """)

    static let learnLinks = Statement<
        ([String], [String], [String], [String], [String?], [Int64?], [Int64]), ()
    >(
        "holder_learn_links",
        """
        INSERT INTO holder_links AS l (anonymous_user_id, source, app, environment, user_id, until_ms, as_of_ms)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (anonymous_user_id, source, app, environment) DO UPDATE
        SET user_id = excluded.user_id, until_ms = excluded.until_ms, as_of_ms = excluded.as_of_ms
        WHERE l.as_of_ms <= excluded.as_of_ms
        """)
}
