import Postgres
import Vocabulary

/// The SQL of the queue: leases, claims, settles. `deliveries` holds only what is still to do.
///
/// It is empty most of the time, and whenever PostgreSQL's statistics say so, reading an index whole looks as cheap as
/// a look-up. So the statements of successors find rows by the index whose order they ask for, and change them by
/// their place (`ctid`), for which there is one plan.
enum QueueStatements {
    static let register = Statement<(Identifier?, String, Int64, Int32, Int64), (Int64, Timestamp)>(
        "queue_register",
        """
        INSERT INTO daemons (key, version, expires_at, state_form, lock_salt)
        VALUES ($1, $2, now() + $3 * interval '1 millisecond', $4, $5)
        RETURNING id, (extract(epoch FROM now()) * 1000)::bigint
        """)

    /// By the key, too (`Registration.key`).
    static let renew = Statement<(Int64, Int64, Identifier?), Timestamp>(
        "queue_renew",
        """
        UPDATE daemons SET expires_at = now() + $2 * interval '1 millisecond'
        WHERE id = $1 AND key IS NOT DISTINCT FROM $3
        RETURNING (extract(epoch FROM now()) * 1000)::bigint
        """)

    /// The newest form of a purchase's state that every daemon reads (`LedgerForm`); null without a daemon. A daemon
    /// whose lease has run out may only be out of reach: it counts until another one has ended its lease.
    static let ledgerForm = Statement<(), Int32?>(
        "queue_state_form", "SELECT min(state_form) FROM daemons")

    /// The leases of all daemons but `$1`.
    static let otherLeases = Statement<Int64?, OtherLease>(
        "queue_other_leases",
        """
        SELECT id, (extract(epoch FROM expires_at) * 1000000)::bigint, expires_at < now()
        FROM daemons WHERE id IS DISTINCT FROM $1
        """, row: OtherLease.init)

    /// Ends those of the leases that have not been renewed since they were read, each with its end.
    static let expire = Statement<([Int64], [Int64]), Int64>(
        "queue_expire",
        """
        DELETE FROM daemons d USING unnest($1, $2) AS o (id, ends_us)
        WHERE d.id = o.id AND (extract(epoch FROM d.expires_at) * 1000000)::bigint = o.ends_us RETURNING d.id
        """)

    /// Ends the lease of a daemon that is proven dead.
    static let expirePredecessor = Statement<Identifier, Int64>(
        "queue_expire_predecessor", "DELETE FROM daemons WHERE key = $1 RETURNING id")

    /// By the key, too, as `renew`.
    static let leave = Statement<(Int64, Identifier?), ()>(
        "queue_leave", "DELETE FROM daemons WHERE id = $1 AND key IS NOT DISTINCT FROM $2")

    /// Blocks of the table. A walk over the whole queue takes a step of them at a time, so that each of its statements
    /// takes the same time, however much waits. Steps are by place: whenever statistics say that the queue is empty,
    /// any index looks as cheap as another.
    static let blocks = Statement<(), Int64>(
        "queue_blocks", "SELECT pg_relation_size('deliveries') / current_setting('block_size')::bigint")

    /// Of a step, from block `$1` to before block `$2`.
    private static let isInStep: SQL = """
        d.ctid >= ('(' || $1::bigint || ',0)')::tid AND d.ctid < ('(' || $2::bigint || ',0)')::tid
        """

    /// Reclaims deliveries leased by unregistered daemons: daemons whose leases have just ended, and daemons whose
    /// lease ended while they wrote. A daemon that was frozen as it wrote holds locks for as long: the others are not
    /// left waiting with those, and the next sweep looks again. Returns the daemon of each.
    static let reclaim = Statement<(Int64, Int64), Int64>(
        "queue_reclaim",
        """
        WITH nobodys AS MATERIALIZED (
            SELECT ctid AS place, leased_by FROM deliveries d
            WHERE \(isInStep)
              AND d.leased_by IS NOT NULL AND NOT EXISTS (SELECT FROM daemons WHERE id = d.leased_by)
            FOR NO KEY UPDATE OF d SKIP LOCKED)
        UPDATE deliveries d SET leased_by = NULL, due_at = now() FROM nobodys WHERE d.ctid = nobodys.place
        RETURNING nobodys.leased_by
        """)

