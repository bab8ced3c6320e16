package import Postgres
import Synchronization
package import Vocabulary

/// The queue of deliveries.
///
/// The table owns the truth: a row is to do, and leaves when it is settled. What lies in memory (HandOver) is leased in
/// the table to this daemon. Three things can go wrong, and each has its rule:
/// - a daemon dies: its lease runs out and `expireLeases` of any other gives its deliveries back;
/// - a daemon is frozen past its lease: it is fenced (Registration) and starts again under a new id; what it settles
///   late it settles under the lease that the attempt was made under, and finds nothing;
/// - an answer of the database is lost, so that a row is leased here and nobody knows: `sweep` finds what the table
///   calls ours and memory does not hold, twice in a row, and gives it back.
package struct Queue: Sendable {
    let pool: Pool
    let handOver: HandOver
    let registration: Registration
    let routes: Routes
    let observe: Observer

    package init(
        pool: Pool, handOver: HandOver, registration: Registration, routes: Routes, observe: @escaping Observer
    ) {
        self.pool = pool
        self.handOver = handOver
        self.registration = registration
        self.routes = routes
        self.observe = observe
    }

    /// Names the configured integrations in the database and routes new messages to them.
    package func route(_ integrations: [Integration]) async throws -> [RoutedIntegration] {
        let routed = try await name(integrations)
        route(to: routed)
        return routed
    }

    /// Names the configured integrations in the database, all or none; nothing is routed to them before `route(to:)`.
    package func name(_ integrations: [Integration]) async throws -> [RoutedIntegration] {
        let names = integrations.map(\.name).sorted()
        let orderless = integrations.filter { $0.order == .none }.map(\.name)
        let rows = try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                _ = try session.execute(QueueStatements.nameIntegrations, names)
                // Their order was given up by the configuration: nothing of theirs waits behind anything any more.
                if !orderless.isEmpty { _ = try session.execute(QueueStatements.unblockOrderless, orderless) }
                return try session.run(QueueStatements.integrations, names)
            }
        }
        let byName = Dictionary(rows.map { ($0.1, $0.0) }, uniquingKeysWith: { first, _ in first })
        return try integrations.map { integration in
            guard let row = byName[integration.name] else {
                throw DatabaseError.protocolViolation(
                    reason: "the integration \(integration.name) was named and is not there")
            }
            return RoutedIntegration(row: row, integration: integration)
        }
    }

    /// New messages go to these from now on.
    package func route(to routed: [RoutedIntegration]) { routes.replace(routed) }

    /// The integrations that are paused, with the reason.
    package func pauses() async throws -> [Int32: String] {
        let rows = try await pool.withSession { session throws(DatabaseError) in
            try session.run(QueueStatements.pauses, ())
        }
        return Dictionary(rows.map { ($0.0, $0.1 ?? "") }, uniquingKeysWith: { first, _ in first })
    }

    /// Gives deliveries back that were leased and not tried. If the database does not answer, the sweep does it: they
    /// are held no more.
    package func release(_ deliveries: [Delivery]) async throws {
        guard !deliveries.isEmpty else { return }
        defer { drop(deliveries.map { ($0.id, $0.lease) }) }
        try await pool.withSession { session throws(DatabaseError) in
            for (lease, leased) in Dictionary(grouping: deliveries, by: \.lease) {
                _ = try session.execute(QueueStatements.release, (leased.map(\.id).sorted(), lease))
            }
        }
    }

    /// Holds them no more. Those of a lease that is lost were forgotten with it, and may be held under the next.
    func drop(_ deliveries: [(id: Int64, lease: Int64)]) {
        let lease = registration.known
        handOver.drop(deliveries.filter { $0.lease == lease }.map(\.id))
    }

    /// Tells of a failure that nobody waits for. That the database is out of reach is told by the pool, once; that the
    /// lease is lost, when it is noticed.
    package func report(_ error: any Error, doing what: String) {
        if error is RegistrationLost { return }
        if let error = error as? DatabaseError, error.isConnectionLevel || error.isRetryable { return }
        observe(.warning("\(what) failed and will be tried again: \(error)"))
    }

    /// The last act: every lease is given back, the registration goes. Nothing may be leased after it.
    package func leave() async throws {
        guard let lease = registration.known else { return }
        registration.leave()
        try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                _ = try session.execute(QueueStatements.releaseAll, lease)
                _ = try session.execute(QueueStatements.leave, lease)
            }
        }
        handOver.dropAll()
    }
}

/// Where new messages go: read by every batch, replaced as a whole.
package final class Routes: Sendable {
    private let routed = Mutex<[RoutedIntegration]>([])

    package init() {}

    package var current: [RoutedIntegration] { routed.withLock { $0 } }

    func replace(_ new: [RoutedIntegration]) { routed.withLock { $0 = new } }
}
