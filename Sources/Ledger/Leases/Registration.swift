package import Postgres
import Synchronization
package import Vocabulary

/// This daemon's lease: one row of `daemons`, renewed instead of one lease for each delivery.
///
/// - A daemon that finds the row expired, by the database's time, deletes it, and a sweep reclaims the deliveries.
///   Whatever this daemon then tries to settle under the old id finds nothing (the fence). It registers again under a
///   new id.
/// - A daemon that was frozen does not notice it, so `mayStart` reads its own monotonic clock before each attempt.
/// - A database that was out of reach may have kept every daemon from renewing, and not all are back at once. So no
///   daemon ends another's lease before its own contact has been unbroken for a while: `mayExpireOthers`.
/// - The database's clock may be set forward. So no daemon ends a lease that it has seen renewed a moment ago:
///   `LeaseWatch`.
/// - `key` lets the next daemon on the same state directory recognise this one once it is dead, and reclaim its
///   deliveries without waiting for the lease to end.
package final class Registration: Sendable {
    private struct Lease {
        var id: Int64
        /// End on this machine's monotonic clock, counted from before the renewal was sent.
        var endsAt: ContinuousClock.Instant
        var contact: UnbrokenContact

        init(id: Int64, asked: ContinuousClock.Instant, duration: Duration) {
            self.id = id
            endsAt = asked + duration
            contact = UnbrokenContact(asked: asked)
        }

        mutating func renewed(asked: ContinuousClock.Instant, duration: Duration) {
            endsAt = asked + duration
            contact.renewed(asked: asked)
        }
    }

    private enum State {
        /// Not registered yet, or expired: nothing is leased until `register`.
        case unregistered
        /// One registration at a time: deliveries leased under an id that is then replaced could not be settled.
        case registering(Task<Lease, any Error>)
        case registered(Lease)
        case left
    }

    private let pool: Pool
    /// Distinguishes this daemon's row from another one of the same id: after a restore that this daemon was not
    /// stopped for, another daemon may have drawn the id.
    let key: Identifier?
    private let version: String
    private let clock: DatabaseClock
    private let leaseDuration: Duration
    private let state = Mutex(State.unregistered)
    private let readByAll = Mutex(LedgerForm.plain)
    private let watch = Mutex(LeaseWatch())

    /// - Parameter key: of this daemon alone; nil: none, so that its lease has to run out.
    package init(
        pool: Pool, key: Identifier?, version: String, clock: DatabaseClock,
        leaseDuration: Duration = Limits.leaseDuration
    ) {
        self.leaseDuration = leaseDuration
        self.pool = pool
        self.key = key
        self.version = version
        self.clock = clock
    }

    /// Whether the lease covers an attempt that starts now.
    package var mayStart: Bool {
        state.withLock { state in
            if case .registered(let lease) = state { lease.endsAt - Limits.leaseMargin > .now } else { false }
        }
    }

    /// Whether this daemon may end the leases of others: they have had time to reconnect after a database outage.
    package var mayExpireOthers: Bool {
        state.withLock { state in
            guard case .registered(let lease) = state else { return false }
            let now = ContinuousClock.Instant.now
            return lease.endsAt > now && lease.contact.isLongEnough(at: now)
        }
    }

    /// Takes the leases of others as the table has them now.
    /// - Returns: those that this daemon may end, and whether one that was there before is gone.
    func look(at leases: [OtherLease]) -> (expired: [OtherLease], hasLostOne: Bool) {
        let (unrenewed, hasLostOne) = watch.withLock { ($0.look(leases, at: .now), $0.hasLostOne) }
        return (mayExpireOthers ? unrenewed : [], hasLostOne)
    }

    /// The id that leases are written under. Does not register: a daemon whose lease has ended must first forget what
    /// it holds (`Queue.keepAlive`), or it would send it under the new lease.
    func current() throws(RegistrationLost) -> Int64 {
        guard let id else { throw RegistrationLost() }
        return id
    }

    /// The id that a delivery may be leased under as it is recorded; nil: it stays unleased in the table, because this
    /// lease is about to end or lost and no attempt could start here. The event is recorded all the same.
    func forRecording() throws(RegistrationLost) -> Int64? {
        if state.withLock({ if case .left = $0 { true } else { false } }) { throw RegistrationLost() }
        return mayStart ? id : nil
    }

    /// Whether deliveries leased under this id are still this daemon's.
    func isCurrent(_ lease: Int64) -> Bool { id == lease }

    /// The form in which the ledger is written, as of the last renewal.
    var ledgerForm: LedgerForm { readByAll.withLock { $0 } }

    /// The id that what was unblocked is leased under if this daemon may start it; nil: any daemon may claim it.
    var leaseForSuccessors: Int64? { mayStart ? id : nil }

    /// The id of this daemon's lease; nil: it has none at the moment.
    package var id: Int64? { state.withLock { if case .registered(let lease) = $0 { lease.id } else { nil } } }

    /// Returns the id of this daemon's registration; registers if there is none.
    /// - Parameter isStart: it has served nothing yet. A newer daemon may have migrated since this one looked at the
    ///   schema, and writes in a form that this one does not read as long as it sees nobody else: refused. One that is
    ///   cut off while others migrate goes on.
    @discardableResult
    package func register(isStart: Bool = false) async throws -> Int64 {
        let task: Task<Lease, any Error>? = state.withLock { state in
            switch state {
            case .registering(let task): return task
            case .registered(let lease): return Task { lease }
            case .left: return nil
            case .unregistered:
                let task = Task { try await insert(isStart: isStart) }
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

    private func insert(isStart: Bool) async throws -> Lease {
        let asked = ContinuousClock.Instant.now
        let registered = try await pool.withSession { [self] session throws(DatabaseError) in
            // After the wait for a connection.
            let began = ContinuousClock.now
            let registered = try session.transaction {
                session throws(DatabaseError) -> Result<(Int64, Timestamp)?, MigrationError> in
                guard try SharedLocks.mayRegister(on: session) else { return .success(nil) }
                if isStart, let newer = try Migrator.newerSchema(on: session) { return .failure(newer) }
                return .success(
                    try session.run(
                        QueueStatements.register,
                        (key, version, leaseDuration.wholeMilliseconds, LedgerForm.current.rawValue, session.lockSalt)
                    ).first)
            }
            if case .success((_, let time)?) = registered { clock.addReading(time, began: began) }
            try readForm(on: session)
            return registered
        }
        guard let (id, _) = try registered.get() else { throw SharedLocks.Mismatch() }
        return Lease(id: id, asked: asked, duration: leaseDuration)
    }

    /// Renews the lease. Returns false if the row is gone because another daemon has ended it.
    func renew() async throws -> Bool {
        guard let id else { return false }
        let asked = ContinuousClock.Instant.now
        let renewed = try await pool.withSession { [self] session throws(DatabaseError) in
            let began = ContinuousClock.now
            let renewed = try session.run(QueueStatements.renew, (id, leaseDuration.wholeMilliseconds, key))
            if let time = renewed.first { clock.addReading(time, began: began) }
            try readForm(on: session)
            return renewed
        }
        guard !renewed.isEmpty else {
            state.withLock { state in
                if case .registered(let lease) = state, lease.id == id { state = .unregistered }
            }
            return false
        }
        state.withLock { state in
            if case .registered(var lease) = state, lease.id == id {
                lease.renewed(asked: asked, duration: leaseDuration)
                state = .registered(lease)
            }
        }
        return true
    }

    /// Reads the form in which the ledger is written, between two renewals.
    func readForm() async throws -> LedgerForm {
        try await pool.withSession { [self] session throws(DatabaseError) in try readForm(on: session) }
    }

    @discardableResult
    private func readForm(on session: borrowing Session) throws(DatabaseError) -> LedgerForm {
        let form = try LedgerForm.readByAll(on: session)
        readByAll.withLock { $0 = form }
        return form
    }

    /// Ends leasing: no new leases from here on.
    func leave() { state.withLock { $0 = .left } }
}

/// Nothing can be leased: this daemon has left the queue, or its lease has ended and it is about to register anew.
package struct RegistrationLost: Error, CustomStringConvertible {
    package var description: String { "this daemon is not registered with the queue" }
}
