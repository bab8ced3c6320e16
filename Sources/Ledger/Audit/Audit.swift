package import Postgres
package import Vocabulary

// What is proved, and from what.
//
// `messages.integrations` says whom a message was for. Each of them must have an answer: an accepted attempt, a
// delivery that waits, a dead letter, or a row of `discards`. Every transaction that takes one answer away writes
// another, or deletes the message: settling, replay, backfill, discard, erasure, pruning. So in each snapshot every
// pair of a message and an integration has one. A message that somebody deletes with all that waits of it, or after it
// was delivered, leaves as little as an erased one: nothing is said of it.
//
// - Attempts are dropped by days. A message from before them may have had an answer that is gone: it is counted, and
//   nothing is said of it. When they begin is read after the attempts themselves, in a snapshot of its own: a day that
//   was dropped in between is then dropped for both.
// - The catalogue of tables is not read in the transaction's snapshot: a partition may be dropped under it. So what is
//   missed is looked for once more in a later snapshot, and only what is missed in both is found.

/// Looks over everything that is stored of messages, and lists what no command and no daemon leaves behind. It only
/// reads: in steps of one short transaction each, REPEATABLE READ and READ ONLY, which hold up nobody.
package struct Audit: Sendable {
    /// Messages, deliveries or dead letters of one step.
    static let stepMax: Int32 = 1_000
    /// The same where much waits that has no purchase: each step reads all of that, because it has no index by message.
    static let stepOfManyMax: Int32 = 50_000
    /// How much waits without a purchase then.
    static let manyMin = 10_000
    /// Pairs of a message and an integration of one step.
    static let pairsMax = 500_000
    /// Messages that one step counts without looking at them.
    static let countedMax: Int32 = 50_000
    /// Findings kept; more are counted only.
    package static let findingsMax = 1_000
    /// No lease lasts so long.
    static let leaseMax: Duration = .seconds(86_400)
    /// What is found must be something that a backfill mends, and that leaves out the first day (`Backfill.start`).
    static let knownSlackMilliseconds: Int64 = 86_400_000

    package enum Stage: String, Sendable {
        case tables
        case older = "older messages"
        case messages, deliveries
        case deadLetters = "dead letters"
    }

    /// Row of the only integration that is asked about; nil: all.
    private let only: Int32?
    private let since: Timestamp?
    private let ends: AuditStatements.Ends
    /// The first message that is looked at. Those before it are counted.
    private let first: Int64
    /// Messages or deliveries of a step.
    private let limit: Int32
    /// Row of the last one seen, in the stage at hand.
    private var after: Int64
    /// What it is at; nil: at the end.
    package private(set) var stage: Stage? = .tables
    /// Rows seen in the stage at hand.
    package private(set) var seen = 0
    /// From when on it is known what became of messages; nil: of all that are stored.
    package private(set) var knownFrom: Timestamp?
    package private(set) var coverage = AuditCoverage()
    /// The first `findingsMax`.
    package private(set) var findings: [AuditFinding] = []
    /// How many there are of each kind.
    package private(set) var counts: [AuditFinding.Kind: Int] = [:]

    package var isDone: Bool { stage == nil }

    /// - Parameters:
    ///   - integration: only what was for this one; nil: for all.
    ///   - since: only what was made from then on; nil: all.
    /// - Returns: nil if the database knows no such integration.
    package static func start(
        integration: String? = nil, since: Timestamp? = nil, in pool: Pool
    ) async throws(DatabaseError) -> Audit? {
        try await pool.withSession { session throws(DatabaseError) in
            let names = try session.run(Pauses.names, ())
            let only = names.first { $1 == integration }?.0
            if integration != nil, only == nil { return nil }
            guard let ends = try session.run(AuditStatements.ends, ()).first else {
                throw .protocolViolation(reason: "the last rows came to nothing")
            }
            let knownFrom = try readKnownFrom(on: session)
            let from = [since, knownFrom].compactMap { $0 }.max()
            let alone = try session.run(AuditStatements.countAlone, Int32(manyMin)).first ?? 0
            return Audit(
                only: only, since: since, ends: ends, first: try firstMessage(from, on: session),
                limit: stepMax(waitingAlone: alone, integrations: names.count),
                before: try firstMessage(since, on: session) - 1, knownFrom: knownFrom)
        }
    }

    /// Messages or deliveries of a step, by how much waits without a purchase and how many integrations there are.
    static func stepMax(waitingAlone alone: Int, integrations: Int) -> Int32 {
        let wanted = alone < manyMin ? stepMax : stepOfManyMax
        return max(1, min(wanted, Int32(clamping: pairsMax / max(1, integrations))))
    }

    private init(
        only: Int32?, since: Timestamp?, ends: AuditStatements.Ends, first: Int64, limit: Int32, before: Int64,
        knownFrom: Timestamp?
    ) {
        self.only = only
        self.since = since
        self.ends = ends
        self.first = first
        self.limit = limit
        after = before
        self.knownFrom = knownFrom
    }

    private static func firstMessage(
        _ time: Timestamp?, on session: borrowing Session
    ) throws(DatabaseError) -> Int64 {
        guard let time else { return 0 }
        return try FirstRow.find(time, BackfillStatements.bounds, BackfillStatements.probe, on: session)
    }

    private static func readKnownFrom(on session: borrowing Session) throws(DatabaseError) -> Timestamp? {
        let day = try session.run(AuditStatements.knownFrom, ()).first
        return day?.advanced(byMilliseconds: knownSlackMilliseconds)
    }

    // MARK: Steps

    /// Does the next step.
    package mutating func step(in pool: Pool) async throws(DatabaseError) {
        switch stage {
        case .tables: try await lookAtTables(in: pool)
        case .older: try await countOlder(in: pool)
        case .messages: try await lookAtMessages(in: pool)
        case .deliveries: try await lookAtDeliveries(in: pool)
        case .deadLetters: try await lookAtDeadLetters(in: pool)
        case nil: break
        }
    }

    private mutating func begin(_ stage: Stage?, after row: Int64 = 0) {
        self.stage = stage
        after = row
        seen = 0
    }

    private mutating func lookAtTables(in pool: Pool) async throws(DatabaseError) {
        let (missing, _) = try await Self.snapshot(in: pool) { session throws(DatabaseError) in
            try session.run(AuditStatements.missingTables, ())
        }
        add(missing.map { AuditFinding(.noTable, table: $0) })
        begin(.older, after: after)
    }

    private mutating func countOlder(in pool: Pool) async throws(DatabaseError) {
        let wanted = (after, first, Self.countedMax)
        let (counted, _) = try await Self.snapshot(in: pool) { session throws(DatabaseError) in
            try session.run(AuditStatements.older, wanted).first
        }
        let count = counted?.1 ?? 0
        coverage.older += count
        seen += count
        guard let last = counted?.0, count == Int(Self.countedMax) else { return begin(.messages, after: first - 1) }
        after = last
    }

    private mutating func lookAtMessages(in pool: Pool) async throws(DatabaseError) {
        let page = try await readPage(upTo: ends.message, limit: limit, isSure: false, in: pool)
        guard let last = page.messages.last?.id else { return begin(.deliveries) }
        var judged = page.judge(knownFrom: knownFrom, since: since)
        if !judged.findings.isEmpty {
            // A message that was committed late may have come between.
            let again = try await readPage(upTo: last, limit: 2 * limit, isSure: true, in: pool)
            let missed = Set(judged.findings)
            judged = again.judge(knownFrom: knownFrom, since: since)
            judged.findings.removeAll { !missed.contains($0) }
        }
        coverage += judged.coverage
        add(judged.findings)
        after = last
        seen += page.messages.count
        if page.messages.count < Int(limit) { begin(.deliveries) }
    }

    private mutating func lookAtDeliveries(in pool: Pool) async throws(DatabaseError) {
        let (due, lease) = (Limits.dueAheadMax.wholeMilliseconds, Self.leaseMax.wholeMilliseconds)
        let (after, last, only, limit) = (after, ends.delivery, only, limit)
        let isLast = try await lookAtHeld(in: pool) { session throws(DatabaseError) in
            try session.run(AuditStatements.deliveries, (after, last, limit, only, due, lease))
        }
        if isLast { begin(.deadLetters) }
    }

    private mutating func lookAtDeadLetters(in pool: Pool) async throws(DatabaseError) {
        let (after, last, only, limit) = (after, ends.deadLetter, only, limit)
        let isLast = try await lookAtHeld(in: pool) { session throws(DatabaseError) in
            try session.run(AuditStatements.deadLetters, (after, last, limit, only, Discard.reason))
        }
        if isLast { begin(nil) }
    }

    /// - Returns: whether that was the last page.
    private mutating func lookAtHeld(
        in pool: Pool,
        _ read: @escaping @Sendable (borrowing Session) throws(DatabaseError) -> [AuditStatements.QueuedRow]
    ) async throws(DatabaseError) -> Bool {
        let held = try await readHeld(in: pool, read)
        var findings = held.judge(knownFrom: knownFrom, since: since)
        if !findings.isEmpty {
            let again = Set(try await readHeld(in: pool, read).judge(knownFrom: knownFrom, since: since))
            findings.removeAll { !again.contains($0) }
        }
        add(findings)
        after = held.rows.last?.delivery ?? after
        seen += held.rows.count
        return held.rows.count < Int(limit)
    }

    private mutating func add(_ more: [AuditFinding]) {
        for finding in more { counts[finding.kind, default: 0] += 1 }
        let room = Self.findingsMax - findings.count
        findings += more.prefix(room)
    }

    // MARK: Reading

    private mutating func readPage(
        upTo last: Int64, limit: Int32, isSure: Bool, in pool: Pool
    ) async throws(DatabaseError) -> AuditPage {
        let (after, only) = (after, only)
        let (page, knownFrom) = try await Self.snapshot(in: pool) { session throws(DatabaseError) in
            try AuditPage.read(after: after, upTo: last, limit: limit, only: only, isSure: isSure, on: session)
        }
        self.knownFrom = knownFrom
        return page
    }

    private mutating func readHeld(
        in pool: Pool,
        _ read: @escaping @Sendable (borrowing Session) throws(DatabaseError) -> [AuditStatements.QueuedRow]
    ) async throws(DatabaseError) -> AuditQueuePage {
        let (held, knownFrom) = try await Self.snapshot(in: pool) { session throws(DatabaseError) in
            let rows = try read(session)
            return AuditQueuePage(rows: rows, names: Dictionary(firstOf: try session.run(Pauses.names, ())))
        }
        self.knownFrom = knownFrom
        return held
    }

    /// Runs `read` in one snapshot, which changes nothing; then reads when the kept attempts begin. What waits behind a
    /// lock for too long is tried again.
    private static func snapshot<Value: Sendable>(
        in pool: Pool, _ read: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) async throws(DatabaseError) -> (Value, Timestamp?) {
        for attempt in 1... {
            do throws(DatabaseError) {
                return try await pool.withSession { session throws(DatabaseError) in
                    let value = try session.transaction(.snapshot) { session throws(DatabaseError) in
                        try read(session)
                    }
                    return (value, try readKnownFrom(on: session))
                }
            } catch  where error.isRetryable && attempt < Recorder.collisionsMax {
                continue
            }
        }
        preconditionFailure("the loop ends by returning or throwing")
    }
}
