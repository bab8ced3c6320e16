import JSONText
package import Postgres
package import Vocabulary

/// An integration that asks for lapses.
struct LapseReceiver: Sendable {
    let route: RoutedIntegration
    /// When it was first seen.
    let createdAt: Timestamp
}

/// Decides to whom the lapse of a purchase's access is announced. Pure.
enum Lapse {
    /// - Parameters:
    ///   - access: of those who have the purchase.
    ///   - announced: the end whose lapse was announced last; nil: none was.
    /// - Returns: those that have known the relay since before access lapsed; empty: nothing is to be announced.
    static func receivers(
        of access: TimedAccess, announced: Timestamp?, scope: Scope, at now: Timestamp,
        among lapseReceivers: [LapseReceiver]
    ) -> [RoutedIntegration] {
        guard let lapsesAt = access.lapsesAt, lapsesAt <= now, access.until != announced else { return [] }
        return lapseReceivers.filter {
            $0.createdAt < lapsesAt
                && $0.route.integration.selects(
                    type: Lapses.type, source: scope.source, environment: scope.environment)
        }.map(\.route)
    }
}

/// Announces that access has lapsed: that the end of a purchase and the leeway of its source have passed, and no
/// webhook has said what became of it. Each purchase and end is announced once, to the integrations that name the type.
///
/// Nothing stored changes by a lapse, except that its end is noted in the purchase's row, under its lock, in the
/// transaction that writes the message: so of several daemons one announces it, and a webhook that is recorded
/// at the same time either prevents it or comes after it. If the lapse proves wrong, the renewal is sent as always.
package struct Lapses: Sendable {
    package static let type = "posthouse.access.lapsed"
    /// Ends of one transaction.
    static let stepMax: Int32 = 200

    let pool: Pool
    let routes: Routes
    let leeways: Leeways

    package init(pool: Pool, routes: Replaceable<RouteTable>, leeways: Leeways) {
        self.pool = pool
        self.routes = routes
        self.leeways = leeways
    }

    /// Announces all that are due.
    /// - Returns: how many purchases.
    @discardableResult
    package func announce() async throws -> Int {
        let lapseReceivers = try await lapseReceivers()
        if lapseReceivers.isEmpty { return 0 }
        var count = 0
        var last = PurchaseEnds.Row(until: .min, purchase: Identifier(high: 0, low: 0))
        while true {
            let from = last
            let step = try await pool.retriedTransaction { session throws(DatabaseError) in
                try announce(after: from, to: lapseReceivers, on: session)
            }
            count += step.announced
            guard let next = step.last else { return count }
            last = next
        }
    }

    /// The integrations that ask for lapses of some source and environment. One that was first seen under a clock more
    /// than a day ahead counts as seen now: it would get no lapse until it is that time.
    private func lapseReceivers() async throws -> [LapseReceiver] {
        let wanted = routes.current.all.filter { $0.integration.names(type: Self.type) }
        if wanted.isEmpty { return [] }
        let rows = wanted.map(\.row)
        let created = try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(LapseStatements.correct, ())
            return Dictionary(firstOf: try session.run(LapseStatements.created, rows))
        }
        return wanted.compactMap { route in
            created[route.row].map { LapseReceiver(route: route, createdAt: $0) }
        }
    }

    /// - Returns: the last end that was looked at; nil: there are no more.
    private func announce(
        after place: PurchaseEnds.Row, to lapseReceivers: [LapseReceiver], on session: borrowing Session
    ) throws(DatabaseError) -> (announced: Int, last: PurchaseEnds.Row?) {
        guard let now = try session.run(PruneStatements.now, ()).first else { return (0, nil) }
        let due = try session.run(EndStatements.due, (place.until, place.purchase, now, Self.stepMax))
        let last = due.count == Int(Self.stepMax) ? due.last : nil
        let candidates = try lapses(of: due, to: lapseReceivers, on: session)
        if candidates.isEmpty { return (0, last) }
        try Requeue.lock(on: session)
        // An erasure of a source's holders takes its lock alone.
        try session.lockShared(sources: candidates.map(\.row.source))
        _ = try session.execute(RequeueStatements.lockPurchases, Set(candidates.map(\.row.id)).sorted())
        // Read again under the locks: what was recorded meanwhile counts.
        let ends = candidates.map { PurchaseEnds.Row(until: $0.row.until, purchase: $0.row.id) }
        let lapses = try lapses(of: ends, to: lapseReceivers, on: session)
        try write(lapses, on: session)
        return (lapses.count, last)
    }

    private struct Due {
        let row: LapseStatements.Row
        let access: TimedAccess
        let receivers: [RoutedIntegration]

        var isIncludingAccess: Bool { receivers.contains { $0.integration.include.contains(.access) } }
    }

    private func lapses(
        of ends: [PurchaseEnds.Row], to lapseReceivers: [LapseReceiver], on session: borrowing Session
    ) throws(DatabaseError) -> [Due] {
        if ends.isEmpty { return [] }
        let wanted = (ends.map(\.until), ends.map(\.purchase), Int32(Limits.accessHoldersMax))
        let rows = try session.run(LapseStatements.current, wanted)
        return rows.compactMap { row in
            let until = Timestamp(milliseconds: row.until)
            let access = TimedAccess(isGranted: true, until: until, store: row.store, leeway: leeways[row.source])
            let receivers = Lapse.receivers(
                of: access, announced: row.announced, scope: row.scope, at: row.now, among: lapseReceivers)
            return receivers.isEmpty ? nil : Due(row: row, access: access, receivers: receivers)
        }
    }

    // MARK: Writing

    private func write(_ lapses: [Due], on session: borrowing Session) throws(DatabaseError) {
        if lapses.isEmpty { return }
        let written = lapses.map { LapseMessage($0.row, $0.access) }
        // A lapse that was announced before another end was stated, and then this one again.
        let kept = Set(try session.run(RecordStatements.messagesKept, written.map(\.messageKey)))
        let new = zip(lapses, written).filter { !kept.contains($1.messageKey) }
        let count = Int32(new.count)
        let events = try session.run(RecordStatements.eventIDs, count)
        guard let messages = try session.run(RecordStatements.rowIDs, (count, 0)).first?.messages,
            messages.count == new.count, events.count == new.count
        else { throw .protocolViolation(reason: "drawing row ids came to nothing") }
        let including = new.filter { $0.0.isIncludingAccess }.flatMap(\.1.accessSubjects)
        let access = try MessageAccess(of: including, leeways: leeways, on: session)
        let rows = zip(zip(events.map(\.row), messages), new)
        let eventRows = rows.map { ids, new in new.1.eventRow(ids.0) }
        let messageRows = rows.map { ids, new in
            new.1.messageRow(
                ids.1, of: ids.0, to: new.0.receivers.map(\.row),
                with: new.0.isIncludingAccess ? access.text(of: new.1.accessSubjects) : nil)
        }
        if !new.isEmpty {
            _ = try session.execute(RecordTables.events.insert, eventRows)
            _ = try session.execute(RecordTables.messages.insert, messageRows)
        }
        let requeued = rows.flatMap { ids, new in
            new.0.receivers.map { Requeued(message: ids.1, integration: $0.row, purchase: new.0.row.id) }
        }
        let ordered = Set(lapses.flatMap(\.receivers).filter { $0.integration.order == .purchase }.map(\.row))
        try Requeue(ordered: ordered).write(requeued, on: session)
        _ = try session.execute(LapseStatements.markAnnounced, (lapses.map(\.row.id), lapses.map(\.row.until)))
    }
}

