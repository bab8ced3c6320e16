package import Postgres
package import Vocabulary

/// Webhooks that are authentic and could not be read or stored, kept byte for byte until a person decides.
package enum Quarantine {
    package struct Row: Sendable {
        package let id: Int64
        package let source: String
        package let reason: String
        package let receivedAt: Timestamp
        package let bytes: Int
    }

    /// One row with what is kept of its webhook.
    package struct QuarantinedWebhook: Sendable {
        package let row: Row
        package let body: [UInt8]
        /// What a vendor's API answered about it; nil: none was asked.
        package let answer: [UInt8]?
        /// `QuarantinedBody.eventID`.
        package let eventID: String?
    }

    /// The result of reading a body again.
    package enum Outcome: Sendable {
        /// - Parameter unmoved: keys of the purchases that a change of holders came too late to move.
        case recorded(EventTrail, unmoved: [String])
        /// The event was recorded before, from another webhook.
        case duplicate(EventTrail)
        /// The stored state of its purchase cannot be read: the body stays in quarantine (`Repair`).
        case stillQuarantined(reason: String)
        /// What is known of its token does not fit the event any more (`Event.tokens`): read the body anew. It stays.
        case outdated
        /// The body was recorded, discarded or erased since it was read: nothing is recorded of it now.
        case vanished
    }

    /// Lists the rows after id `after`, ascending, at most `limit`.
    package static func list(
        after: Int64 = 0, limit: Int32 = 1_000, in pool: Pool
    ) async throws(DatabaseError) -> [Row] {
        try await pool.withSession { session throws(DatabaseError) in
            try session.run(QuarantineStatements.list, (after, limit))
        }
    }

    /// One row with its webhook; nil: it is not there (any more).
    package static func body(_ id: Int64, in pool: Pool) async throws(DatabaseError) -> QuarantinedWebhook? {
        try await pool.withSession { session throws(DatabaseError) in
            try session.run(QuarantineStatements.body, id).first
        }
    }

    /// Quarantines bodies, all or none; one that is there already keeps its id.
    /// - Parameter isApart: bodies that failed together are tried one by one, each no longer than an event is then.
    /// - Returns: the id of each; nil: it was erased.
    package static func add(
        _ bodies: [QuarantinedBody], isApart: Bool = false, in pool: Pool
    ) async throws(DatabaseError) -> [Int64?] {
        let digests = bodies.map { KeyHash.body($0.body) }
        // In one order everywhere: two transactions with the same bodies must not wait for each other.
        let order = bodies.indices.sorted { (digests[$0], bodies[$0].source) < (digests[$1], bodies[$1].source) }
        return try await pool.withSession { session throws(DatabaseError) in
            // A webhook's writer waits for it: no longer for a lock than recording does.
            try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
                if isApart { try session.script(Recorder.apartTimeout) }
                var added: [(index: Int, row: PendingRows<Int64>)] = []
                for index in order {
                    let body = bodies[index]
                    let id = body.eventID.map { Array($0.utf8) }
                    let columns = (body.source, body.reason, digests[index], body.body, body.answer, id)
                    added.append((index, try session.enqueueQuery(RecordStatements.quarantine, columns)))
                }
                var rows = [Int64?](repeating: nil, count: bodies.count)
                for (index, row) in added { rows[index] = try session.answer(to: row).first }
                return rows
            }
        }
    }

    /// Records why it still cannot be read or stored.
    package static func setReason(_ reason: String, of id: Int64, in pool: Pool) async throws(DatabaseError) {
        try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(QuarantineStatements.setReason, (id, reason))
        }
    }

    /// Deletes these for good.
    /// - Returns: those that were there.
    package static func discard(_ ids: [Int64], in pool: Pool) async throws(DatabaseError) -> [Int64] {
        try await pool.withSession { session throws(DatabaseError) in
            try session.run(QuarantineStatements.discard, ids).sorted()
        }
    }

    /// Records an event as if it had just arrived, and removes the body from quarantine, in ONE transaction. Nothing is
    /// leased: the daemons find its deliveries in the queue.
    package static func record(
        _ id: Int64, as event: Event, routes: [RoutedIntegration], rules: [String: SourceRules], in pool: Pool
    ) async throws(DatabaseError) -> Outcome {
        do throws(DatabaseError) {
            return try await recordOnce(id, as: event, routes: routes, rules: rules, in: pool)
        } catch  where error.isSequenceBehind {
            await pool.catchUpSequences()
            return try await recordOnce(id, as: event, routes: routes, rules: rules, in: pool)
        }
    }

    private static func recordOnce(
        _ id: Int64, as event: Event, routes: [RoutedIntegration], rules: [String: SourceRules], in pool: Pool
    ) async throws(DatabaseError) -> Outcome {
        // The attempt that finds that the source has changes of holders is followed by one that looks them up.
        let changing = ChangingSources()
        let (outcome, blocked) = try await pool.retriedDecidedTransaction {
            session throws(DatabaseError) -> TransactionVerdict<(Outcome, [FanOut.OrderingKey])> in
            let recording = BatchRecording(
                routes: RouteTable(routes), rules: rules, changing: changing, dispatchBuffer: DispatchBuffer(),
                daemon: nil, ledgerForm: try LedgerForm.readByAll(on: session), mode: .insertIfAbsent)
            var reserved = Reservations()
            let committed = try recording.run([event], on: session, reserved: &reserved)
            let outcome = try Self.outcome(of: committed)
            let (isThere, blocked): (Bool, [FanOut.OrderingKey])
            switch outcome {
            case .recorded, .duplicate:
                isThere = try !session.run(QuarantineStatements.discard, [id]).isEmpty
                blocked = committed.blocked.map(\.key)
            case .stillQuarantined, .outdated, .vanished:
                (isThere, blocked) = (try !session.run(QuarantineStatements.lock, id).isEmpty, [])
            }
            return isThere ? .commit((outcome, blocked)) : .rollBack((.vanished, []))
        }
        // What blocks its deliveries may have been settled meanwhile (`Successors`).
        await Queue.unblock(successorsOf: Set(blocked), in: pool)
        return outcome
    }

    private static func outcome(of committed: BatchRecording.Committed) throws(DatabaseError) -> Outcome {
        switch committed.outcomes.first {
        case .recorded(let trail): return .recorded(trail, unmoved: committed.unmoved)
        case .duplicate(let trail, _): return .duplicate(trail)
        case .setAside(_, _, let reason), .unavailable(let reason): return .stillQuarantined(reason: reason)
        case .conditionFailed: return .outdated
        case nil: throw .protocolViolation(reason: "recording one event came to nothing")
        }
    }
}

