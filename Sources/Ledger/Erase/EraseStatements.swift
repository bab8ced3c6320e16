import Postgres
import Vocabulary

/// The SQL of erasing. `$n IS NULL OR source = $n` is `--source`.
enum EraseStatements {
    struct OwnEvent {
        let id: Int64
        let key: Identifier
        let purchase: Identifier?
    }

    struct CausedMessage {
        let id: Int64
        let event: Int64
        /// The purchase that it is about.
        let purchase: Identifier?
    }

    struct GivenUp {
        let message: Int64
        let integration: Int32
        let purchase: Identifier?
    }

    struct Unsettled {
        let message: Int64
        let isLeased: Bool
    }

    /// Who else a purchase has.
    struct Company {
        let purchase: Identifier
        /// Others have events or entitlements of it.
        let hasOthers: Bool
        /// The person has events of it.
        let hasOwn: Bool
    }

    /// Anonymous ids that are known to be a user, or were: a logout ends the link, but not what came under the id
    /// before it, and the login is known for some weeks more. A transfer says nothing of that: a restore passes on what
    /// was somebody else's.
    static let linked = Statement<(String, String?), String>(
        "erase_linked",
        """
        SELECT anonymous_user_id FROM holder_links WHERE user_id = $1 AND ($2 IS NULL OR source = $2)
        UNION SELECT install FROM install_identities WHERE identity = $1 AND ($2 IS NULL OR source = $2)
        UNION SELECT substr(subject, 6) FROM holder_changes
        WHERE kind = 'login' AND target = 'user:' || $1 AND subject LIKE 'anon:%' AND ($2 IS NULL OR source = $2)
        """)

    /// Those of the installs ($1) that are known to be others than the users $2, too: on one device two people may log
    /// in, one after the other.
    static let sharedInstalls = Statement<([String], [String], String?), String>(
        "erase_shared_installs",
        """
        SELECT anonymous_user_id FROM holder_links
        WHERE anonymous_user_id = ANY ($1) AND user_id <> ALL ($2) AND ($3 IS NULL OR source = $3)
        UNION SELECT install FROM install_identities
        WHERE install = ANY ($1) AND identity <> ALL ($2) AND ($3 IS NULL OR source = $3)
        UNION SELECT w.id FROM unnest($1) AS w (id) JOIN holder_changes c ON c.subject = 'anon:' || w.id
        WHERE c.kind = 'login' AND c.target LIKE 'user:%' AND substr(c.target, 6) <> ALL ($2)
            AND ($3 IS NULL OR c.source = $3)
        """)

    /// The sources of events.
    static let sourcesOf = Statement<[Int64], String>(
        "erase_sources_of", "SELECT DISTINCT source FROM events WHERE id = ANY ($1)")

    struct HeldState {
        let id: Identifier
        let state: [UInt8]
    }

    /// The purchases that holders have or had, and those of their events that no entitlement leads to, ascending, after
    /// $3.
    static let statesOf = Statement<([String], String?, Identifier, Int32), HeldState>(
        "erase_states_of",
        """
        SELECT p.id, p.state FROM purchases p
        WHERE p.id IN (SELECT purchase FROM entitlements WHERE holder = ANY ($1)
                       UNION SELECT purchase FROM events WHERE holder = ANY ($1) AND stray AND purchase IS NOT NULL)
            AND ($2 IS NULL OR p.source = $2) AND p.id > $3
        ORDER BY p.id LIMIT $4
        """, row: HeldState.init)

    /// Which of the holders ($1) a link, another change of holders or the newest that is known of them leads to anybody
    /// but $2 and whoever was erased (`ErasedID.isStandIn`).
    static let linkedElsewhere = Statement<([String], [String], String?), String>(
        "erase_linked_elsewhere",
        """
        SELECT subject FROM holder_changes
        WHERE subject = ANY ($1)
            AND (target <> ALL ($2) AND target NOT LIKE 'anon:erased-%'
                 OR second_target <> ALL ($2) AND second_target NOT LIKE 'anon:erased-%')
            AND ($3 IS NULL OR source = $3)
        UNION
        SELECT w.holder FROM unnest($1) AS w (holder) JOIN holder_links l ON l.anonymous_user_id = substr(w.holder, 6)
        WHERE w.holder LIKE 'anon:%' AND 'user:' || l.user_id <> ALL ($2) AND ($3 IS NULL OR l.source = $3)
        """)

