import Postgres
import Synchronization
package import Vocabulary

/// Position of a lane's walk along its due index. Retried, reclaimed and unblocked rows get a later due time, so a walk
/// that continues from here misses only rows that were due long before and committed late. A walk that finds fewer rows
/// than it asked for starts again from the beginning.
package struct ClaimCursor: Sendable {
    /// Nothing is due before 1970.
    var dueMicroseconds: Int64 = 0
    var id: Int64 = 0

    package init() {}
}

extension Queue {
    /// Claims up to `limit` due deliveries of one lane for this daemon, as far as the lane has room.
    ///
    /// - Parameter opening: of the lane that claims. After a reload the lane may be opened anew while its claim waits;
    ///   slots of the new opening would never be released, so then nothing is claimed. nil: whichever there is.
    /// - Returns: the deliveries, not yet given to the lane, and whether the walk reached the end of what is due.
    package func claim(
        _ integration: Int32, in opening: DispatchBuffer.Opening? = nil, upTo limit: Int, cursor: inout ClaimCursor
    ) async throws -> (deliveries: [Delivery], isDrained: Bool) {
        guard let (slots, opening) = dispatchBuffer.reserveForClaim(integration, in: opening, upTo: limit) else {
            return ([], false)
        }
        let read = Mutex<[QueueStatements.Claimed]>([])
        do {
            let lease = try registration.current()
            let from = cursor
            let claimed = try await pool.withSession { session throws(DatabaseError) in
                let claimed = try commitClaim(integration, lease, from, slots: slots, on: session) { rows in
                    read.withLock { $0 = rows }
                }
                Failpoint.reach(.claimAfterCommit)
                unblockSuccessors(of: claimed.heads, on: session)
                return claimed
            }
            dispatchBuffer.release(integration, slots - claimed.deliveries.count, of: opening)
            dispatchBuffer.reserveBytes(of: claimed.deliveries, in: opening)
            cursor = claimed.next
            if claimed.orphans > 0 {
                observe(
                    .warning(
                        "\(claimed.orphans) deliveries were removed, because their messages are erased or pruned"
                    ))
            }
            return (claimed.deliveries, claimed.isDrained)
        } catch {
            dispatchBuffer.release(integration, slots, of: opening)
            dispatchBuffer.failed(error)
            guard let error = error as? DatabaseError, error.isUnreadableData else { throw error }
            // One damaged message must not hold up the others: fewer and fewer, until it is alone.
            let rows = read.withLock { $0 }
            if rows.count > 1 {
                return try await claim(integration, in: opening, upTo: rows.count / 2, cursor: &cursor)
            }
            guard let row = rows.first else { throw error }
            try await putOff(row, integration, because: error)
            return ([], false)
        }
    }

