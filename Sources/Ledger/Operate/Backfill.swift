import JSONText
package import Postgres
package import Vocabulary

/// Queues for an integration the messages that it asks for and was never sent, and those that were for it and that
/// nothing says were delivered or given up (`Audit`), in message order. Run again, it continues: messages that the
/// integration has waiting, was sent or has as dead letters are left out.
///
/// What an integration was sent is known from `attempts`, which are kept for a shorter time than messages. An
/// integration that is older than the kept attempts gets nothing from before them (`knownFrom`), because nobody knows
/// what it was sent then.
package struct Backfill: Sendable {
    let route: RoutedIntegration
    private let since: Int64
    private let until: Int64
    private let requeue: Requeue
    /// Rows of messages: the last one looked at, and the last one to look at.
    private var after: Int64
    private let last: Int64
    /// Ids between the last message of a period and the first of the next, that no message has.
    private let unused: [Range<Int64>]
    /// It reaches back to here at most; nil: everything that the integration was ever sent is known.
    package let knownFrom: Timestamp?
    package private(set) var isDone = false
    /// Messages whose envelope cannot be read, so that `where` cannot judge them. They are left out.
    package private(set) var unreadable = 0
    /// Those of them that the database cannot read: rows of messages, with the reasons.
    package private(set) var damaged: [(message: Int64, reason: String)] = []

    package static func start(
        _ route: RoutedIntegration, since: Timestamp, until: Timestamp?, in pool: Pool
    ) async throws(DatabaseError) -> Backfill {
        try await pool.withSession { session throws(DatabaseError) in
            let knownFrom = try session.run(BackfillStatements.knownFrom, route.row).first.map {
                // The oldest day may be dropped while this runs.
                $0.advanced(byMilliseconds: 86_400_000)
            }
            let since = max(since, knownFrom ?? since)
            let first = try FirstRow.find(since, BackfillStatements.bounds, BackfillStatements.probe, on: session)
            // Newer messages are delivered to it anyway, once the daemons know it.
            var last = try session.run(BackfillStatements.bounds, ()).first.flatMap { _, last in last } ?? 0
            if let until {
                let end = until.advanced(byMilliseconds: 2 * FirstRow.disorderMilliseconds)
                last = min(
                    last, try FirstRow.find(end, BackfillStatements.bounds, BackfillStatements.probe, on: session))
            }
            let unused = try session.run(BackfillStatements.unused, (first - 1, last)).map { last, first in
                last + 1..<first
            }
            return Backfill(
                route: route, since: since, until: until, after: first - 1, last: last, unused: unused,
                knownFrom: knownFrom)
        }
    }

    private init(
        route: RoutedIntegration, since: Timestamp, until: Timestamp?, after: Int64, last: Int64,
        unused: [Range<Int64>], knownFrom: Timestamp?
    ) {
        self.route = route
        self.since = since.milliseconds
        self.until = until?.milliseconds ?? .max
        requeue = Requeue(ordered: route.integration.order == .purchase ? [route.row] : [])
        self.after = after
        self.last = last
        self.unused = unused
        self.knownFrom = knownFrom
    }

    /// Messages still to be looked at, at most: row ids may have gaps.
    package var left: Int {
        let unused = unused.reduce(0) { $0 + max(0, $1.upperBound - max($1.lowerBound, after + 1)) }
        return Int(max(0, last - after - unused))
    }

    /// Does the next step. A dry step writes nothing. Messages whose envelope the database cannot read end no backfill:
    /// each is looked for, and the step is done without them. Another value that it cannot read, such as the body of a
    /// relay message about an integration, ends it.
    /// - Returns: how many messages the integration asks for and does not have.
    package mutating func step(isDry: Bool, in pool: Pool) async throws(DatabaseError) -> Int {
        do throws(DatabaseError) {
            return try await step(isDry: isDry, without: [], in: pool)
        } catch {
            guard route.integration.filter != nil, error.isUnreadableData, damaged.count < Limits.backfillDamagedMax
            else { throw error }
            let found = try await damagedOfNextStep(in: pool)
            if found.isEmpty { throw error }
            let queued = try await step(isDry: isDry, without: Set(found.map(\.message)), in: pool)
            damaged += found
            return queued
        }
    }

    /// - Parameter damaged: messages that the database cannot read.
    private mutating func step(
        isDry: Bool, without damaged: Set<Int64>, in pool: Pool
    ) async throws(DatabaseError) -> Int {
        let (wanted, route, requeue) = (wanted, route, requeue)
        let (page, queued, unreadable) = try await pool.retriedTransaction { session throws(DatabaseError) in
            if !isDry { try Requeue.lock(on: session) }
            let page = try session.run(BackfillStatements.page, wanted)
            let selected = Self.selected(page, by: route.integration)
            let readable = selected.filter { !damaged.contains($0.message) }
            let (admitted, unreadable) = try Self.admitted(readable, to: route.integration, on: session)
            let asked = (page.filter { $0.isNoted && !$0.isKnown } + admitted)
                .map { Requeued(message: $0.message, integration: route.row, purchase: $0.purchase) }
                .sorted { $0.message < $1.message }
            if !isDry {
                try requeue.write(asked, on: session)
                _ = try session.execute(BackfillStatements.addReceiver, (asked.map(\.message), route.row))
            }
            return (page, asked.count, unreadable + selected.count - readable.count)
        }
        self.unreadable += unreadable
        if let last = page.last { after = last.message }
        isDone = page.count < Int(Requeue.stepMax)
        if isDone { after = last }
        return queued
    }

    /// Parameters of `BackfillStatements.page` for the next step.
    private var wanted: BackfillStatements.Wanted {
        (after, last, since, until, route.row, Requeue.stepMax, RelayMessage.mark(of: route.integration.name))
    }

    /// Those that the integration asks for by all but `where`, and that were never for it.
    private static func selected(
        _ page: [BackfillStatements.Candidate], by integration: Integration
    ) -> [BackfillStatements.Candidate] {
        page.filter {
            !$0.isKnown && !$0.isNoted
                && integration.selects(type: $0.type, source: $0.source, environment: $0.environment)
        }
    }

    /// Messages of the next step that the database cannot read.
    private func damagedOfNextStep(
        in pool: Pool
    ) async throws(DatabaseError) -> [(message: Int64, reason: String)] {
        let wanted = wanted
        let page = try await pool.withSession { session throws(DatabaseError) in
            try session.run(BackfillStatements.page, wanted)
        }
        return try await Self.damaged(of: Self.selected(page, by: route.integration).map(\.message), in: pool)
    }

    /// Reads envelopes in halves, until what cannot be read is alone.
    private static func damaged(
        of messages: [Int64], in pool: Pool
    ) async throws(DatabaseError) -> [(message: Int64, reason: String)] {
        guard let ids = IDsInPeriods(messages)?.parameters else { return [] }
        do throws(DatabaseError) {
            _ = try await pool.withSession { session throws(DatabaseError) in
                try session.execute(BackfillStatements.envelopes, ids)
            }
            return []
        } catch {
            guard error.isUnreadableData else { throw error }
            if messages.count == 1 { return [(messages[0], "\(error)")] }
            let middle = messages.count / 2
            let first = try await damaged(of: Array(messages[..<middle]), in: pool)
            let second = try await damaged(of: Array(messages[middle...]), in: pool)
            return first + second
        }
    }

    /// Those of the messages that `where` lets through, judged by what they said when they were recorded, and how many
    /// others cannot be read.
    private static func admitted(
        _ selected: [BackfillStatements.Candidate], to integration: Integration, on session: borrowing Session
    ) throws(DatabaseError) -> ([BackfillStatements.Candidate], unreadable: Int) {
        guard integration.filter != nil, let ids = IDsInPeriods(selected.map(\.message)) else { return (selected, 0) }
        let envelopes = Dictionary(firstOf: try session.run(BackfillStatements.envelopes, ids.parameters))
        var admitted: [BackfillStatements.Candidate] = []
        var unreadable = 0
        for candidate in selected {
            guard let envelope = envelopes[candidate.message] else { continue }
            do throws(JSONError) {
                let fields = try StoredMessageFields(envelope)
                let isAdmitted = try integration.admits(type: candidate.type) { field throws(JSONError) in
                    try fields.text(of: field)
                }
                if isAdmitted { admitted.append(candidate) }
            } catch {
                unreadable += 1
            }
        }
        return (admitted, unreadable)
    }
}