    static let standIns = Statement<[String], String>(
        "erase_stand_ins",
        """
        SELECT encode(sha256(s.salt || convert_to(w.holder, 'UTF8')), 'hex')
        FROM unnest($1) WITH ORDINALITY AS w (holder, n) CROSS JOIN erasure_salt s ORDER BY w.n
        """)

    /// Events of holders that their purchases do not lead to, ascending, after id $3.
    static let strayEvents = Statement<([String], String?, Int64, Int32), OwnEvent>(
        "erase_stray_events",
        """
        SELECT id, key, purchase FROM events
        WHERE holder = ANY ($1) AND stray AND ($2 IS NULL OR source = $2) AND id > $3 ORDER BY id LIMIT $4
        """, row: OwnEvent.init)

    /// Purchases of holders, ascending, after $2.
    static let purchasesOf = Statement<([String], Identifier, Int32), Identifier>(
        "erase_purchases_of",
        """
        SELECT DISTINCT purchase FROM entitlements WHERE holder = ANY ($1) AND purchase > $2 ORDER BY purchase LIMIT $3
        """)

    /// The other events of holders, of purchases ($5), ascending, after id $3.
    static let eventsOf = Statement<([String], String?, Int64, Int32, [Identifier]), OwnEvent>(
        "erase_events_of",
        """
        SELECT e.id, e.key, e.purchase FROM unnest($5) AS w (purchase) CROSS JOIN LATERAL (
            SELECT id, key, purchase FROM events
            WHERE purchase = w.purchase AND holder = ANY ($1) AND NOT stray AND ($2 IS NULL OR source = $2) AND id > $3
            ORDER BY id LIMIT $4) AS e
        ORDER BY e.id LIMIT $4
        """, row: OwnEvent.init)

    /// Messages that events caused.
    static let messagesOf = Statement<[Int64], CausedMessage>(
        "erase_messages_of",
        """
        SELECT m.id, m.event, coalesce(t.purchase, e.purchase)
        FROM messages m \(RowByID.event("m.event", as: "e")) LEFT JOIN transfers t ON t.id = m.transfer
        WHERE m.event = ANY ($1)
        """, row: CausedMessage.init)

    /// Whether a message (m) about a transfer (t) is about whom its webhook (e) is about, and about the purchase that
    /// the webhook names. Such a one needs no row of the transfer: the webhook says whose it is, and its purchase.
    private static let isOfItsWebhook: SQL = """
        e.purchase IS NOT DISTINCT FROM t.purchase
            AND e.holder = CASE WHEN m.type LIKE '%TRANSFERRED' THEN t.from_holder ELSE t.to_holder END
        """

    /// Messages about transfers from and to the holders that others' events caused. What one of these says of that
    /// other itself stays: the holders are mentions in it.
    static let messagesOfOthers = Statement<([String], String?, Int64, Int32), CausedMessage>(
        "erase_messages_of_others",
        """
        SELECT m.id, m.event, t.purchase
        FROM transfers t JOIN messages m ON m.event = t.event AND m.transfer = t.id \(RowByID.event("m.event", as: "e"))
        WHERE (t.from_holder = ANY ($1) OR t.to_holder = ANY ($1)) AND e.holder <> ALL ($1)
          AND NOT (\(isOfItsWebhook)) AND ($2 IS NULL OR e.source = $2) AND m.id > $3
        ORDER BY m.id LIMIT $4
        """, row: CausedMessage.init)

    /// Comes first, in a transaction of its own: whoever records a duplicate meanwhile sees the event key or this.
    static let remember = Statement<[Identifier], ()>(
        "erase_remember",
        """
        INSERT INTO erased_events (digest)
        SELECT sha256(s.salt || uuid_send(w.key)) FROM unnest($1) AS w (key) CROSS JOIN erasure_salt s
        ON CONFLICT (digest) DO NOTHING
        """)

    static let giveUp = Statement<[Int64], GivenUp>(
        "erase_give_up",
        """
        DELETE FROM deliveries WHERE message = ANY ($1) AND leased_by IS NULL RETURNING message, integration, purchase
        """, row: GivenUp.init)