    /// Puts a delivery off whose message cannot be read: shortly at first, because the cause may pass. What waits for
    /// it in the order of its purchase waits on.
    private func putOff(
        _ row: QueueStatements.Claimed, _ integration: Int32, because error: DatabaseError
    ) async throws(DatabaseError) {
        let delay = dispatchBuffer.delayOfUnreadable(row.id)
        try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(QueueStatements.putOff, (row.id, delay.wholeMilliseconds))
        }
        let name = routes.current[integration]?.integration.name ?? "row \(integration)"
        observe(
            .warning(
                """
                message row \(row.message) cannot be read, so it is not delivered to \(name); it is tried again in \
                \(delay): \(error)
                """))
    }

    private struct Claimed: Sendable {
        var deliveries: [Delivery]
        /// Deliveries without a message.
        var orphans: Int
        /// What these may have blocked.
        var heads: Set<FanOut.OrderingKey>
        var isDrained: Bool
        var next: ClaimCursor
    }

    /// Claims in one transaction: a claim whose messages cannot be read claims nothing. What it leases is held before
    /// the commit, so that a sweep in between does not take it for leaked.
    private func commitClaim(
        _ integration: Int32, _ lease: Int64, _ from: ClaimCursor, slots: Int, on session: borrowing Session,
        reading: ([QueueStatements.Claimed]) -> Void
    ) throws(DatabaseError) -> Claimed {
        var held: [Delivery] = []
        do throws(DatabaseError) {
            return try session.transaction { session throws(DatabaseError) in
                let claimed = try claim(integration, lease, from, slots: slots, on: session, reading: reading)
                held = claimed.deliveries
                dispatchBuffer.hold(held)
                Failpoint.reach(.claimBeforeCommit)
                return claimed
            }
        } catch {
            // If the commit took effect after all, the sweep finds them leased and not held.
            dispatchBuffer.drop(held)
            throw error
        }
    }

    /// - Parameter reading: called with what is read then.
    private func claim(
        _ integration: Int32, _ lease: Int64, _ from: ClaimCursor, slots: Int, on session: borrowing Session,
        reading: ([QueueStatements.Claimed]) -> Void
    ) throws(DatabaseError) -> Claimed {
        let found = try session.run(
            QueueStatements.claim, (integration, lease, from.dueMicroseconds, from.id, Int32(slots)))
        let due = found.sorted { ($0.dueMicroseconds, $0.id) < ($1.dueMicroseconds, $1.id) }
        let free = try notHeld(due, lease, on: session)
        reading(free)
        let rows = try fitting(free, integration, lease, on: session)
        let messages = try MessageReading.messages(rows.map(\.message), on: session)
        let orphans = rows.filter { messages[$0.message] == nil }
        let heads = try orphans.isEmpty ? [] : remove(orphans, lease, on: session)
        let isDrained = found.count < slots && rows.count == found.count
        var next = ClaimCursor()
        if !isDrained, let last = rows.last { (next.dueMicroseconds, next.id) = (last.dueMicroseconds, last.id) }
        let deliveries = rows.compactMap { row in
            messages[row.message].map { message in
                Delivery(
                    id: row.id, lease: lease, integration: integration, message: message,
                    attemptsMade: Int(row.attempts), createdAt: row.createdAt)
            }
        }
        return Claimed(
            deliveries: deliveries, orphans: orphans.count, heads: heads, isDrained: isDrained, next: next)
    }

    /// Removes deliveries that have nothing to deliver.
    /// - Returns: what they may have blocked.
    private func remove(
        _ orphans: [QueueStatements.Claimed], _ lease: Int64, on session: borrowing Session
    ) throws(DatabaseError) -> Set<FanOut.OrderingKey> {
        let orphans = orphans.sorted { $0.id < $1.id }
        let created = orphans.map(\.createdAt.milliseconds)
        return Set(
            try session.run(QueueStatements.settled, (orphans.map(\.id), lease, created)).compactMap(\.orderingKey))
    }

    /// Unclaims what memory still holds: its settlement will be written again after a lost answer, and would end the
    /// new lease.
    private func notHeld(
        _ rows: [QueueStatements.Claimed], _ lease: Int64, on session: borrowing Session
    ) throws(DatabaseError) -> [QueueStatements.Claimed] {
        let held = rows.filter { dispatchBuffer.holds($0.id, under: lease) }.map(\.id)
        if held.isEmpty { return rows }
        try session.execute(QueueStatements.unclaim, (held.sorted(), lease))
        return rows.filter { !held.contains($0.id) }
    }

    /// Keeps as many of the claimed rows, from the first on, as the lane has room for in bytes, at least one. Gives the
    /// rest back before their bodies are read.
    private func fitting(
        _ rows: [QueueStatements.Claimed], _ integration: Int32, _ lease: Int64,
        on session: borrowing Session
    ) throws(DatabaseError) -> [QueueStatements.Claimed] {
        guard rows.count > 1 else { return rows }
        let sizes = try MessageReading.bytes(of: rows.map(\.message), on: session)
        var room = dispatchBuffer.roomForClaim(integration)
        var fitting = 0
        for row in rows {
            room -= sizes[row.message] ?? 0
            if fitting > 0, room < 0 { break }
            fitting += 1
        }
        let rest = rows[fitting...].map(\.id).sorted()
        if !rest.isEmpty { try session.execute(QueueStatements.unclaim, (rest, lease)) }
        return Array(rows[..<fitting])
    }

    /// The given lanes that have something due and unleased.
    package func lanesWithDue(_ integrations: [Int32]) async throws -> Set<Int32> {
        guard !integrations.isEmpty else { return [] }
        return Set(
            try await pool.withSession { session throws(DatabaseError) in
                try session.run(QueueStatements.due, integrations)
            })
    }
}
