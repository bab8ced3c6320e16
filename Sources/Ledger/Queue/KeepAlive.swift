import Postgres
package import Vocabulary

/// What the daemon does for the queue at intervals. The caller loops; nothing here sleeps.
extension Queue {
    /// Renews this daemon's lease, or registers anew where another has ended it.
    ///
    /// - Parameter forget: called if the lease had ended, before it registers anew: everything that it held in memory
    /// is   somebody else's now, and nothing of it may start under the new lease.
    /// - Returns: false if it had ended.
    @discardableResult
    package func keepAlive(forget: @Sendable () async -> Void = {}) async throws -> Bool {
        let old = registration.known
        let isStillOurs = try await registration.renew()
        #if DEBUG
            Failpoint.reach(.leaseRenewal)
        #endif
        guard !isStillOurs else { return true }
        handOver.dropAll()
        if let old { observe(.leaseLost(daemon: old)) }
        await forget()
        try await registration.register()
        // It may have leased something since another ended its lease.
        try await reclaim(leasedBy: old)
        return false
    }

    /// Ends the leases that have run out, and takes their deliveries over.
    package func expireLeases() async throws {
        guard registration.mayExpireOthers else { return }
        try await endExpiredLeases()
    }

    /// The same, whenever this daemon itself has reached the database.
    func endExpiredLeases() async throws {
        let own = registration.known
        let expired = try await pool.withSession { session throws(DatabaseError) in
            try session.run(QueueStatements.expire, own)
        }
        if let first = expired.first { try await reclaim(leasedBy: first) }
    }

    /// Ends the lease of the daemon that had this key, and takes its deliveries over. The caller has proof that it is
    /// dead; a daemon that lives would have everything that it has under way delivered twice.
    package func takeOver(fromPredecessor key: Identifier) async throws {
        let expired = try await pool.withSession { session throws(DatabaseError) in
            try session.run(QueueStatements.expirePredecessor, key)
        }
        if let first = expired.first { try await reclaim(leasedBy: first) }
    }

    /// - Parameter daemon: named to the operator.
    private func reclaim(leasedBy daemon: Int64?) async throws {
        let reclaimed = try await pool.withSession { session throws(DatabaseError) in
            let reclaimed = try session.run(QueueStatements.reclaim, ()).count
            // One may have settled a head and died before it looked at what was behind.
            _ = try session.run(QueueStatements.unblock, ())
            return reclaimed
        }
        // What the dead daemon had sent the server may still be committed.
        handOver.wantSweeps()
        if let daemon { observe(.leasesRescued(daemon: daemon, count: reclaimed)) }
    }

    /// Mends what a lost answer left: rows leased by this daemon that memory does not know, rows leased by nobody
    /// registered, blocked rows with nothing before them.
    ///
    /// - Parameter suspects: what the sweep before found; a row is given back when it is found twice, so that one which
    ///   is just being handed over is not.
    /// - Returns: the suspects for the next sweep.
    package func sweep(suspects: Set<Int64>) async throws -> Set<Int64> {
        guard let lease = registration.known else { return [] }
        let found = try await pool.withSession { session throws(DatabaseError) in
            let leased = try session.run(QueueStatements.leased, lease)
            let unknown = Set(leased.filter { !handOver.holds($0) })
            let leaked = unknown.intersection(suspects)
            if !leaked.isEmpty { _ = try session.execute(QueueStatements.release, (leaked.sorted(), lease)) }
            let orphans = try session.run(QueueStatements.reclaim, ())
            let unblocked = try session.run(QueueStatements.unblock, ())
            return (unknown.subtracting(leaked), leaked.count + orphans.count, unblocked.count)
        }
        if found.1 > 0 { observe(.leasesRescued(daemon: lease, count: found.1)) }
        if found.2 > 0 { observe(.warning("\(found.2) deliveries were blocked by nothing and have been freed")) }
        return found.0
    }
}
