package import Postgres
import Synchronization
import Vocabulary

/// This daemon's lease: one row of `daemons`, renewed as a whole instead of each delivery's.
///
/// - Whoever finds the row expired deletes it and takes the deliveries over; everything this daemon then tries to
///   settle under the old id finds nothing (the fence). It registers again under a new id.
/// - A daemon that was frozen does not know it: `mayStart` looks at its own monotonic clock before each attempt.
/// - A process of the same boot and namespace that is gone is dead at once, without waiting for its lease to end.
package final class Registration: Sendable {
    private struct Lease {
        var id: Int64
        /// On this machine's monotonic clock, counted from before the renewal was sent.
        var endsAt: ContinuousClock.Instant
    }

    private enum State {
        /// Not yet, or taken for dead: nothing is leased until `register`.
        case unregistered
        /// One at a time: deliveries leased under an id that is then replaced could not be settled.
        case registering(Task<Lease, any Error>)
        case registered(Lease)
        case left
    }

    private let pool: Pool
    private let identity: ProcessIdentity
    private let version: String
    private let clock: DatabaseClock
    private let state = Mutex(State.unregistered)

    package init(pool: Pool, identity: ProcessIdentity, version: String, clock: DatabaseClock) {
        self.pool = pool
        self.identity = identity
        self.version = version
        self.clock = clock
    }

    /// Whether an attempt that starts now is covered by the lease.
    package var mayStart: Bool {
        state.withLock { state in
            if case .registered(let lease) = state { lease.endsAt - Limits.leaseMargin > .now } else { false }
        }
    }

    /// The id that leases are written under. Does not register: whoever was taken for dead has to forget first what
    /// it holds (`Queue.keepAlive`), or would send it as if it were still its own.
    func current() throws(RegistrationLost) -> Int64 {
        guard let id = known else { throw RegistrationLost() }
        return id
    }

    /// The id that a delivery may be leased under as it is recorded; nil: it is left in the table, for this lease is
    /// about to end or has been lost, and nobody could start it here. An event is recorded all the same.
    func forRecording() throws(RegistrationLost) -> Int64? {
        if state.withLock({ if case .left = $0 { true } else { false } }) { throw RegistrationLost() }
        return mayStart ? known : nil
    }

    var known: Int64? { state.withLock { if case .registered(let lease) = $0 { lease.id } else { nil } } }

    /// The id of this daemon's registration; makes it where there is none.
    @discardableResult
    package func register() async throws -> Int64 {
        let task: Task<Lease, any Error>? = state.withLock { state in
            switch state {
            case .registering(let task): return task
            case .registered(let lease): return Task { lease }
            case .left: return nil
            case .unregistered:
                let task = Task { try await insert() }
                state = .registering(task)
                return task
            }
        }
        guard let task else { throw RegistrationLost() }
        do {
            let lease = try await task.value
            state.withLock { state in
                if case .registering = state { state = .registered(lease) }
            }
            return lease.id
        } catch {
            state.withLock { state in
                if case .registering(let failed) = state, failed == task { state = .unregistered }
            }
            throw error
        }
    }

    private func insert() async throws -> Lease {
        let asked = ContinuousClock.Instant.now
        let row = (identity.place, identity.processID, identity.startedTicks, version, Self.leaseMilliseconds)
        let registered = try await pool.withSession { session throws(DatabaseError) in
            try session.run(QueueStatements.register, row)
        }
        guard let (id, time) = registered.first else { throw RegistrationLost() }
        clock.note(Timestamp(milliseconds: time))
        return Lease(id: id, endsAt: asked + Limits.leaseDuration)
    }

    /// Renews the lease. False: the row is gone, this daemon was taken for dead.
    func renew() async throws -> Bool {
        guard let id = known else { return false }
        let asked = ContinuousClock.Instant.now
        let renewed = try await pool.withSession { session throws(DatabaseError) in
            try session.run(QueueStatements.renew, (id, Self.leaseMilliseconds))
        }
        guard let time = renewed.first else {
            state.withLock { state in
                if case .registered(let lease) = state, lease.id == id { state = .unregistered }
            }
            return false
        }
        clock.note(Timestamp(milliseconds: time))
        state.withLock { state in
            if case .registered(let lease) = state, lease.id == id {
                state = .registered(Lease(id: id, endsAt: asked + Limits.leaseDuration))
            }
        }
        return true
    }

    /// No new leases from here on.
    func leave() { state.withLock { $0 = .left } }

    private static let leaseMilliseconds = Limits.leaseDuration.wholeMilliseconds
}

/// Nothing can be leased: this daemon has left the queue, or was taken for dead and is about to register anew.
package struct RegistrationLost: Error, CustomStringConvertible {
    package var description: String { "this daemon is not registered with the queue" }
}

/// Names a process so that another on the same machine can tell whether it still runs.
package struct ProcessIdentity: Sendable {
    /// Boot id and process namespace: where `processID` means something.
    package let place: String
    package let processID: Int32
    /// Field 22 of /proc/PID/stat (proc(5)): a process id alone is used again.
    package let startedTicks: Int64

    package init(place: String, processID: Int32, startedTicks: Int64) {
        self.place = place
        self.processID = processID
        self.startedTicks = startedTicks
    }
}
