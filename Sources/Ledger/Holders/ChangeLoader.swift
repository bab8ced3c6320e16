import Postgres
import Vocabulary

/// The stored changes that a batch needs: those of each subject, from a time on.
struct ChangeLoader {
    private struct Wish: Hashable {
        let key: KnownChanges.Key
        /// For a name: the hash of the purchase that it names.
        let purchase: Identifier?
    }

    /// Changes of one subject that are read at first: mostly only the first one matters.
    private static let firstPage: Int64 = 8
    /// Changes of one subject that are read after that, if the first page was not enough, and at least four times as
    /// many as are known: a batch is planned anew with each page.
    private static let furtherPage: Int64 = 1_000

    private var wishes: [Wish: Timestamp] = [:]
    private var page = Self.firstPage

    init() {}

    /// The changes that a plan looked up and that were not loaded.
    init(missing changes: KnownChanges) {
        for (key, time) in changes.missing {
            need(key, from: time)
            if let count = changes.countIfContinued(of: key) { page = max(page, Self.furtherPage, 4 * Int64(count)) }
        }
    }

    mutating func need(_ key: KnownChanges.Key, from time: Timestamp, naming purchase: Identifier? = nil) {
        let wish = Wish(key: key, purchase: purchase)
        wishes[wish] = min(wishes[wish] ?? time, time)
    }

    mutating func need(_ holder: Holder, in scope: Scope, from time: Timestamp) {
        for key in KnownChanges.Key.all(of: holder, in: scope) { need(key, from: time) }
    }

    /// Adds the changes of the holders that an event names, and of the names of its purchase, given by its hash.
    mutating func need(of event: Event, naming purchase: Identifier) {
        for (key, time) in event.wantedChanges { need(key, from: time) }
        for name in event.purchaseNames {
            let key = KnownChanges.Key(scope: event.scope, subject: name, isLogin: false)
            need(key, from: event.earliestFact, naming: purchase)
        }
    }

    func enqueueQueries(
        in form: LedgerForm, on session: borrowing Session
    ) throws(DatabaseError) -> PendingChangeRows? {
        guard !wishes.isEmpty else { return nil }
        let wishes = Array(wishes)
        let keys = wishes.map(\.key.key)
        let pending = try session.enqueueQuery(
            form >= .timedKeys ? HolderStatements.changes : HolderStatements.changesBeforeTimedKeys,
            (
                keys.map(\.subject.text), keys.map(\.scope.source), keys.map(\.scope.app),
                keys.map(\.scope.environment), keys.map(\.isLogin), wishes.map(\.value),
                wishes.map(\.key.purchase), page
            ))
        return PendingChangeRows(
            wishes: wishes.map { ($0.key.key, $0.key.purchase, $0.value) }, page: page, pending: pending)
    }
}

/// The stored changes that were queried.
struct PendingChangeRows {
    fileprivate let wishes: [(key: KnownChanges.Key, purchase: Identifier?, from: Timestamp)]
    fileprivate let page: Int64
    fileprivate let pending: PendingRows<HolderStatements.SubjectChange>

    /// Adds the changes to what a batch knows.
    /// - Parameter purchase: the id of the purchase with a hash.
    func add(
        to holders: inout HolderKnowledge, on session: borrowing Session, purchase id: (Identifier) -> Identifier?
    ) throws(DatabaseError) {
        var rows = [[HolderChangeRow]](repeating: [], count: wishes.count)
        // Of all rows, unreadable ones too: they show how far the page reaches.
        var times = [[Timestamp]](repeating: [], count: wishes.count)
        var starts = wishes.map(\.from)
        for change in try session.answer(to: pending) {
            let index = change.place - 1
            starts[index] = change.from
            guard let row = change.row, let kind = change.kind, let target = change.target, let time = change.at else {
                continue
            }
            let key = wishes[index].key
            times[index].append(time)
            do throws(HolderChangeRow.Unreadable) {
                rows[index].append(
                    try HolderChangeRow(
                        row: row, scope: key.scope, subject: key.subject.text, kind: kind, target: target,
                        second: change.second, at: time.milliseconds))
            } catch {
                holders.leftOut[row] = error
            }
        }
        for (index, wish) in wishes.enumerated() {
            let isWhole = Int64(times[index].count) < page
            let last = times[index].max()
            let end = isWhole ? nil : last
            holders.changes.load(
                rows[index], of: wish.key, from: starts[index], through: end ?? Timestamp.distantFuture)
            if let purchase = wish.purchase.flatMap(id), starts[index] == wish.from {
                holders.settle(wish.key.subject, of: purchase)
            }
        }
    }
}
