import Postgres
import Vocabulary

/// One page of messages with all that other tables have of them, from one snapshot, and the judgement on them. The
/// judgement is pure.
struct AuditPage: Sendable {
    /// A message and an integration.
    struct Pair: Hashable {
        let message: Int64
        let integration: Int32
    }

    let messages: [AuditStatements.Message]
    /// Every integration that the database knows, by row.
    let names: [Int32: String]
    /// Nil: all.
    let only: Int32?
    private(set) var tried: [Pair: AuditStatements.Tried] = [:]
    /// Dead letters, each with whether it was given up by hand.
    private(set) var dead: [Pair: Bool] = [:]
    /// Given up for good, each with whether its person was erased.
    private(set) var discarded: [Pair: Bool] = [:]
    /// What waits, of messages that are not answered everywhere without it.
    private(set) var waiting: Set<Pair> = []

    init(messages: [AuditStatements.Message], names: [Int32: String], only: Int32?) {
        self.messages = messages
        self.names = names
        self.only = only
    }

    // MARK: Reading

    /// Reads a page in the current transaction, which has one snapshot for all of it.
    /// - Parameter isSure: looks at all that waits, and not only at what waits of the messages' purchases.
    static func read(
        after: Int64, upTo last: Int64, limit: Int32, only: Int32?, isSure: Bool, on session: borrowing Session
    ) throws(DatabaseError) -> AuditPage {
        let messages = try session.run(AuditStatements.messages, (after, last, limit))
        let names = Dictionary(firstOf: try session.run(Pauses.names, ()))
        var page = AuditPage(messages: messages, names: names, only: only)
        guard let first = messages.first?.id, let last = messages.last?.id else { return page }
        for run in AuditRuns.of(messages.map(\.id)) {
            let (first, last) = (run.lowerBound, run.upperBound)
            for row in try session.run(AuditStatements.tried, (first, last, only)) {
                page.tried[Pair(message: row.message, integration: row.integration)] = row
            }
            for row in try session.run(AuditStatements.dead, (first, last, only, Discard.reason)) {
                page.dead[Pair(message: row.message, integration: row.integration)] = row.isMarked
            }
            for row in try session.run(AuditStatements.discarded, (first, last, only)) {
                page.discarded[Pair(message: row.message, integration: row.integration)] = row.isMarked
            }
        }
        let open = page.open
        if open.isEmpty { return page }
        let waiting: [AuditStatements.Waiting]
        if isSure {
            waiting = try session.run(AuditStatements.waitingAnywhere, (first, last))
        } else {
            waiting = try waitingOf(open, on: session)
        }
        page.waiting = Set(waiting.map { Pair(message: $0.message, integration: $0.integration) })
        return page
    }

    private static func waitingOf(
        _ open: [AuditStatements.Message], on session: borrowing Session
    ) throws(DatabaseError) -> [AuditStatements.Waiting] {
        var (named, purchases, alone) = ([Int64](), [Identifier](), [Int64]())
        for message in open {
            if let purchase = message.purchase {
                named.append(message.id)
                purchases.append(purchase)
            } else {
                alone.append(message.id)
            }
        }
        var waiting: [AuditStatements.Waiting] = []
        if !named.isEmpty { waiting += try session.run(AuditStatements.waitingOf, (named, purchases)) }
        if !alone.isEmpty { waiting += try session.run(AuditStatements.waitingAlone, alone) }
        return waiting
    }

    /// Messages that have no answer yet from somebody whom they were for.
    private var open: [AuditStatements.Message] {
        messages.filter { message in
            wanted(message).contains { row in
                let pair = Pair(message: message.id, integration: row)
                return tried[pair]?.isAccepted != true && dead[pair] == nil && discarded[pair] == nil
            }
        }
    }

    /// The integrations that a message was for, as far as they are asked about.
    private func wanted(_ message: AuditStatements.Message) -> [Int32] {
        let rows = message.integrations.flatMap(MessageReceivers.rows) ?? []
        guard let only else { return rows }
        return rows.contains(only) ? [only] : []
    }

    /// Whether the message was for the integration that is asked about, or cannot be said not to be.
    private func mayBeAskedAbout(_ message: AuditStatements.Message) -> Bool {
        guard let only, let rows = message.integrations.flatMap(MessageReceivers.rows) else { return true }
        return rows.contains(only)
    }

    // MARK: Judging

    /// - Parameters:
    ///   - knownFrom: from when on attempts are kept; nil: those of all stored messages are.
    ///   - since: only what was made from then on; nil: all.
    func judge(knownFrom: Timestamp?, since: Timestamp?) -> (coverage: AuditCoverage, findings: [AuditFinding]) {
        var (coverage, findings) = (AuditCoverage(), [AuditFinding]())
        for message in messages where since.map({ message.createdAt >= $0 }) ?? true {
            if message.lacksEvent, mayBeAskedAbout(message) { findings.append(finding(.noEvent, message)) }
            guard let text = message.integrations else {
                coverage.unnoted += 1
                continue
            }
            if let knownFrom, message.createdAt < knownFrom {
                coverage.older += 1
                continue
            }
            coverage.messages += 1
            guard MessageReceivers.rows(text) != nil else {
                findings.append(finding(.unreadable, message))
                continue
            }
            for row in wanted(message) { judge(message, row, &coverage, &findings) }
        }
        return (coverage, findings)
    }

    private func judge(
        _ message: AuditStatements.Message, _ row: Int32, _ coverage: inout AuditCoverage,
        _ findings: inout [AuditFinding]
    ) {
        let pair = Pair(message: message.id, integration: row)
        guard names[row] != nil else { return findings.append(finding(.noIntegration, message, row)) }
        let tried = tried[pair]
        if tried?.isAccepted == true {
            coverage.delivered += 1
        } else if waiting.contains(pair) {
            coverage.waiting += 1
        } else if let isByHand = dead[pair] {
            if isByHand { coverage.discarded += 1 } else { coverage.dead += 1 }
        } else if let isErased = discarded[pair] {
            if isErased { coverage.erased += 1 } else { coverage.discarded += 1 }
        } else if let tried {
            findings.append(finding(tried.isDead ? .noDeadLetter : .lost, message, row))
        } else {
            findings.append(finding(.unanswered, message, row))
        }
    }

    private func finding(
        _ kind: AuditFinding.Kind, _ message: AuditStatements.Message, _ row: Int32? = nil
    ) -> AuditFinding {
        AuditFinding(
            kind, of: message.handle, message: message.id,
            integration: row.map { names[$0] ?? AuditQueuePage.unknown($0) }, createdAt: message.createdAt)
    }
}