/// The event and the message of one lapse, made of the purchase and its end alone.
struct LapseMessage {
    let eventID: String
    let eventKey: Identifier
    let messageKey: Identifier
    private let row: LapseStatements.Row
    private let access: TimedAccess
    /// When access lapsed.
    private let time: Timestamp

    init(_ row: LapseStatements.Row, _ access: TimedAccess) {
        eventID = "pst_" + KeyHash.lapse(purchase: row.hash, until: row.until).hex
        eventKey = KeyHash.eventHash(vendorEventID: eventID, in: row.scope)
        messageKey = KeyHash.message(passingOn: eventKey)
        self.row = row
        self.access = access
        time = access.lapsesAt ?? Timestamp(milliseconds: row.until)
    }

    func eventRow(_ id: Int64) -> RecordTables.EventRow {
        RecordTables.EventRow(
            id: id, key: eventKey, scope: row.scope, vendorEventID: eventID, name: Lapses.type, type: Lapses.type,
            holder: row.holder, occurredAt: time, purchase: row.id, storeTransactionID: row.transaction, body: body,
            // Its holder has the purchase.
            isStray: false, answer: nil)
    }

    /// The holder that it names, the user that this is known to be, and all others who have the purchase.
    var accessSubjects: [MessageAccess.Subject] {
        var holders = [Holder(column: row.holder)]
        let others = (row.resolvedUserID.map { [Holder.user($0)] } ?? []) + row.holders.map { Holder(column: $0) }
        for holder in others where !holders.contains(holder) { holders.append(holder) }
        return holders.prefix(Limits.accessHoldersMax).map {
            MessageAccess.Subject(source: row.source, environment: row.environment, holder: $0)
        }
    }