    /// Those that are leased by daemon `$3`.
    static let leased = Statement<(Int64, Int64, Int64), Int64>(
        "queue_leased", "SELECT d.id FROM deliveries d WHERE \(isInStep) AND d.leased_by = $3")

    /// Of the deliveries `$1` those that are still the ones created at `$3`, in milliseconds since 1970. After a
    /// restore to an earlier time, or a promotion that lost commits, ids are drawn again, under the same lease. What
    /// this daemon still has in memory of the lost ones must not end a new one. `$1` ascends, `width_bucket` searches
    /// it, and takes the last of two that are the same: of 1,000 ids each costs 2 µs, where `array_position` takes 6.
    private static let isTheSame: SQL =
        "id = ANY ($1) AND \(isCreated(at: "($3)[width_bucket(id, $1)]"))"

    /// In whole milliseconds, as this daemon has the time from `(extract(epoch FROM created_at) * 1000)::bigint`. The
    /// cast rounds a time from 2000 on just as that does, for a twentieth of what it costs.
    private static func isCreated(at milliseconds: SQL) -> SQL {
        "created_at::timestamptz(3) = to_timestamp(\(milliseconds) / 1000.0::float8)"
    }

    /// Gives back deliveries that nobody tried.
    static let giveBack = Statement<([Int64], Int64, [Int64]), ()>(
        "queue_give_back",
        "UPDATE deliveries SET leased_by = NULL, due_at = now() WHERE \(isTheSame) AND leased_by = $2")

    /// Gives back deliveries of which only the table knows.
    static let giveBackUnknown = Statement<([Int64], Int64), ()>(
        "queue_give_back_unknown",
        "UPDATE deliveries SET leased_by = NULL, due_at = now() WHERE id = ANY ($1) AND leased_by = $2")

    /// Due anew: the walks of other daemons may have passed their due times (`ClaimCursor`). Where the id is another
    /// daemon's, they are that one's.
    static let giveBackAll = Statement<(Int64, Identifier?), ()>(
        "queue_give_back_all",
        """
        UPDATE deliveries SET leased_by = NULL, due_at = now()
        WHERE leased_by = $1 AND NOT EXISTS (SELECT FROM daemons WHERE id = $1 AND key IS DISTINCT FROM $2)
        """)

    /// Unblocks blocked deliveries with nothing before them, of which there should be none, and those of the
    /// integrations `$3`, whose configuration gave up their order.
    static let unblock = Statement<(Int64, Int64, [Int32]), Int32>(
        "queue_unblock",
        """
        WITH stuck AS MATERIALIZED (
            SELECT ctid AS place FROM deliveries d
            WHERE \(isInStep) AND d.blocked AND d.leased_by IS NULL
              AND (d.integration = ANY ($3) OR coalesce(d.id = (
                SELECT e.id FROM deliveries e WHERE e.purchase = d.purchase AND e.integration = d.integration
                ORDER BY e.id LIMIT 1), true))
            FOR NO KEY UPDATE OF d SKIP LOCKED)
        UPDATE deliveries d SET blocked = false, due_at = now() FROM stuck WHERE d.ctid = stuck.place
        RETURNING d.integration
        """)

