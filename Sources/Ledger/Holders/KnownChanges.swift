import Vocabulary

/// The known changes of holders, by subject, oldest first. The table is read in pages from a time on, so that older
/// rows cost nothing; `missing` says what must be read before an answer can be trusted.
struct KnownChanges {
    /// What a change is about.
    enum Subject: Hashable {
        case holder(Holder)
        /// A store transaction, or a purchase's key. As bytes, because Swift's strings treat different encodings of a
        /// letter as equal.
        case transaction([UInt8])

        static func named(_ name: String) -> Subject { .transaction(Array(name.utf8)) }

        /// The value of `holder_changes.subject`.
        var text: String {
            switch self {
            case .holder(let holder): holder.storageKey
            case .transaction(let name): HolderChangeRow.transactionPrefix + String(decoding: name, as: UTF8.self)
            }
        }
    }

    /// Logins are looked up separately: after a login that moves nothing, a platform's own statement can still move
    /// something.
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
        /// Ranges of time in which no row of the table is missing.
        var complete: [ClosedRange<Timestamp>] = []
    }

    private var known: [Key: Known] = [:]
    /// What was looked up and is not known, with the time from which the table must be read.
    private(set) var missing: [Key: Timestamp] = [:]

    /// The number of known changes: a measure of what was read. Read by tests.
    var count: Int { known.values.reduce(0) { $0 + $1.rows.count } }

    /// Takes the rows that the table has for `key` between two times.
    mutating func load(_ rows: [HolderChangeRow], of key: Key, from start: Timestamp, through end: Timestamp) {
        for row in rows { add(row, of: key) }
        known[key, default: Known()].complete.append(start...max(start, end))
    }

    /// - Returns: false if the same change is known already.
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

    /// How many changes of the key are known, if part of them was read before.
    func countIfContinued(of key: Key) -> Int? { known[key].flatMap { $0.complete.isEmpty ? nil : $0.rows.count } }

    /// The first changes from a time on, all with the same time; empty if there are none, or if they are not known.
    mutating func first(of key: Key, from time: Timestamp) -> ArraySlice<HolderChangeRow> {
        guard let entry = known[key],
            var read = entry.complete.first(where: { $0.contains(time) })?.upperBound
        else {
            missing[key] = min(missing[key] ?? time, time)
            return []
        }
        // Pages follow one another.
        while let next = entry.complete.first(where: { $0.upperBound > read && $0.contains(read.next) }) {
            read = next.upperBound
        }
        var (low, high) = (0, entry.rows.count)
        while low < high {
            let middle = (low + high) / 2
            if entry.rows[middle].at < time { low = middle + 1 } else { high = middle }
        }
        guard low < entry.rows.count, entry.rows[low].at <= read else {
            // The page ended with rows that cannot be read: what follows them is not known yet.
            if read < read.next { missing[key] = min(missing[key] ?? read.next, read.next) }
            return []
        }
        return entry.rows[low...].prefix { $0.at == entry.rows[low].at }
    }

    /// The earliest of the first changes of several keys, each from its own time on; the result does not depend on the
    /// order of arrival.
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

extension Timestamp {
    /// The next millisecond; the last of all has none.
    fileprivate var next: Timestamp {
        milliseconds == .max ? self : Timestamp(milliseconds: milliseconds + 1)
    }
}
