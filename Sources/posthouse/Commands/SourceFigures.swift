import Ledger
import Vocabulary

/// One source's line of `status`.
struct SourceFigures {
    /// Empty: requests that named no source.
    let name: String
    let heardAt: Timestamp?
    /// Whether a daemon has run with it.
    let isServed: Bool
    /// Of the last minute, as all that follows.
    let stored: Int
    let quarantined: Int
    /// Its overdue purchases, by environment; nil: not known.
    let overdue: [OverdueFigures]?
    /// By status, the lowest first.
    let refused: [(status: Int, count: Int)]

    /// The configured sources in their order, those that are not configured any more but answered requests within the
    /// minute or have overdue purchases, and last the requests that named none. What the API answered is counted under
    /// a name that is no source's.
    static func all(_ status: LedgerStatus, _ configured: [String]) -> [SourceFigures] {
        let overdue = status.overdue ?? []
        let others = Set(status.answers.keys.map(\.source) + overdue.map(\.source)).subtracting(configured)
        let removed = others.intersection(status.sources.map(\.name)).sorted()
        return (configured + removed + others.filter(\.isEmpty)).map { SourceFigures($0, status) }
    }

    /// Overdue in the environment that alerts watch, with and without access; nil: not known.
    var overdueInProduction: Int? {
        overdue?.filter { $0.environment == Source.usualEnvironment }.reduce(0) { $0 + $1.active + $1.lapsed }
    }

    private init(_ name: String, _ status: LedgerStatus) {
        let known = status.sources.first { $0.name == name }
        self.name = name
        heardAt = known?.heardAt
        isServed = known != nil
        stored = status.answers[SourceAnswer(source: name, kind: .stored)] ?? 0
        quarantined = status.answers[SourceAnswer(source: name, kind: .quarantined)] ?? 0
        overdue = status.overdue?.filter { $0.source == name }
        refused = status.answers.compactMap { answer, count in
            guard answer.source == name, case .refused(let status) = answer.kind else { return nil }
            return (status, count)
        }.sorted { $0.status < $1.status }
    }
}
