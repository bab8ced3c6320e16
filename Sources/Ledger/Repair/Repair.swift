package import Postgres
package import Vocabulary

/// Checks the state of a purchase against the state that its stored webhooks give, and replaces it where that is
/// certain to be better (`RepairDecision`). It announces nothing and writes no message.
///
/// Runs in one transaction for each purchase, under the locks of recording in their order (`BatchRecording`): the
/// source, shared, then the purchase. So no webhook of the purchase is recorded meanwhile, and no statement about its
/// holders.
package struct Repair: Sendable {
    /// Reads a stored body by the current rules of its source; nil: it cannot be read.
    package typealias Reader = @Sendable (StoredWebhook) -> ReadWebhook?

    /// Purchases that one page looks at.
    static let pageRows: Int32 = 1_000
    /// Purchases that one name can stand for; more are not looked for.
    static let namedMax: Int32 = 100

    private let rules: [String: SourceRules]
    private let eventsKept: Duration
    private let read: Reader

    /// - Parameters:
    ///   - rules: by source.
    ///   - eventsKept: `[retention] events`.
    package init(rules: [String: SourceRules], eventsKept: Duration, read: @escaping Reader) {
        self.rules = rules
        self.eventsKept = eventsKept
        self.read = read
    }

    /// The purchases of a name: a purchase's key, one of its store transactions, or the relay's own id of it.
    /// - Parameter source: nil: of any source.
    package static func named(
        _ name: String, source: String?, in pool: Pool
    ) async throws(DatabaseError) -> [Identifier] {
        let wanted = (name, Identifier(hex: name), source, namedMax)
        return try await pool.withSession { session throws(DatabaseError) in
            try session.run(RepairStatements.named, wanted)
        }
    }

    /// The next purchases by id; empty: there are no more.
    /// - Parameter source: nil: of any source.
    package static func page(
        after last: Identifier?, source: String?, in pool: Pool
    ) async throws(DatabaseError) -> [Identifier] {
        var last = last ?? Identifier(high: 0, low: 0)
        while true {
            let wanted = (last, pageRows)
            let seen = try await pool.withSession { session throws(DatabaseError) in
                try session.run(RepairStatements.page, wanted)
            }
            let page = seen.filter { source?.utf8.elementsEqual($0.1.utf8) ?? true }.map { $0.0 }
            guard page.isEmpty, seen.count == Int(pageRows), let next = seen.last?.0 else { return page }
            last = next
        }
    }

    /// What the check of one purchase among many came to.
    package enum Outcome: Sendable {
        case checked(RepairReport)
        /// There is no such purchase (any more).
        case unknown
        /// The database refused it, or what is stored of it cannot be read; or it was repaired, and what waits for it
        /// could not be looked up.
        case failed(reason: String)
    }

    /// Checks one purchase among many: what fails because of this purchase does not concern the others. What waits for
    /// it in quarantine is looked up only where it is worth listing.
    /// - Throws: only where there is no connection any more, or it is not known whether the repair was committed.
    package func check(_ purchase: Identifier, isDry: Bool, in pool: Pool) async throws(DatabaseError) -> Outcome {
        do throws(DatabaseError) {
            guard let report = try await runAlone(purchase, isDry: isDry, in: pool) else { return .unknown }
            guard report.isWorthListing else { return .checked(report) }
            return .checked(try await Self.withWaiting(report, in: pool))
        } catch {
            if case .commitUnknown = error { throw error }
            if error.isConnectionLevel { throw error }
            return .failed(reason: "\(error)")
        }
    }

    /// Checks one purchase, and repairs it unless `isDry`.
    /// - Returns: nil if there is no such purchase (any more).
    package func run(_ purchase: Identifier, isDry: Bool, in pool: Pool) async throws(DatabaseError) -> RepairReport? {
        guard let report = try await runAlone(purchase, isDry: isDry, in: pool) else { return nil }
        return try await Self.withWaiting(report, in: pool)
    }

    private func runAlone(
        _ purchase: Identifier, isDry: Bool, in pool: Pool
    ) async throws(DatabaseError) -> RepairReport? {
        try await pool.retriedTransaction { session throws(DatabaseError) in
            try run(purchase, isDry: isDry, on: session)
        }
    }

    /// Adds what waits in quarantine. It reads all that waits of the source, so not while webhooks of the purchase wait
    /// for the repair's locks.
    private static func withWaiting(
        _ report: RepairReport, in pool: Pool
    ) async throws(DatabaseError) -> RepairReport {
        if case .impossible = report.verdict { return report }
        let wanted = (report.source, LoadedPurchases.unreadablePrefix(key: report.key))
        var found = report
        found.waiting = try await pool.withSession { session throws(DatabaseError) in
            try session.run(RepairStatements.waiting, wanted)
        }
        return found
    }

    func run(
        _ purchase: Identifier, isDry: Bool, on session: borrowing Session
    ) throws(DatabaseError) -> RepairReport? {
        guard let source = try session.run(RepairStatements.source, purchase).first else { return nil }
        let rules = rules[source]
        try session.lockShared(sources: [source])
        guard let row = try session.run(RecordStatements.lockPurchases, [purchase]).first else { return nil }
        let stored = try? PurchaseState(bytes: row.state)
        var report = RepairReport(
            purchase: purchase, source: source, app: row.app, environment: row.environment, store: row.store,
            key: row.key, wasReadable: stored != nil)
        guard let rules else {
            report.verdict = .impossible(
                "the configuration has no source \(source); restore that name, then try again")
            return report
        }
        if let moving = try moving(row, stored, on: session) {
            report.verdict = .impossible(moving)
            return report
        }
        let history = try HistoryLoader(
            purchase, hash: row.hash ?? row.id, scope: row.scope, key: row.key, kind: row.purchaseKind,
            mayLackName: rules.mayLackName, ownership: rules.ownership, read: read
        ).run(eventsKept: eventsKept, on: session)
        let rebuilt = StateRebuilder(history: history, rules: self.rules).run()
        let decision = RepairDecision(history, stored: stored, rebuilt: rebuilt, rules: rules)
        if case .rebuilt = decision.verdict, !isDry { try write(decision, of: purchase, on: session) }
        report.fill(decision, history)
        return report
    }

    /// Says that a change of holders will reach the purchase and has not yet: applied here it would never be announced.
    private func moving(
        _ row: RecordTables.PurchaseRow, _ stored: PurchaseState?, on session: borrowing Session
    ) throws(DatabaseError) -> String? {
        let entitled = try session.run(RepairStatements.entitlements, row.id).map(\.holder)
        let holders = Set(entitled).union(stored?.holders.map(\.storageKey) ?? [])
        let unfinished = try session.run(HolderStatements.unfinishedAmong, (holders.sorted(), row.source))
        let isMoving = unfinished.contains { unfinished in
            guard unfinished.appliedThrough < row.id, case .success(let change) = unfinished.change,
                change.scope == row.scope, let from = change.from
            else { return false }
            return holders.contains(from.storageKey)
        }
        return isMoving
            ? "a webhook that moves the purchases of one of its holders has not reached it yet: try again later" : nil
    }

    private func write(
        _ decision: RepairDecision, of purchase: Identifier, on session: borrowing Session
    ) throws(DatabaseError) {
        let form = try LedgerForm.readByAll(on: session)
        _ = try session.execute(KnownAccessStatements.write, [purchase])
        _ = try session.execute(
            RepairStatements.write, (purchase, decision.state.bytes(form), decision.kind.rawValue))
        let rows = decision.entitlements
        guard !rows.isEmpty else { return }
        _ = try session.execute(
            RecordTables.entitlements.insert,
            rows.map {
                BatchPlan.EntitlementRow(
                    holder: $0.holder, purchase: purchase, access: $0.access, event: $0.event)
            })
        _ = try session.execute(PurchaseEnds.addStored, [purchase])
    }
}
