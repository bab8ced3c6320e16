import Postgres
import Vocabulary

/// A statement about all purchases of a holder, as `holder_changes` keeps it. It applies to each purchase that its
/// subject holds at that time, including purchases whose own webhooks come later.
///
/// A change that moves nothing is kept too, unless it repeats another exactly: a late webhook may show that the subject
/// had bought a purchase before the change, and then that purchase must move (invariant I1). Nothing that is known when
/// the change arrives rules that out, so a change is deleted only when no source sends webhooks that late any more
/// (`Upkeep.prune`).
struct HolderChangeRow {
    typealias Kind = KeptChange.Kind

    var scope: Scope
    /// A holder as `Holder.storageKey` writes it, or a store transaction after the prefix `txn:`.
    var subject: String
    var kind: Kind
    var target: Holder
    var secondTarget: Holder?
    var at: Timestamp

    init(scope: Scope, subject: String, kind: Kind, target: Holder, secondTarget: Holder?, at: Timestamp) {
        self.scope = scope
        self.subject = subject
        self.kind = kind
        self.target = target
        self.secondTarget = secondTarget
        self.at = at
    }

    /// The subject, if it is a holder.
    var from: Holder? { Holder(storageKey: subject) }

    static let transactionPrefix = "txn:"

    static func transactionSubject(_ id: String) -> String { transactionPrefix + id }

    /// A row of the table that says nothing, or the event that stated it: damaged, or written by another version of
    /// Posthouse. It is left out wherever it is met, and reported once; what it concerns is recorded without it. Where
    /// the event alone is damaged, the change still moves each purchase whose next webhook comes.
    struct Unreadable: Error, CustomStringConvertible {
        let row: Int64
        /// The column that cannot be read, with the table if that is another.
        let column: String

        var description: String {
            """
            row \(row) of holder_changes cannot be read (\(column)): this change of a holder is left out. Once that is \
            repaired, set the row's applied_through to 00000000-0000-0000-0000-000000000000 and restart: it is then \
            applied to all purchases that it concerns
            """
        }
    }

    /// Reads a row of the table.
    init(
        row: Int64, scope: Scope, subject: String, kind: String, target: String, second: String?, at: Int64
    ) throws(Unreadable) {
        guard let kind = Kind(rawValue: kind) else { throw Unreadable(row: row, column: "kind") }
        guard let target = Holder(storageKey: target) else { throw Unreadable(row: row, column: "target") }
        let secondTarget = second.flatMap { Holder(storageKey: $0) }
        guard (secondTarget == nil) == (second == nil) else { throw Unreadable(row: row, column: "second_target") }
        let isTransaction = subject.utf8.starts(with: Self.transactionPrefix.utf8)
        guard isTransaction || Holder(storageKey: subject) != nil else { throw Unreadable(row: row, column: "subject") }
        self.init(
            scope: scope, subject: subject, kind: kind, target: target, secondTarget: secondTarget,
            at: Timestamp(milliseconds: at))
    }

    /// The key by which the change is found.
    var key: KnownChanges.Key {
        let subject: KnownChanges.Subject =
            from.map { .holder($0) } ?? .transaction(Array(subject.utf8.dropFirst(Self.transactionPrefix.utf8.count)))
        return KnownChanges.Key(scope: scope, subject: subject, isLogin: kind == .login)
    }

    /// The same as a statement.
    var kept: KeptChange {
        let name = subject.utf8.dropFirst(Self.transactionPrefix.utf8.count)
        let subject: KeptChange.Subject =
            from.map { .holder($0) } ?? .transaction(String(decoding: Array(name), as: UTF8.self))
        return KeptChange(kind: kind, subject: subject, target: target, secondTarget: secondTarget)
    }

    /// The holders whose later changes concern what this one moves.
    var targets: [Holder] { [target] + (secondTarget.map { [$0] } ?? []) }
}

/// Orders changes by time, then by content: never by arrival. Two changes with the same content are equal.
extension HolderChangeRow: Comparable {
    static func < (left: HolderChangeRow, right: HolderChangeRow) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
        if !left.subject.utf8.elementsEqual(right.subject.utf8) {
            return left.subject.utf8.lexicographicallyPrecedes(right.subject.utf8)
        }
        if left.target != right.target { return left.target < right.target }
        guard let mine = left.secondTarget, let other = right.secondTarget else {
            return left.secondTarget == nil && right.secondTarget != nil
        }
        return mine < other
    }

    static func == (left: HolderChangeRow, right: HolderChangeRow) -> Bool { !(left < right) && !(right < left) }
}

extension HolderChangeRow {
    /// The rows for an event's change.
    ///
    /// - Parameters:
    ///   - isFirstIdentify: nobody identified as this identity before.
    ///   - identity: the user that a restoring install is logged in as.
    static func rows(
        of change: HolderChange, ownership: Ownership, isFirstIdentify: Bool, identity: Holder?, scope: Scope,
        at time: Timestamp
    ) -> [HolderChangeRow] {
        func row(_ subject: String, _ kind: Kind, _ target: Holder, _ second: Holder? = nil) -> HolderChangeRow {
            HolderChangeRow(scope: scope, subject: subject, kind: kind, target: target, secondTarget: second, at: time)
        }
        switch change {
        case .move(let from, let to, let isNative):
            return from.filter { $0 != to }.map { row($0.storageKey, isNative ? .native : .login, to) }
        case .claim(_, _, moves: false): return []
        case .identify(let install, let identity), .claim(let install, let identity, _):
            let subject = Holder.anonymous(install).storageKey
            switch ownership {
            case .exclusive: return [row(subject, .login, .user(identity))]
            case .installAndIdentity: return isFirstIdentify ? [row(subject, .share, .user(identity))] : []
            }
        case .endSessions, .register, .first: return []
        case .kept(let kept):
            let subject =
                switch kept.subject {
                case .holder(let holder): holder.storageKey
                case .transaction(let id): transactionSubject(id)
                }
            return [row(subject, kept.kind, kept.target, kept.secondTarget)]
        case .restore(let install, let transactions, let strategy):
            let install = Holder.anonymous(install)
            // The placeholder id of imports without a transaction matches no real transaction.
            return transactions.filter { $0 != ImportLine.unnamedTransaction }.map { id in
                row(transactionSubject(id), strategy == .transfer ? .transfer : .copy, install, identity)
            }
        }
    }
}