    func messageRow(
        _ id: Int64, of event: Int64, to receivers: [Int32], with access: [UInt8]?
    ) -> RecordTables.MessageRow {
        let statement = MessageEnvelope.Statement(
            type: Lapses.type, eventID: eventID, eventName: Lapses.type, holder: Holder(column: row.holder),
            resolvedUserID: row.resolvedUserID)
        let subject = MessageEnvelope.Subject(id: row.id, purchase: row.purchase, transaction: row.storeTransaction)
        return RecordTables.MessageRow(
            id: id, key: messageKey, event: event, type: Lapses.type, transfer: nil,
            envelope: MessageEnvelope.write(statement, of: subject, in: row.scope, at: time), derivedBody: nil,
            integrations: MessageReceivers.text(receivers), access: access)
    }

    /// Names nobody: an erasure finds the holder in the event's row and in the envelope.
    private var body: [UInt8] {
        JSONWriter.object { json in
            json.member("event_name", Lapses.type)
            json.member("event_id", eventID)
            json.member("purchase", row.key)
            json.member("until", Timestamp(milliseconds: row.until).iso8601)
            json.member("leeway_ms", access.leeway.milliseconds)
        }
    }
}

enum LapseStatements {
    struct Row: Sendable {
        let until: Int64
        let id: Identifier
        let hash: Identifier
        let source: String
        let app: String
        let environment: String
        let store: String
        let key: String
        let kind: String
        let product: String?
        let plan: String?
        let subscriptionID: String?
        let announced: Timestamp?
        let transaction: String?
        let originalTransaction: String?
        let purchasedAt: Timestamp?
        let offerType: String?
        let status: String?
        /// A storage key; of several holders a user.
        let holder: String
        let resolvedUserID: String?
        /// Storage keys of all who have it, up to `Limits.accessHoldersMax`.
        let holders: [String]
        let now: Timestamp

        var scope: Scope { Scope(source: source, app: app, environment: environment) }
        var purchase: Purchase {
            Purchase(
                key: key, kind: Purchase.Kind(rawValue: kind) ?? .subscription, store: store, product: product,
                plan: plan, subscriptionID: subscriptionID)
        }
        var storeTransaction: Transaction? {
            transaction.map {
                Transaction(
                    storeTransactionID: $0, storeOriginalTransactionID: originalTransaction, purchasedAt: purchasedAt,
                    effectiveNextRenewalAt: Timestamp(milliseconds: until), offerType: offerType, status: status)
            }
        }
    }

    /// By a clock that is not known to be behind.
    static let correct = Statement<(), ()>(
        "lapse_correct",
        """
        UPDATE integrations SET created_at = now()
        WHERE created_at > now() + interval '1 day' AND NOT \(PruneStatements.clockIsBehind)
        """)
    static let created = Statement<[Int32], (Int32, Timestamp)>(
        "lapse_created",
        """
        SELECT id, (extract(epoch FROM greatest(created_at, 'epoch')) * 1000)::bigint
        FROM integrations WHERE id = ANY ($1)
        """)

    /// Those of the ends that are the current ones of purchases that somebody has, and were not announced last.
    static let current = Statement<([Int64], [Identifier], Int32), Row>(
        "lapse_current",
        """
        SELECT e.until_ms, p.id, coalesce(p.hash, p.id), p.source, p.app, p.environment, p.store, p.key, p.kind,
               p.product, p.plan, p.subscription_id, p.lapsed_ms, t.store_transaction_id,
               t.store_original_transaction_id, t.purchased_at_ms, t.offer_type, t.status, h.holder,
               (SELECT l.user_id FROM holder_links l
                WHERE h.holder LIKE 'anon:%' AND l.anonymous_user_id = substr(h.holder, 6) AND l.source = p.source
                  AND l.app = p.app AND l.environment = p.environment
                  AND (l.until_ms IS NULL OR l.until_ms > \(AccessEnd.now)) LIMIT 1),
               ARRAY (SELECT n.holder FROM entitlements n
                      WHERE n.purchase = e.purchase AND \(PurchaseEnds.isOfSomebody)
                      ORDER BY n.holder DESC LIMIT $3),
               \(AccessEnd.now)
        FROM unnest($1, $2) AS e (until_ms, purchase)
        CROSS JOIN LATERAL (SELECT * FROM purchases WHERE id = e.purchase LIMIT 1) AS p
        CROSS JOIN LATERAL (SELECT n.holder FROM entitlements n
                            WHERE n.purchase = e.purchase AND \(PurchaseEnds.isOfSomebody)
                            ORDER BY n.holder DESC LIMIT 1) AS h
        \(AccessEnd.newestTransaction(of: "e.purchase"))
        WHERE t.effective_next_renewal_at_ms = e.until_ms AND p.lapsed_ms IS DISTINCT FROM e.until_ms
        ORDER BY e.until_ms, e.purchase
        """, row: Row.init)

    static let markAnnounced = Statement<([Identifier], [Int64]), ()>(
        "lapse_note",
        """
        UPDATE purchases p SET lapsed_ms = w.until_ms FROM unnest($1, $2) AS w (id, until_ms) WHERE p.id = w.id
        """)
}
