import Postgres
package import Vocabulary

/// Where a lane's walk along its due index stands. Retried, rescued and released rows are given a later due time, so a
/// walk that goes on from here misses nothing but what was due long before and committed late: a walk that finds less
/// than it asked for starts again from the beginning.
package struct ClaimCursor: Sendable {
    /// Nothing is due before 1970.
    var dueMicroseconds: Int64 = 0
    var id: Int64 = 0

    package init() {}
}

extension Queue {
    /// Takes up to `limit` due deliveries of one lane, leased to this daemon, as far as the lane has room.
    ///
    /// - Returns: the deliveries, handed to nobody yet, and whether the walk reached the end of what is due.
    package func claim(
        _ integration: Int32, upTo limit: Int, cursor: inout ClaimCursor
    ) async throws -> (deliveries: [Delivery], isDrained: Bool) {
        let slots = handOver.reserve(integration, upTo: limit)
        guard slots > 0 else { return ([], false) }
        do {
            let lease = try registration.current()
            let from = cursor
            let rows = try await pool.withSession { session throws(DatabaseError) in
                // One transaction: a claim whose messages cannot be read is none.
                let claimed = try session.transaction { session throws(DatabaseError) in
                    let found = try session.run(
                        QueueStatements.claim, (integration, lease, from.dueMicroseconds, from.id, Int32(slots)))
                    let rows = try fitting(
                        found.sorted { ($0.4, $0.0) < ($1.4, $1.0) }, integration, lease, on: session)
                    return try (rows, messages(rows.map(\.1), on: session), found.count)
                }
                handOver.hold(claimed.0.map(\.0))
                return claimed
            }
            handOver.free(integration, slots - rows.0.count)
            let isDrained = rows.2 < slots && rows.0.count == rows.2
            if !isDrained, let last = rows.0.last {
                cursor.dueMicroseconds = last.4
                cursor.id = last.0
            } else {
                cursor = ClaimCursor()
            }
            let deliveries = rows.0.compactMap { row in
                rows.1[row.1].map { message in
                    Delivery(
                        id: row.0, integration: integration, message: message, attemptsMade: Int(row.2),
                        createdAt: Timestamp(milliseconds: row.3))
                }
            }
            handOver.charge(deliveries)
            return (deliveries, isDrained)
        } catch {
            handOver.free(integration, slots)
            handOver.failed(error)
            throw error
        }
    }

    /// As many of the claimed rows, from the first on, as the lane has room for in bytes, at least one; the rest is
    /// given back before its bodies are read.
    private func fitting(
        _ rows: [(Int64, Int64, Int16, Int64, Int64)], _ integration: Int32, _ lease: Int64,
        on session: borrowing Session
    ) throws(DatabaseError) -> [(Int64, Int64, Int16, Int64, Int64)] {
        guard rows.count > 1 else { return rows }
        let sizes = Dictionary(
            try session.run(QueueStatements.messageBytes, Array(Set(rows.map(\.1)))).map { ($0.0, Int($0.1)) },
            uniquingKeysWith: { first, _ in first })
        var room = handOver.room(integration)
        var fitting = 0
        for row in rows {
            room -= sizes[row.1] ?? 0
            if fitting > 0, room < 0 { break }
            fitting += 1
        }
        let rest = rows[fitting...].map(\.0).sorted()
        if !rest.isEmpty { try session.execute(QueueStatements.unclaim, (rest, lease)) }
        return Array(rows[..<fitting])
    }

    /// The lanes, of those asked about, that have something due and unleased.
    package func lanesWithDue(_ integrations: [Int32]) async throws -> Set<Int32> {
        guard !integrations.isEmpty else { return [] }
        return Set(
            try await pool.withSession { session throws(DatabaseError) in
                try session.run(QueueStatements.due, integrations)
            })
    }

    /// Messages by their row, bodies included.
    func messages(_ rows: [Int64], on session: borrowing Session) throws(DatabaseError) -> [Int64: Message] {
        guard !rows.isEmpty else { return [:] }
        var found: [Int64: Message] = [:]
        for row in try session.run(QueueStatements.messages, Array(Set(rows))) {
            let isDerived = row.13 != nil
            found[row.0] = Message(
                row: row.0, id: row.1.messageID, event: row.2,
                eventID: isDerived ? row.1.eventID : row.5 ?? row.6.eventID, type: row.3, source: row.4,
                transaction: row.7, purchase: row.8, purchaseKey: row.9, transferID: row.10?.transferID,
                envelope: row.11, original: row.12, derivedBody: row.13)
        }
        return found
    }
}
