import Postgres
import Vocabulary

/// A look at the whole queue for what a lost answer left, in steps: rows leased by this daemon that memory does not
/// hold, rows leased by an unregistered daemon, blocked rows with nothing before them, and those of integrations
/// without an order; and for what a change of the database's clock, or of an integration's order, left. A step takes
/// milliseconds, however much waits, unless somebody holds a lock.
package struct Sweep: Sendable {
    /// Blocks before this one have been looked at.
    fileprivate var block: Int64 = 0
    /// Rows that memory did not hold in this look, and in the one before. A row is given back only when it is found
    /// twice, so that one that is being dispatched just now is not.
    fileprivate(set) var found: Set<Int64> = []
    fileprivate var suspects: Set<Int64> = []
    /// The integrations with an order, each with the whole looks since it has one, up to `Limits.sweepOrderingLooks`.
    private var looks: [Int32: Int] = [:]
    /// Integrations whose earlier deliveries this look puts in order. After the start these are all ordered ones,
    /// because what order they had before is not known.
    fileprivate var ordering: [Int32] = []

    package init() {}

    /// Whether a look has begun and not come to its end.
    package var isMidway: Bool { block > 0 }

    /// - Parameter ordered: the integrations with an order now.
    fileprivate mutating func begin(ordered: [Int32]) {
        looks = Dictionary(firstOf: ordered.map { ($0, looks[$0, default: 0]) })
        ordering = ordered.filter { looks[$0, default: 0] < Limits.sweepOrderingLooks }
    }

    fileprivate mutating func beginAgain() {
        for integration in ordering { looks[integration, default: 0] += 1 }
        (block, suspects, found) = (0, found, [])
    }
}

extension Queue {
    /// Looks at the next rows. If it fails, the sweep stays where it is; one that could not reach the database is
    /// requested anew.
    /// - Returns: whether it has come to the end; the next call begins again.
    package func look(_ sweep: inout Sweep, blocks: Int64 = Limits.sweepStepBlocks) async throws -> Bool {
        guard let lease = registration.id else {
            sweep = Sweep()
            return true
        }
        let routes = routes.current
        if !sweep.isMidway { sweep.begin(ordered: routes.ordered) }
        let (from, suspects, ordering, orderless) = (sweep.block, sweep.suspects, sweep.ordering, routes.orderless)
        let (dueAheadMax, untriedAheadMax) = (
            Limits.dueAheadMax.wholeMilliseconds, Limits.untriedDueAheadMax.wholeMilliseconds
        )
        let step = try await reaching { session throws(DatabaseError) -> Step? in
            if try from >= session.run(QueueStatements.blocks, ()).first ?? 0 { return nil }
            let end = from + blocks
            let leased = try session.run(QueueStatements.leased, (from, end, lease))
            let unknown = Set(leased.filter { !dispatchBuffer.holds($0, under: lease) })
            let leaked = unknown.intersection(suspects)
            if !leaked.isEmpty { _ = try session.execute(QueueStatements.giveBackUnknown, (leaked.sorted(), lease)) }
            var reclaimed: [Int64: Int] = leaked.isEmpty ? [:] : [lease: leaked.count]
            for daemon in try session.run(QueueStatements.reclaim, (from, end)) { reclaimed[daemon, default: 0] += 1 }
            let early = try ordering.isEmpty ? [] : session.run(QueueStatements.block, (from, end, ordering))
            try Self.unblock(successorsOf: Set(early), on: session)
            let unblocked = try session.run(QueueStatements.unblock, (from, end, orderless.sorted()))
            let ahead = try session.run(QueueStatements.makeDue, (from, end, dueAheadMax, untriedAheadMax))
            return Step(
                end: end, unknown: unknown.subtracting(leaked), reclaimed: reclaimed,
                stuck: unblocked.count { !orderless.contains($0) }, ahead: ahead.count)
        }
        guard let step else {
            sweep.beginAgain()
            return true
        }
        sweep.block = step.end
        sweep.found.formUnion(step.unknown)
        for (daemon, count) in step.reclaimed.sorted(by: { $0.key < $1.key }) {
            observe(.leasesReclaimed(daemon: daemon, count: count))
        }
        if step.stuck > 0 {
            observe(.warning("\(step.stuck) deliveries waited for others that had left the queue; they are unblocked"))
        }
        if step.ahead > 0 {
            observe(
                .warning(
                    """
                    the next attempt of \(step.ahead) deliveries was further ahead than it can be, so the \
                    database's clock seems to have been set back; they are due now
                    """))
        }
        return false
    }

    private func reaching(
        _ body: @escaping @Sendable (borrowing Session) throws(DatabaseError) -> Step?
    ) async throws(DatabaseError) -> Step? {
        do throws(DatabaseError) {
            return try await pool.withSession(body)
        } catch {
            if error.isConnectionLevel { dispatchBuffer.requestSweeps() }
            throw error
        }
    }

    /// What one step found and mended.
    private struct Step: Sendable {
        let end: Int64
        let unknown: Set<Int64>
        /// How many, by the daemon that had leased them.
        let reclaimed: [Int64: Int]
        let stuck: Int
        /// Made due.
        let ahead: Int
    }
}