enum QuarantineStatements {
    private static func row(
        id: Int64, source: String, reason: String, receivedAt: Timestamp, bytes: Int32
    ) -> Quarantine.Row {
        Quarantine.Row(id: id, source: source, reason: reason, receivedAt: receivedAt, bytes: Int(bytes))
    }

    static let list = Statement<(Int64, Int32), Quarantine.Row>(
        "quarantine_list",
        """
        SELECT id, source, reason, (extract(epoch FROM received_at) * 1000)::bigint, octet_length(body)
        FROM quarantine WHERE id > $1 ORDER BY id LIMIT $2
        """, row: row)

    private static func kept(
        id: Int64, source: String, reason: String, receivedAt: Timestamp, body: [UInt8], answer: [UInt8]?,
        eventID: [UInt8]?
    ) -> Quarantine.QuarantinedWebhook {
        let row = Quarantine.Row(id: id, source: source, reason: reason, receivedAt: receivedAt, bytes: body.count)
        return Quarantine.QuarantinedWebhook(
            row: row, body: body, answer: answer, eventID: eventID.map { String(decoding: $0, as: UTF8.self) })
    }

    static let body = Statement<Int64, Quarantine.QuarantinedWebhook>(
        "quarantine_body",
        """
        SELECT id, source, reason, (extract(epoch FROM received_at) * 1000)::bigint, body, answer, event_id
        FROM quarantine WHERE id = $1
        """, row: kept)

    static let setReason = Statement<(Int64, String), ()>(
        "quarantine_note", "UPDATE quarantine SET reason = $2 WHERE id = $1")

    static let discard = Statement<[Int64], Int64>(
        "quarantine_discard", "DELETE FROM quarantine WHERE id = ANY ($1) RETURNING id")

    static let lock = Statement<Int64, Int64>(
        "quarantine_lock", "SELECT id FROM quarantine WHERE id = $1 FOR KEY SHARE")
}
