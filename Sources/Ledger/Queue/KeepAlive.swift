import Postgres
import Vocabulary

/// What the daemon does for the queue at intervals. The caller loops; nothing here sleeps.
extension Queue {
    /// Whether a process of this machine still runs: (process id, start in ticks) → alive.
    package typealias IsAlive = @Sendable (Int32, Int64) -> Bool

    /// Renews this daemon's lease and buries the dead.
    ///
    /// - Parameter forget: called if this daemon itself had been buried, before it registers anew: everything that it
    ///   held in memory is somebody else's now, and nothing of it may start under the new lease.
    /// - Returns: false if it had been buried.
    @discardableResult
    package func keepAlive(
        place: String, forget: @Sendable () async -> Void = {}, isAlive: @escaping IsAlive
    ) async throws -> Bool {
        let old = registration.known
        let isStillOurs = try await registration.renew()
        #if DEBUG
            Failpoint.reach(.leaseRenewal)
        #endif
        if !isStillOurs {
            handOver.dropAll()
            if let old { observe(.leaseLost(daemon: old)) }
            await forget()
            try await registration.register()
        }
        try await bury(place: place, alsoRescue: isStillOurs ? nil : old, isAlive: isAlive)
        return isStillOurs
    }

    /// Ends expired leases and those of processes of this machine that are gone, and takes their deliveries over.
    ///
    /// - Parameter alsoRescue: a daemon that another one buried, and that may have leased something since.
    package func bury(place: String, alsoRescue lost: Int64? = nil, isAlive: @escaping IsAlive) async throws {
        let (buried, rescued) = try await pool.withSession { session throws(DatabaseError) in
            let neighbours = try session.run(QueueStatements.neighbours, place)
            let gone = neighbours.filter { !isAlive($0.1, $0.2) }.map(\.0)
            let buried = try session.run(QueueStatements.bury, gone)
            if buried.isEmpty, lost == nil { return (buried, 0) }
            let rescued = try session.run(QueueStatements.rescue, ()).count
            // One may have settled a head and died before it looked at what was behind.
            _ = try session.run(QueueStatements.unblock, ())
            return (buried, rescued)
        }
        if let first = buried.first ?? lost, !buried.isEmpty || rescued > 0 {
            observe(.leasesRescued(daemon: first, count: rescued))
        }
    }

    /// Mends what a lost answer left: rows leased by this daemon that memory does not know, rows leased by nobody
    /// alive, blocked rows with nothing before them.
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
            let orphans = try session.run(QueueStatements.rescue, ())
            let unblocked = try session.run(QueueStatements.unblock, ())
            return (unknown.subtracting(leaked), leaked.count + orphans.count, unblocked.count)
        }
        if found.1 > 0 { observe(.leasesRescued(daemon: lease, count: found.1)) }
        if found.2 > 0 { observe(.warning("\(found.2) deliveries were blocked by nothing and have been freed")) }
        return found.0
    }
}
