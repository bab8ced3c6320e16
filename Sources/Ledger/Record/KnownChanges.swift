import Vocabulary

/// The changes of holders that are known: by whom they are about, oldest first. The table is read in pages, from a time
/// on, so that what lies before it costs nothing; `missing` says what has to be read before an answer can be trusted.
struct KnownChanges {
    /// What a change is about.
    enum Subject: Hashable {
        case holder(Holder)
        /// A store transaction, or a purchase's key. As bytes: Swift's strings take different spellings of a letter for
        /// the same.
        case transaction([UInt8])

        static func named(_ name: String) -> Subject { .transaction(Array(name.utf8)) }

        /// As `holder_changes.subject` has it.
        var text: String {
            switch self {
            case .holder(let holder): holder.coalesced
            case .transaction(let name): HolderChangeRow.transactionPrefix + String(decoding: name, as: UTF8.self)
            }
        }
    }

    /// Logins are looked up apart from all else: after one that moves nothing a vendor's own statement still can.
    struct Key: Hashable {
        let scope: Scope
        let subject: Subject
        let isLogin: Bool

        static func all(of holder: Holder, in scope: Scope) -> [Key] {
            [false, true].map { Key(scope: scope, subject: .holder(holder), isLogin: $0) }
        }
    }

    private struct Known {
        /// Ascending.
        var rows: [HolderChangeRow] = []
        /// Times between which no row of the table is missing.
        var complete: [ClosedRange<Timestamp>] = []
    }

    private var known: [Key: Known] = [:]
    /// What was looked for and is not known: from which time on the table is to be read.
    private(set) var missing: [Key: Timestamp] = [:]

    /// Changes that are known: what was read for it.
    var count: Int { known.values.reduce(0) { $0 + $1.rows.count } }

    /// Takes what the table has of `key` between two times.
    mutating func load(_ rows: [HolderChangeRow], of key: Key, from start: Timestamp, through end: Timestamp) {
        for row in rows { add(row, of: key) }
        known[key, default: Known()].complete.append(start...max(start, end))
    }

    /// - Returns: false where the same is known already.
    @discardableResult
    mutating func add(_ row: HolderChangeRow, of key: Key) -> Bool {
        var (low, high) = (0, known[key]?.rows.count ?? 0)
        while low < high {
            let middle = (low + high) / 2
            if known[key].map({ $0.rows[middle] < row }) ?? false { low = middle + 1 } else { high = middle }
        }
        if let rows = known[key]?.rows, low < rows.count, !(row < rows[low]) { return false }
        known[key, default: Known()].rows.insert(row, at: low)
        return true
    }

    /// Whether part of them was read before.
    func isContinued(_ key: Key) -> Bool { known[key]?.complete.isEmpty == false }

    /// The first changes from a time on, all of one time; none where there is none, or where it is not known.
    mutating func first(of key: Key, from time: Timestamp) -> ArraySlice<HolderChangeRow> {
        guard let entry = known[key], entry.complete.contains(where: { $0.contains(time) }) else {
            missing[key] = min(missing[key] ?? time, time)
            return []
        }
        var (low, high) = (0, entry.rows.count)
        while low < high {
            let middle = (low + high) / 2
            if entry.rows[middle].at < time { low = middle + 1 } else { high = middle }
        }
        guard low < entry.rows.count else { return [] }
        return entry.rows[low...].prefix { $0.at == entry.rows[low].at }
    }

    /// Of the first changes of several, each from its time on: the earliest, in one order whatever order they came in.
    mutating func earliest(of wanted: [Key: Timestamp]) -> (key: Key, rows: ArraySlice<HolderChangeRow>)? {
        var earliest: (key: Key, rows: ArraySlice<HolderChangeRow>)?
        for (key, time) in wanted {
            let rows = first(of: key, from: time)
            guard let first = rows.first else { continue }
            if let other = earliest?.rows.first, !(first < other) { continue }
            earliest = (key, rows)
        }
        return earliest
    }
}