enum BackfillStatements {
    static let bounds = Statement<(), (Int64?, Int64?)>("backfill_bounds", "SELECT min(id), max(id) FROM messages")

    static let probe = Statement<Int64, (Int64, Timestamp)>(
        "backfill_probe",
        """
        SELECT id, (extract(epoch FROM created_at) * 1000)::bigint FROM messages WHERE id >= $1 ORDER BY id LIMIT 1
        """)

    /// The last message before each period that begins between `$1` and `$2`, and the period's first id.
    static let unused = Statement<(Int64, Int64), (Int64, Int64)>(
        "backfill_unused",
        """
        SELECT coalesce((SELECT m.id FROM messages m WHERE m.id > $1 AND m.id < p.id << 32 ORDER BY m.id DESC LIMIT 1), $1),
               p.id << 32
        FROM periods p WHERE p.id << 32 > $1 AND p.id << 32 <= $2
        """)

    /// When the record of what the integration was sent begins; no row: the record is complete. Attempts are dropped by
    /// days, the oldest first.
    static let knownFrom = Statement<Int32, Timestamp>(
        "backfill_known_from",
        """
        SELECT (extract(epoch FROM k.start) * 1000)::bigint
        FROM integrations i CROSS JOIN (
            SELECT min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC' AS start
            FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
            WHERE h.inhparent = 'attempts'::regclass AND c.relname ~ '^attempts_[0-9]{8}$') AS k
        WHERE i.id = $1 AND i.created_at < k.start
        """)