    /// Notes deliveries, by message and integration, that were given up while their message stays (`Audit`).
    static let recordDiscards = Statement<([Int64], [Int32]), ()>(
        "erase_note",
        """
        INSERT INTO discards (message, integration, is_erased)
        SELECT w.message, w.integration, true FROM unnest($1, $2) AS w (message, integration) ON CONFLICT DO NOTHING
        """)

    static let unsettled = Statement<[Int64], Unsettled>(
        "erase_unsettled", "SELECT message, leased_by IS NOT NULL FROM deliveries WHERE message = ANY ($1)",
        row: Unsettled.init)

    static let deadLetters = Statement<[Int64], ()>(
        "erase_dead_letters", "DELETE FROM dead_letters WHERE message = ANY ($1)")

    /// Erases what receivers answered. The status stays, and so does why no answer came: Posthouse's own words, which
    /// name nobody, and without which `posthouse status` could not say what is wrong with a receiver.
    static let excerpts = Statement<[Int64], ()>(
        "erase_excerpts",
        """
        UPDATE attempts SET failure = NULL
        WHERE message = ANY ($1) AND failure IS NOT NULL AND http_status IS NOT NULL
        """)

    static let messages = Statement<[Int64], ()>("erase_messages", "DELETE FROM messages WHERE id = ANY ($1)")

    static let eventKeys = Statement<[Identifier], ()>(
        "erase_event_keys", "DELETE FROM identities WHERE key = ANY ($1)")

    /// Locks events that are to be deleted: a continued change of holders that announces one has its messages written
    /// before, or does not find it after.
    static let lockEvents = Statement<[Int64], ()>(
        "erase_lock_events", "SELECT FROM events WHERE id = ANY ($1) ORDER BY id FOR UPDATE")

    static let deleteEvents = Statement<[Int64], ()>("erase_delete_events", "DELETE FROM events WHERE id = ANY ($1)")

    /// The sources in which anything names the holders ($1) or the anonymous ids ($2) in a column.
    static let sources = Statement<([String], [String], String?), String>(
        "erase_sources",
        """
        SELECT source FROM (
            SELECT p.source FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE e.holder = ANY ($1)
            UNION SELECT p.source FROM transfers t JOIN purchases p ON p.id = t.purchase
                  WHERE t.from_holder = ANY ($1) OR t.to_holder = ANY ($1)
            UNION SELECT source FROM installs WHERE install = ANY ($2)
            UNION SELECT source FROM holder_changes
                  WHERE subject = ANY ($1) OR target = ANY ($1) OR second_target = ANY ($1)
        ) AS s WHERE $3 IS NULL OR source = $3
        """)

    private static let arrived = EventsOfHolder.rows("w.holder", where: "source = $2", limit: "1")

    /// Whether events of the holders came to a source, or messages that are to be deleted about transfers from and to
    /// them (`messagesOfOthers`).
    static let hasArrivals = Statement<([String], String), Bool>(
        "erase_has_arrivals",
        """
        SELECT EXISTS (SELECT FROM unnest($1) AS w (holder) CROSS JOIN LATERAL (\(arrived)) AS o)
            OR EXISTS (SELECT FROM transfers t JOIN messages m ON m.event = t.event AND m.transfer = t.id
                       \(RowByID.event("m.event", as: "e"))
                       WHERE (t.from_holder = ANY ($1) OR t.to_holder = ANY ($1)) AND e.source = $2
                         AND NOT (\(isOfItsWebhook)))
        """)

    /// The purchases of a source that rows name the holders of: all that they ever held, as far as anything but the
    /// purchase's state says so.
    static let held = Statement<([String], String), Identifier>(
        "erase_held",
        """
        SELECT p.id FROM entitlements e JOIN purchases p ON p.id = e.purchase
        WHERE e.holder = ANY ($1) AND p.source = $2
        UNION
        SELECT p.id FROM transfers t JOIN purchases p ON p.id = t.purchase
        WHERE (t.from_holder = ANY ($1) OR t.to_holder = ANY ($1)) AND p.source = $2
        """)

    static let transfers = Statement<([String], String), Identifier>(
        "erase_transfers",
        """
        DELETE FROM transfers t USING purchases p
        WHERE (from_holder = ANY ($1) OR to_holder = ANY ($1)) AND p.id = t.purchase AND p.source = $2
        RETURNING t.id
        """)

    static let entitlements = Statement<([String], String), Identifier>(
        "erase_entitlements",
        """
        DELETE FROM entitlements e USING purchases p
        WHERE holder = ANY ($1) AND p.id = e.purchase AND p.source = $2 RETURNING e.purchase
        """)

