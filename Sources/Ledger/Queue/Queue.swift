package import Postgres
package import Vocabulary

/// The queue of deliveries.
///
/// The table is authoritative: it has a row for each delivery still to do, and the row leaves when the delivery is
/// settled. What is in memory (`DispatchBuffer`) is leased in the table to this daemon. Three things can go wrong:
/// - A daemon dies: its lease runs out, `expireLeases` of any other daemon ends it, and a `Sweep` gives its deliveries
///   back.
/// - A daemon is frozen past its lease: it is fenced (`Registration`) and starts again under a new id. What it settles
///   late, it settles under the lease of the attempt, and finds nothing.
/// - An answer of the database is lost, so that a row is leased here and memory does not hold it: `Sweep` finds such
///   rows, and gives back those that it finds twice in a row.
package struct Queue: Sendable {
    let pool: Pool
    let dispatchBuffer: DispatchBuffer
    let registration: Registration
    let routes: Routes
    let observe: Observer
    let lasting = LastingFailures()
    let inDoubt = SettlementsInDoubt()

    package init(
        pool: Pool, dispatchBuffer: DispatchBuffer, registration: Registration, routes: Routes,
        observe: @escaping Observer
    ) {
        self.pool = pool
        self.dispatchBuffer = dispatchBuffer
        self.registration = registration
        self.routes = routes
        self.observe = observe
    }

    /// Inserts the configured integrations into the database and routes new messages to them.
    package func route(_ integrations: [Integration]) async throws -> [RoutedIntegration] {
        let routed = try await insert(integrations)
        route(to: routed)
        return routed
    }

    /// Inserts the configured integrations into the database, all or none. They get nothing before `route(to:)`.
    package func insert(_ integrations: [Integration]) async throws -> [RoutedIntegration] {
        let rows = try await insert(names: integrations.map(\.name).sorted())
        let byName = Dictionary(firstOf: rows.map { row, name in (name, row) })
        return try integrations.map { integration in
            guard let row = byName[integration.name] else {
                throw DatabaseError.protocolViolation(
                    reason: "the integration \(integration.name) was inserted and is not there")
            }
            return RoutedIntegration(row: row, integration: integration)
        }
    }

    /// - Returns: the row of each name.
    private func insert(names: [String]) async throws(DatabaseError) -> [(Int32, String)] {
        do throws(DatabaseError) {
            return try await insertOnce(names)
        } catch  where error.isThereAlready {
            // A number: names may be there. The sequence is behind the table, as after a promotion that loses commits.
            // A try moves it on by one, too, where the role may not.
            await pool.catchUpSequences()
            return try await insertOnce(names)
        }
    }

    private func insertOnce(_ names: [String]) async throws(DatabaseError) -> [(Int32, String)] {
        try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                _ = try session.execute(QueueStatements.nameIntegrations, names)
                return try session.run(QueueStatements.integrations, names)
            }
        }
    }

    /// Puts back the rows of integrations that messages are routed to and that the database has lost. A promotion that
    /// lost commits may lose the row of one that a reload had just added, and deliveries and messages name it all the
    /// same, because there are no foreign keys.
    /// - Returns: names of those that cannot be put back, because another row has the number or the name: this daemon
    ///   must not go on under the number that it knows.
    package func keepIntegrations() async throws -> [String] {
        let routed = routes.current.all
        let names = Dictionary(firstOf: routed.map { ($0.row, $0.integration.name) })
        let wanted = (routed.map(\.row), routed.map(\.integration.name))
        let (back, lost) = try await pool.withSession { session throws(DatabaseError) -> ([Int32], [Int32]) in
            // In one order, so that no two daemons wait for each other.
            let gone = try session.run(QueueStatements.goneIntegrations, wanted).sorted()
            if gone.isEmpty { return ([], []) }
            let back = try session.run(QueueStatements.putBackIntegrations, (gone, gone.compactMap { names[$0] }))
            // Another daemon may have been first.
            return (back, try session.run(QueueStatements.goneIntegrations, wanted))
        }
        if !back.isEmpty {
            let list = back.compactMap { names[$0] }.sorted().joined(separator: ", ")
            observe(
                .warning(
                    """
                    the database had lost the rows of integrations, as by a promotion that loses commits; they are put \
                    back under their numbers: \(list)
                    """))
        }
        return lost.compactMap { names[$0] }.sorted()
    }

    /// Routes new messages to these from now on. What is blocked of those that gave up their order is unblocked by the
    /// sweep, which this requests. It also puts in order what waits of those that became ordered.
    package func route(to routed: [RoutedIntegration]) {
        let table = RouteTable(routed)
        let former = routes.current.orderless
        let hasNewOrder = !table.orderless.isSubset(of: former) || !former.isDisjoint(with: table.ordered)
        routes.replace(table)
        if hasNewOrder { dispatchBuffer.requestSweeps() }
    }

    /// The integrations that are paused, with the reason.
    package func pauses() async throws -> [Int32: String] {
        let rows = try await pool.withSession { session throws(DatabaseError) in
            try session.run(QueueStatements.pauses, ())
        }
        return Dictionary(firstOf: rows.map { row, reason in (row, reason ?? "") })
    }

    /// Gives back deliveries that were leased and not tried. If the database does not answer, the sweep gives them
    /// back, because they are no longer held.
    package func giveBack(_ deliveries: [Delivery]) async throws {
        guard !deliveries.isEmpty else { return }
        defer { dispatchBuffer.drop(deliveries) }
        try await pool.withSession { session throws(DatabaseError) in
            for (lease, leased) in Dictionary(grouping: deliveries, by: \.lease) {
                let leased = leased.sorted { $0.id < $1.id }
                let created = leased.map(\.createdAt.milliseconds)
                _ = try session.execute(QueueStatements.giveBack, (leased.map(\.id), lease, created))
            }
        }
    }

    /// Logs a failure that nobody waits for. The pool logs once that the database is out of reach; the loss of the
    /// lease is logged when it is noticed. What may pass by itself (a time-out, a collision, a lack of memory or locks)
    /// is logged once, when it has lasted.
    /// - Parameter logsTimeouts: whether a statement's time-out is logged each time.
    package func report(
        _ error: any Error, doing what: String, logsTimeouts: Bool = false, at time: ContinuousClock.Instant = .now
    ) {
        if error is RegistrationLost { return }
        if let error = error as? DatabaseError {
            if error.isConnectionLevel { return }
            if error.isRetryable, !logsTimeouts || !error.isStatementTimeout {
                let grace = Limits.failureGrace
                guard lasting.failed(what, grace: grace, at: time) else { return }
                return observe(.warning("\(what) has not succeeded for \(grace) and is tried again: \(error)"))
            }
        }
        observe(.warning("\(what) failed and will be tried again: \(error)"))
    }

    /// Logs the end of a failure that was logged because it lasted.
    /// - Parameter what: as for `report`.
    package func succeeded(_ what: String) {
        if lasting.succeeded(what) { observe(.warning("\(what) succeeds again")) }
    }

    /// Gives every lease back and removes the registration. Nothing may be leased after it.
    package func leave() async throws {
        guard let lease = registration.id else { return }
        let key = registration.key
        registration.leave()
        try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                _ = try session.execute(QueueStatements.giveBackAll, (lease, key))
                _ = try session.execute(QueueStatements.leave, (lease, key))
            }
        }
        dispatchBuffer.dropAll()
    }
}

/// The integrations that new messages go to: read by every batch, replaced as a whole.
package typealias Routes = Replaceable<RouteTable>