    /// Makes due what the database's clock put off while it was ahead: what is not due for longer than `$3`
    /// milliseconds, which is longer than any wait; what has no attempt that counts and is not due for longer than
    /// `$4`, which is longer than any wait without one; and what has none and is of a later time than now. What was put
    /// off since then is due before it was created.
    static let makeDue = Statement<(Int64, Int64, Int64, Int64), Int64>(
        "queue_make_due",
        """
        WITH ahead AS MATERIALIZED (
            SELECT ctid AS place FROM deliveries d
            WHERE \(isInStep) AND d.leased_by IS NULL AND NOT d.blocked
              AND (d.due_at > now() + $3 * interval '1 millisecond'
                   OR d.attempts = 0 AND d.due_at > now() + $4 * interval '1 millisecond'
                   OR d.attempts = 0 AND d.due_at >= d.created_at AND d.created_at > now() + interval '1 minute')
            FOR NO KEY UPDATE OF d SKIP LOCKED)
        UPDATE deliveries d SET due_at = now() FROM ahead WHERE d.ctid = ahead.place RETURNING d.id
        """)

    /// Blocks what waits unblocked for the integrations `$3`, which have become ordered, and has another delivery of
    /// its ordering key before it. That may be settled meanwhile: as in `Successors`, the first of each returned key is
    /// checked after the commit.
    static let block = Statement<(Int64, Int64, [Int32]), FanOut.OrderingKey>(
        "queue_block",
        """
        WITH early AS MATERIALIZED (
            SELECT ctid AS place FROM deliveries d
            WHERE \(isInStep) AND d.leased_by IS NULL AND NOT d.blocked AND d.integration = ANY ($3)
              AND d.id > (
                SELECT e.id FROM deliveries e WHERE e.purchase = d.purchase AND e.integration = d.integration
                ORDER BY e.id LIMIT 1)
            FOR NO KEY UPDATE OF d SKIP LOCKED)
        UPDATE deliveries d SET blocked = true FROM early WHERE d.ctid = early.place
        RETURNING d.purchase, d.integration
        """, row: FanOut.OrderingKey.init)

    /// Which of the lanes have something due, in one cheap query for all of them.
    static let due = Statement<[Int32], Int32>(
        "queue_due",
        """
        SELECT i.id FROM unnest($1) AS i (id) WHERE EXISTS (
            SELECT FROM deliveries d
            WHERE d.integration = i.id AND d.leased_by IS NULL AND NOT d.blocked AND d.due_at <= now())
        """)

    /// One row of `claim`.
    struct Claimed {
        let id: Int64
        /// Row of the message.
        let message: Int64
        /// Attempts made so far.
        let attempts: Int16
        let createdAt: Timestamp
        let dueMicroseconds: Int64
    }

    /// Walks the due index from a cursor ($3 microseconds, $4 id), skipping what others have locked. Planned each time:
    /// without the limit's value the planner may rather sort all of a large backlog.
    static let claim = Statement<(Int32, Int64, Int64, Int64, Int32), Claimed>(
        "queue_claim",
        """
        UPDATE deliveries SET leased_by = $2
        WHERE id = ANY (ARRAY(
            SELECT id FROM deliveries
            WHERE integration = $1 AND leased_by IS NULL AND NOT blocked AND due_at <= now()
              AND (due_at, id) > (timestamptz 'epoch' + $3 * interval '1 microsecond', $4)
            ORDER BY due_at, id LIMIT $5 FOR UPDATE SKIP LOCKED))
        RETURNING id, message, attempts, (extract(epoch FROM created_at) * 1000)::bigint,
                  (extract(epoch FROM due_at) * 1000000)::bigint
        """, row: Claimed.init)

    /// Gives back what was just claimed, without changing its due time.
    static let unclaim = Statement<([Int64], Int64), ()>(
        "queue_unclaim", "UPDATE deliveries SET leased_by = NULL WHERE id = ANY ($1) AND leased_by = $2")

    static let putOff = Statement<(Int64, Int64), ()>(
        "queue_put_off",
        """
        UPDATE deliveries SET due_at = now() + $2 * interval '1 millisecond'
        WHERE id = $1 AND leased_by IS NULL AND NOT blocked
        """)

