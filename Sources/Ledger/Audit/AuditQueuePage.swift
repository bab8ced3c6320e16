import Vocabulary

/// One page of what waits, or of dead letters, and the judgement on them. Its judgement is pure.
struct AuditQueuePage: Sendable {
    let rows: [AuditStatements.QueuedRow]
    let names: [Int32: String]

    static func unknown(_ row: Int32) -> String { "#\(row)" }

    /// - Parameters:
    ///   - knownFrom: from when on attempts are kept; nil: those of all stored messages are.
    ///   - since: only what was made from then on; nil: all.
    func judge(knownFrom: Timestamp?, since: Timestamp?) -> [AuditFinding] {
        rows.flatMap { row -> [AuditFinding] in
            if let since, row.createdAt < since { return [] }
            return problems(of: row, isKnown: knownFrom.map { row.createdAt >= $0 } ?? true).map {
                AuditFinding(
                    $0, of: row.handle, message: row.message, delivery: row.delivery,
                    integration: names[row.integration] ?? Self.unknown(row.integration), createdAt: row.createdAt)
            }
        }
    }

    private func problems(of row: AuditStatements.QueuedRow, isKnown: Bool) -> [AuditFinding.Kind] {
        var problems: [AuditFinding.Kind] = []
        if !row.hasMessage { problems.append(.noMessage) }
        if row.lacksEvent { problems.append(.noEvent) }
        if names[row.integration] == nil { problems.append(.noIntegration) }
        if row.problems.isNeverDue { problems.append(.neverDue) }
        if row.problems.isLeaseWithoutEnd { problems.append(.leaseWithoutEnd) }
        if row.problems.isTwice { problems.append(.twice) }
        if isKnown, row.problems.lacksLastAttempt {
            problems.append(.noLastAttempt)
        } else if isKnown, row.problems.lacksAttempts {
            problems.append(.noAttempt)
        }
        return problems
    }
}
