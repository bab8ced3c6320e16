import Postgres
import Vocabulary

/// Unblocks deliveries that wait for another delivery of their purchase (`order = "purchase"`) once that one is
/// settled.
///
/// Two transactions can miss each other here: one settles the head while the other adds a successor, or gives up or
/// locks the next one. Therefore each checks after its own commit: whichever is second sees what the other did, and
/// neither waits for a lock. If a process dies between commit and check, the sweep, or the daemon that reclaims its
/// deliveries, finds the blocked row.
struct Successors {
    let dispatchBuffer: DispatchBuffer
    /// Bytes of messages, and again of their events, that one transaction reads. The sizes are not known before, and to
    /// ask for them would be two more statements for each batch that is settled. So each message has an equal share: of
    /// a full batch 32 KiB, several times an ordinary webhook. A larger one is left to a claim, which asks.
    var bytesMax = Int64(Limits.dispatchBufferBytesMax / 2)

    /// Unblocks the first delivery of each ordering key if it is blocked, and leases it if a slot is free. Runs in its
    /// own transaction, after the commit that made the check necessary; most often nothing is blocked, and the check is
    /// one query.
    /// - Parameter lease: nil: none of them is leased.
    /// - Returns: what was leased, counted in its lane and held; to be given to the lane.
    func unblock(
        _ keys: [FanOut.OrderingKey], leasedBy lease: Int64?, on session: borrowing Session
    ) throws(DatabaseError) -> [Delivery] {
        guard !keys.isEmpty else { return [] }
        let keys = try blocked(of: keys, on: session)
        guard !keys.isEmpty else { return [] }
        var slots: [Int32: Int] = [:]
        var leases: [Int64?] = []
        for key in keys {
            let isGranted = lease != nil && dispatchBuffer.reserve(key.integration, upTo: 1) == 1
            if isGranted { slots[key.integration, default: 0] += 1 }
            leases.append(isGranted ? lease : nil)
        }
        defer { for (integration, count) in slots { dispatchBuffer.release(integration, count) } }
        var held: [Delivery] = []
        do throws(DatabaseError) {
            let deliveries = try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
                let rows = try session.run(
                    QueueStatements.unblockNext, (keys.map(\.integration), keys.map(\.purchase), leases)
                ).filter { $0.lease != nil }
                let deliveries = try self.deliveries(rows, on: session)
                try leaveToClaim(rows, except: deliveries, on: session)
                // Before the commit, so that a sweep in between does not take them for leaked.
                held = deliveries
                dispatchBuffer.hold(held)
                return deliveries
            }
            for delivery in deliveries { slots[delivery.integration, default: 0] -= 1 }
            dispatchBuffer.reserveBytes(of: deliveries)
            return deliveries
        } catch {
            // If the commit took effect after all, the sweep finds them leased and not held; otherwise it finds them
            // blocked by nothing.
            dispatchBuffer.drop(held)
            dispatchBuffer.requestSweeps()
            throw error
        }
    }

    /// Those of the keys whose first delivery is blocked. If that cannot be asked, a sweep finds them.
    private func blocked(
        of keys: [FanOut.OrderingKey], on session: borrowing Session
    ) throws(DatabaseError) -> [FanOut.OrderingKey] {
        do throws(DatabaseError) {
            return try session.run(
                QueueStatements.blockedNext, (keys.map(\.integration), keys.map(\.purchase)), isPlannedAnyhow: true)
        } catch {
            dispatchBuffer.requestSweeps()
            throw error
        }
    }

    private func deliveries(
        _ rows: [QueueStatements.Unblocked], on session: borrowing Session
    ) throws(DatabaseError) -> [Delivery] {
        let wanted = Set(rows.map(\.message))
        let share = bytesMax / Int64(max(1, wanted.count))
        let messages = try MessageReading.messages(Array(wanted), bytesMax: share, on: session)
        return rows.compactMap { row in
            guard let message = messages[row.message], let lease = row.lease else { return nil }
            return Delivery(
                id: row.id, lease: lease, integration: row.integration, message: message,
                attemptsMade: Int(row.attempts), createdAt: row.createdAt)
        }
    }

    /// Gives back what was not read: it is larger than its share, or its message is gone and a claim removes it.
    private func leaveToClaim(
        _ rows: [QueueStatements.Unblocked], except read: [Delivery], on session: borrowing Session
    ) throws(DatabaseError) {
        guard read.count < rows.count, let lease = rows.first?.lease else { return }
        let left = Set(rows.map(\.id)).subtracting(read.map(\.id))
        try session.execute(QueueStatements.unclaim, (left.sorted(), lease))
        if dispatchBuffer.mayHint() { try session.execute(RecordStatements.notify, "") }
    }
}

/// Heads that left undelivered: nothing is leased.
extension Queue {
    /// Unblocks the next delivery of each ordering key whose head left undelivered; any daemon may claim it. Comes
    /// after the commit that removed the head (`Successors`).
    static func unblock(successorsOf heads: Set<FanOut.OrderingKey>, on session: borrowing Session)
        throws(DatabaseError)
    {
        guard !heads.isEmpty else { return }
        let heads = heads.sorted { ($0.purchase, $0.integration) < ($1.purchase, $1.integration) }
        _ = try session.run(
            QueueStatements.unblockNext,
            (heads.map(\.integration), heads.map(\.purchase), [Int64?](repeating: nil, count: heads.count)))
        _ = try session.execute(RecordStatements.notify, "")
    }

    /// The same for a command, whose work is committed: if this fails, a daemon's sweep does it.
    static func unblock(successorsOf heads: Set<FanOut.OrderingKey>, in pool: Pool) async {
        guard !heads.isEmpty else { return }
        try? await pool.withSession { session throws(DatabaseError) in
            try unblock(successorsOf: heads, on: session)
        }
    }

    /// Unblocks behind a claim that is committed: a failure here must not lose it.
    func unblockSuccessors(of heads: Set<FanOut.OrderingKey>, on session: borrowing Session) {
        let what = "unblocking the successors of deliveries without a message"
        do throws(DatabaseError) {
            try Self.unblock(successorsOf: heads, on: session)
            if !heads.isEmpty { succeeded(what) }
        } catch {
            dispatchBuffer.requestSweeps()
            report(error, doing: what)
        }
    }
}