    /// A delivery that has left the queue.
    struct Gone {
        let id: Int64
        let integration: Int32
        let purchase: Identifier?

        /// Nil: it was of no purchase, and blocked nothing.
        var orderingKey: FanOut.OrderingKey? {
            purchase.map { FanOut.OrderingKey(purchase: $0, integration: integration) }
        }
    }

    static let settled = Statement<([Int64], Int64, [Int64]), Gone>(
        "queue_settled",
        """
        DELETE FROM deliveries WHERE \(isTheSame) AND leased_by = $2
        RETURNING id, integration, purchase
        """, row: Gone.init)

    /// - Parameters of the statement: ids, attempts made, delays in milliseconds, the lease, and as in `isTheSame`.
    static let retry = Statement<([Int64], [Int16], [Int64], Int64, [Int64]), Int64>(
        "queue_retry",
        """
        UPDATE deliveries d
        SET leased_by = NULL, attempts = r.attempts, due_at = now() + r.delay_ms * interval '1 millisecond'
        FROM unnest($1, $2, $3, $5) AS r (id, attempts, delay_ms, created_ms)
        WHERE d.id = r.id AND d.leased_by = $4 AND \(isCreated(at: "r.created_ms"))
        RETURNING d.id
        """)

    static let attempts = Table<Settlement>(
        "attempts",
        [
            Column("delivery", \.delivery.id), Column("message", \.delivery.message),
            Column("integration", \.delivery.integration),
            Column("attempt", \.attempt),
            Column("outcome", \.verdict.outcome.rawValue),
            Column("http_status", \.httpStatusWritten), Column("latency_ms", \.latencyWritten),
            Column("failure", \.failure),
        ])

    /// - Parameters of the statement: messages, deliveries, numbers of attempts, outcomes, HTTP statuses and latencies
    ///   in milliseconds.
    /// - Returns: the places, from 1, of those that the history has. Joined row by row, by the index.
    static let attemptsThere = Statement<([Int64], [Int64], [Int16], [String], [Int16?], [Int32]), Int64>(
        "queue_attempts_there",
        """
        SELECT w.place
        FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY
            AS w (message, delivery, attempt, outcome, http_status, latency_ms, place)
        CROSS JOIN LATERAL (
            SELECT FROM attempts a
            WHERE a.message = w.message AND a.delivery = w.delivery AND a.attempt = w.attempt AND a.outcome = w.outcome
              AND a.http_status IS NOT DISTINCT FROM w.http_status AND a.latency_ms = w.latency_ms
            LIMIT 1) AS there
        """)

    static let deadLetters = Statement<
        ([Int64], [Int64], [Int32], [Identifier?], [Int16], [String], [Int16?], [Int64]), ()
    >(
        "queue_dead_letters",
        """
        INSERT INTO dead_letters (delivery, message, integration, purchase, attempts, reason, http_status, created_at)
        SELECT delivery, message, integration, purchase, attempts, reason, http_status,
               timestamptz 'epoch' + created_ms * interval '1 millisecond'
        FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
            AS t (delivery, message, integration, purchase, attempts, reason, http_status, created_ms)
        """)

    /// Those of the ordering keys whose first delivery is blocked, in their order. Only the index by purchase has the
    /// order asked for here; that of `id` alone is the primary key's, too, which may be chosen while the queue fills.
    static let blockedNext = Statement<([Int32], [Identifier]), FanOut.OrderingKey>(
        "queue_blocked_next",
        """
        SELECT done.purchase, done.integration
        FROM unnest($1, $2) WITH ORDINALITY AS done (integration, purchase, n) CROSS JOIN LATERAL (
            SELECT blocked FROM deliveries
            WHERE purchase = done.purchase AND integration BETWEEN done.integration AND done.integration
            ORDER BY integration, id LIMIT 1) AS head
        WHERE head.blocked ORDER BY done.n
        """, row: FanOut.OrderingKey.init)

