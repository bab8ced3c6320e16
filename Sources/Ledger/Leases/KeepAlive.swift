import Postgres
package import Vocabulary

/// What the daemon does for the queue at intervals. The caller loops; nothing here sleeps.
extension Queue {
    /// What `keepAlive` does, for `report`.
    package static let renewing = "renewing the lease"

    /// Renews this daemon's lease, or registers anew if another daemon has ended it. Logs once when it fails for so
    /// long that nothing is delivered, and the end of that.
    ///
    /// - Parameter forget: called if the lease had ended, before it registers anew. Everything held in memory belongs
    ///   to other daemons by then and must not start under the new lease.
    /// - Returns: false if it had ended.
    @discardableResult
    package func keepAlive(forget: @Sendable () async -> Void = {}) async throws -> Bool {
        do {
            let wasOurs = try await renew(forget: forget)
            if lasting.succeeded(Self.renewing) { observe(.warning("the database commits again: deliveries go on")) }
            return wasOurs
        } catch {
            reportStandstill(error)
            throw error
        }
    }

    /// For a database that answers and commits nothing, as without its synchronous standby, or that is silent, as on a
    /// frozen host, and has not closed the connections yet. The pool logs that it is out of reach.
    private func reportStandstill(_ error: any Error) {
        guard error is DatabaseError, !Task.isCancelled, pool.isReachable, !registration.mayStart,
            lasting.failed(Self.renewing, grace: .zero, at: .now)
        else { return }
        observe(.warning("the database has not committed lately, so nothing is delivered until it does: \(error)"))
    }

    private func renew(forget: @Sendable () async -> Void) async throws -> Bool {
        let old = registration.id
        let isStillOurs = try await registration.renew()
        Failpoint.reach(.leaseRenewal)
        guard !isStillOurs else { return true }
        dispatchBuffer.dropAll()
        if let old { observe(.leaseLost(daemon: old)) }
        await forget()
        try await registration.register()
        // It may have leased something after another daemon ended its lease.
        dispatchBuffer.requestSweeps()
        return false
    }

    /// Ends the leases that have run out; a sweep reclaims their deliveries, here and wherever it is seen that a lease
    /// is gone. To be called every `Limits.pollInterval`: what it sees of leases that are renewed keeps them from being
    /// ended.
    package func expireLeases() async throws {
        let (expired, hasLostOne) = registration.look(at: try await otherLeases())
        if hasLostOne { dispatchBuffer.requestSweeps() }
        try await end(expired)
    }

    func otherLeases() async throws -> [OtherLease] {
        let own = registration.id
        return try await pool.withSession { session throws(DatabaseError) in
            try session.run(QueueStatements.otherLeases, own)
        }
    }

    func end(_ leases: [OtherLease]) async throws {
        if leases.isEmpty { return }
        ended(
            try await pool.withSession { session throws(DatabaseError) in
                try session.run(QueueStatements.expire, (leases.map(\.daemon), leases.map(\.end)))
            })
    }

    /// Ends the lease of the daemon that had this key; a sweep reclaims its deliveries. The caller has proof that it is
    /// dead; if it were alive, everything that it has under way would be delivered twice.
    package func takeOver(fromPredecessor key: Identifier) async throws {
        ended(
            try await pool.withSession { session throws(DatabaseError) in
                try session.run(QueueStatements.expirePredecessor, key)
            })
    }

    /// What the daemons had is left to a sweep, and takes as long as the queue is: whoever ends a lease has one of its
    /// own to renew.
    private func ended(_ daemons: [Int64]) {
        if daemons.isEmpty { return }
        dispatchBuffer.requestSweeps()
        for daemon in daemons { observe(.leasesReclaimed(daemon: daemon, count: 0)) }
    }
}
