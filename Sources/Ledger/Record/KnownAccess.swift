import JSONText
import Vocabulary

/// The access of a purchase's holders, as it is stored with the purchase: what their rows of `entitlements` would say
/// if each webhook wrote them. A row is written where its `active` changes; a renewal, which only makes it newer,
/// is known from here, and touches no further page (`KnownAccessStatements` has what readers do).
///
/// It is as exact as the rows were, and cannot be computed from the state: what the state has dropped since, the event
/// that the access follows from and the time of recording are not in it.
///
/// It belongs to one state, whose checksum it has. What wrote another state without it, a daemon of a version before,
/// wrote the rows: it is then not read.
struct KnownAccess: Equatable {
    struct Entry: Equatable {
        let access: Access
        /// Row of the event that stated it; nil: the row of `entitlements` says it, and is as new as this.
        var event: Int64?
        /// The database's time at which it was recorded; nil: as above.
        var changedAt: Timestamp?
    }

    /// Holders of one purchase that are kept. The rows of the others are written at each change.
    static let entriesMax = 64

    private(set) var entries: [Holder: Entry] = [:]

    /// Nothing is known: the rows are read and written.
    init() {}

    /// - Parameters:
    ///   - stored: the column `purchases.access`. What cannot be read says nothing.
    ///   - state: the stored state beside it.
    init(_ stored: JSONColumn?, of state: [UInt8]) {
        guard let text = Self.read(stored), let holders = try? text.object("of"),
            let checksum = try? text.string("state"), checksum.utf8.elementsEqual(Self.checksum(of: state))
        else { return }
        for key in holders.keys {
            guard let holder = Holder(storageKey: key), let entry = Entry((try? holders.texts(key)) ?? []) else {
                continue
            }
            entries[holder] = entry
        }
    }

    /// Everybody whom the column names, whichever state it belongs to.
    static func holders(in stored: JSONColumn?) -> Set<Holder> {
        guard let holders = try? Self.read(stored)?.object("of") else { return [] }
        return Set(holders.keys.compactMap { Holder(storageKey: $0) })
    }

    private static func read(_ stored: JSONColumn?) -> JSONObject? {
        stored.flatMap { try? JSONScan.topObject($0.text, depthMax: 3) }
    }

    /// As it is stored.
    func column(of state: [UInt8]) -> JSONColumn? {
        if entries.isEmpty { return nil }
        let text = JSONWriter.object { json in
            json.member("state", String(decoding: Self.checksum(of: state), as: UTF8.self))
            json.key("of")
            json.object { json in
                for (holder, entry) in entries {
                    json.key(holder.storageKey)
                    json.array { entry.write(into: &$0) }
                }
            }
        }
        return JSONColumn(text: text)
    }

    /// The checksum in a state's first line (`PurchaseState.bytes`).
    private static func checksum(of state: [UInt8]) -> ArraySlice<UInt8> { state.dropFirst(2).prefix(16) }

    /// Takes what a batch states of a holder.
    /// - Parameter now: the database's time.
    /// - Returns: whether the row must be written.
    mutating func update(_ row: BatchPlan.EntitlementRow, at now: Timestamp?) -> Bool {
        guard let known = entries[row.holder] else {
            entries[row.holder] = Entry(access: row.access)
            return true
        }
        if known.access == row.access { return false }
        let isWritten = known.access.isActive != row.access.isActive
        entries[row.holder] =
            isWritten ? Entry(access: row.access) : Entry(access: row.access, event: row.event, changedAt: now)
        return isWritten
    }

    /// Drops the entries beyond `entriesMax`: first those without access, of these the oldest.
    /// - Returns: those that are newer than their rows.
    mutating func dropExcess() -> [Holder: Entry] {
        guard entries.count > Self.entriesMax else { return [:] }
        let sorted = entries.sorted { left, right in
            let (one, other) = (left.value.access, right.value.access)
            if one.isActive != other.isActive { return one.isActive }
            return one.asOf != other.asOf ? one.asOf > other.asOf : left.key < right.key
        }
        entries = Dictionary(firstOf: sorted.prefix(Self.entriesMax).map { ($0.key, $0.value) })
        return Dictionary(firstOf: sorted.dropFirst(Self.entriesMax).map { ($0.key, $0.value) })
            .filter { $0.value.event != nil }
    }
}

extension KnownAccess.Entry {
    /// - Parameter fields: two to four integers.
    fileprivate init?(_ fields: [String]) {
        let numbers = fields.compactMap { Int64($0) }
        guard numbers.count == fields.count, (2...4).contains(numbers.count) else { return nil }
        self.init(
            access: Access(isActive: numbers[0] == 1, asOf: Timestamp(milliseconds: numbers[1])),
            event: numbers.count > 2 ? numbers[2] : nil,
            changedAt: numbers.count > 3 ? Timestamp(milliseconds: numbers[3]) : nil)
    }

    fileprivate func write(into json: inout JSONWriter) {
        json.integer(access.isActive ? 1 : 0)
        json.integer(access.asOf.milliseconds)
        guard let event else { return }
        json.integer(event)
        if let changedAt { json.integer(changedAt.milliseconds) }
    }
}