    /// Links of anonymous ids ($1) and to users ($2).
    static let links = Statement<([String], [String], String?), String>(
        "erase_links",
        """
        DELETE FROM holder_links WHERE (anonymous_user_id = ANY ($1) OR user_id = ANY ($2))
            AND ($3 IS NULL OR source = $3) RETURNING source
        """)

    static let installIdentities = Statement<([String], String?), String>(
        "erase_install_identities",
        """
        DELETE FROM install_identities WHERE identity = ANY ($1) AND ($2 IS NULL OR source = $2) RETURNING source
        """)

    /// Replaces the installs by stand-ins where identities stay: the next install that identifies as one of these is
    /// not the first ever, and shares nothing; it takes the stand-in's place (`HolderTables.identities`).
    static let identityInstalls = Statement<([String], [String], String?), String>(
        "erase_identity_installs",
        """
        UPDATE install_identities i SET install = w.stand_in FROM unnest($1, $2) AS w (install, stand_in)
        WHERE i.install = w.install AND ($3 IS NULL OR i.source = $3) RETURNING i.source
        """)

    static let installs = Statement<([String], String), String>(
        "erase_installs", "DELETE FROM installs WHERE install = ANY ($1) AND source = $2 RETURNING source")

    static let changes = Statement<([String], String), Int64>(
        "erase_changes", "DELETE FROM holder_changes WHERE subject = ANY ($1) AND source = $2 RETURNING id")

    /// Replaces the holders as targets of others' changes: what passed to them stays gone from the others.
    static let changeTargets = Statement<([String], [String], String), Int64>(
        "erase_change_targets",
        """
        UPDATE holder_changes c
        SET target = coalesce((SELECT w.stand_in FROM unnest($1, $2) AS w (holder, stand_in)
                               WHERE w.holder = c.target), c.target),
            second_target = coalesce((SELECT w.stand_in FROM unnest($1, $2) AS w (holder, stand_in)
                                      WHERE w.holder = c.second_target), c.second_target)
        WHERE (target = ANY ($1) OR second_target = ANY ($1)) AND source = $3 RETURNING id
        """)

    /// `ErasedID.isStandIn` of a storage key.
    static func isStandIn(holder: SQL) -> SQL { "\(holder) ~ '^anon:erased-[0-9a-f]{16}$'" }

    /// The same of an anonymous id.
    static func isStandIn(install: SQL) -> SQL { "\(install) ~ '^erased-[0-9a-f]{16}$'" }

    /// Whether a row is of anybody but the person ($2) and whoever was erased.
    private static let isOfOthers: SQL = "e.holder <> ALL ($2) AND NOT \(isStandIn(holder: "e.holder"))"

    /// A statement of its own behind the lock: one that waited for the lock would not see what was recorded meanwhile.
    static let company = Statement<([Identifier], [String]), Company>(
        "erase_company",
        """
        SELECT p.id,
               EXISTS (SELECT FROM events e WHERE e.purchase = p.id AND \(isOfOthers))
                   OR EXISTS (SELECT FROM entitlements e WHERE e.purchase = p.id AND \(isOfOthers)),
               EXISTS (SELECT FROM events e WHERE e.purchase = p.id AND e.holder = ANY ($2))
        FROM unnest($1) AS p (id)
        """, row: Company.init)

    static let deletePurchase = Statement<Identifier, ()>(
        "erase_delete_purchase",
        """
        WITH held AS (DELETE FROM entitlements WHERE purchase = $1),
             passed AS (DELETE FROM transfers WHERE purchase = $1),
             due AS (DELETE FROM purchase_ends e USING transactions t
                     WHERE t.purchase = $1 AND e.purchase = $1 AND e.until_ms = t.effective_next_renewal_at_ms),
             paid AS (DELETE FROM transactions WHERE purchase = $1),
             named AS (DELETE FROM purchase_tokens t USING purchases p
                       WHERE p.id = $1 AND t.first = p.key AND t.source = p.source)
        DELETE FROM purchases WHERE id = $1
        """)

    static let rewritePurchase = Statement<(Identifier, [UInt8], String, String?), ()>(
        "erase_rewrite_purchase", "UPDATE purchases SET state = $2, key = $3, subscription_id = $4 WHERE id = $1")
}