    /// Notes that messages are for the integration ($2), too, where it is known whom they were for.
    static let addReceiver = Statement<([Int64], Int32), ()>(
        "backfill_want",
        """
        UPDATE messages SET integrations = concat_ws(',', nullif(integrations, ''), $2)
        WHERE id = ANY ($1) AND integrations IS NOT NULL
          AND $2::text <> ALL (string_to_array(integrations, ','))
        """)

    /// Messages after and up to, made from and before (ms), integration, limit, what the body of a relay message about
    /// the integration contains.
    typealias Wanted = (Int64, Int64, Int64, Int64, Int32, Int32, [UInt8])

    /// One row of `page`.
    struct Candidate {
        let message: Int64
        let type: String
        let source: String
        let environment: String
        let purchase: Identifier?
        /// It was for the integration when it was recorded, or by an earlier backfill (`MessageReceivers`).
        let isNoted: Bool
        /// It was sent to the integration and ended there, or waits there; of one that is not noted: it was tried.
        let isKnown: Bool
    }

    /// Messages in order, each with whether it ended at the integration ($5) or waits there. One snapshot covers all
    /// of that: what was settled has left the queue and is in the history. One that is noted, was tried, and neither
    /// ended nor waits, was lost (`Audit`). Of one that is not noted nobody knows whether it was given up by hand: any
    /// attempt leaves it out.
    static let page = Statement<Wanted, Candidate>(
        "backfill_page",
        """
        WITH chosen AS MATERIALIZED (
            SELECT m.id, m.type, e.source, e.environment, coalesce(t.purchase, e.purchase) AS purchase,
                   coalesce($5::text = ANY (string_to_array(m.integrations, ',')), false) AS is_noted
            FROM messages m \(RowByID.event("m.event", as: "e")) LEFT JOIN transfers t ON t.id = m.transfer
            WHERE m.id > $1 AND m.id <= $2 AND extract(epoch FROM m.created_at) * 1000 >= $3
              AND extract(epoch FROM m.created_at) * 1000 < $4
              -- Transfers that an import revealed are announced to nobody but whom it was asked for.
              AND (e.name <> 'posthouse.import'
                   OR coalesce($5::text = ANY (string_to_array(m.integrations, ',')), false))
              -- No integration receives relay messages about itself. The body of no other message is read here.
              AND CASE WHEN e.source <> 'posthouse' OR m.type NOT LIKE 'posthouse.integration.%'
                            OR $5::text = ANY (string_to_array(m.integrations, ','))
                       THEN true ELSE position($7 IN e.body) = 0 END
            ORDER BY m.id LIMIT $6)
        SELECT m.id, m.type, m.source, m.environment, m.purchase, m.is_noted,
               EXISTS (SELECT FROM attempts a WHERE a.message = m.id AND a.integration = $5
                           AND (NOT m.is_noted OR a.outcome IN ('accepted', 'dead')))
                   OR EXISTS (SELECT FROM dead_letters l WHERE l.message = m.id AND l.integration = $5)
                   OR EXISTS (SELECT FROM discards x WHERE x.message = m.id AND x.integration = $5)
                   OR CASE WHEN m.purchase IS NULL
                           THEN m.id IN (SELECT d.message FROM deliveries d
                                         WHERE d.purchase IS NULL AND d.integration = $5)
                           ELSE EXISTS (SELECT FROM deliveries d
                                        WHERE d.purchase = m.purchase AND d.integration = $5 AND d.message = m.id) END
        FROM chosen m ORDER BY m.id
        """, row: Candidate.init)

    /// Envelopes without what `where` cannot name, which may be long: up to `decoded`, or else to `original`, with
    /// which an envelope ends. In a text quotes are escaped, so the first `,"decoded":` is the key.
    static let envelopes = Statement<([Int64], Int64, Int64), (Int64, [UInt8])>(
        "backfill_envelopes",
        """
        SELECT id, substring(envelope FROM 1 FOR coalesce(
            nullif(position(convert_to(',"decoded":', 'UTF8') IN envelope), 0) - 1,
            greatest(octet_length(envelope) - octet_length(',"original":'), 0)))
        FROM messages WHERE \(IDsInPeriods.condition("id"))
        """)
}