    /// One row of `unblockNext`.
    struct Unblocked {
        let id: Int64
        /// Row of the message.
        let message: Int64
        let integration: Int32
        /// Attempts made so far.
        let attempts: Int16
        let createdAt: Timestamp
        /// Nil: any daemon may claim it.
        let lease: Int64?
    }

    /// Unblocks the first delivery of each ordering key if it is blocked, which means that its head is gone (see
    /// `Successors`). `blocked` is read once the row is locked, because whoever unblocked it first may have leased it
    /// since. A row that is locked is being unblocked, settled, given up or looked at by another transaction, which
    /// comes here after its commit; waiting for it could deadlock.
    static let unblockNext = Statement<([Int32], [Identifier], [Int64?]), Unblocked>(
        "queue_unblock_next",
        """
        WITH next AS MATERIALIZED (
            SELECT head.place, done.lease
            FROM unnest($1, $2, $3) AS done (integration, purchase, lease) CROSS JOIN LATERAL (
                SELECT ctid AS place FROM deliveries
                WHERE purchase = done.purchase AND integration BETWEEN done.integration AND done.integration
                ORDER BY integration, id LIMIT 1) AS head
            JOIN deliveries n ON n.ctid = head.place
            WHERE n.blocked FOR NO KEY UPDATE OF n SKIP LOCKED)
        UPDATE deliveries d SET blocked = false, due_at = now(), leased_by = next.lease
        FROM next WHERE d.ctid = next.place
        RETURNING d.id, d.message, d.integration, d.attempts, (extract(epoch FROM d.created_at) * 1000)::bigint,
                  d.leased_by
        """, row: Unblocked.init)

    static let unsettled = Statement<[Int64], Int64>(
        "queue_unsettled", "SELECT id FROM deliveries WHERE id = ANY ($1)")

    static let pause = Statement<(Int32, String), Int32>(
        "queue_pause",
        """
        UPDATE integrations SET paused_at = now(), pause_reason = $2 WHERE id = $1 AND paused_at IS NULL RETURNING id
        """)

    static let resume = Statement<String, Int32>(
        "queue_resume",
        """
        UPDATE integrations SET paused_at = NULL, pause_reason = NULL WHERE name = $1 AND paused_at IS NOT NULL
        RETURNING id
        """)

    static let pauses = Statement<(), (Int32, String?)>(
        "queue_pauses", "SELECT id, pause_reason FROM integrations WHERE paused_at IS NOT NULL")

    /// A conflict alone would use up an id for each name that is known, with each start, reload and command.
    static let nameIntegrations = Statement<[String], ()>(
        "queue_name_integrations",
        """
        INSERT INTO integrations (name)
        SELECT name FROM unnest($1) AS wanted (name)
        WHERE NOT EXISTS (SELECT FROM integrations i WHERE i.name = wanted.name) ON CONFLICT (name) DO NOTHING
        """)

    static let integrations = Statement<[String], (Int32, String)>(
        "queue_integrations", "SELECT id, name FROM integrations WHERE name = ANY ($1)")

    /// Those of the rows ($1) that are not there under their names ($2).
    static let goneIntegrations = Statement<([Int32], [String]), Int32>(
        "queue_gone_integrations",
        """
        SELECT r.id FROM unnest($1, $2) AS r (id, name)
        WHERE NOT EXISTS (SELECT FROM integrations i WHERE i.id = r.id AND i.name = r.name)
        """)

    /// Those whose number and name are free, with the numbers that they had.
    static let putBackIntegrations = Statement<([Int32], [String]), Int32>(
        "queue_put_back_integrations",
        """
        INSERT INTO integrations (id, name) OVERRIDING SYSTEM VALUE
        SELECT id, name FROM unnest($1, $2) AS gone (id, name) ON CONFLICT DO NOTHING RETURNING id
        """)
}
