import Vocabulary

@testable import Ledger

/// What is stated of one purchase: a gain or a loss, or who the purchase's own anonymous holder is.
enum PurchaseStatement: Hashable, Sendable {
    case fact(Fact)
    case link(Holder, to: Holder, at: Timestamp)

    var at: Int64 {
        switch self {
        case .fact(let fact): fact.at.milliseconds
        case .link(_, _, let at): at.milliseconds
        }
    }
}

/// The rules of Domain.md, "Transfers" and "Nameless facts", for gains, losses and links, over the whole set and
/// without memory. Shares no code with the ledger.
struct NamelessModel {
    typealias Pair = TransferOracle.Pair

    private struct Statement: Hashable {
        var holder: Holder
        var at: Int64
        var isGain: Bool
        var isRevoked: Bool
        /// Without the day that a period may be late.
        var until: Int64
    }

    private struct Word {
        var holder: Holder
        var at: Int64
        var isOn: Bool
    }

    private(set) var numbers: [Pair: Int] = [:]
    private(set) var access: [Holder: Access] = [:]
    private var statements: Set<Statement> = []
    private var words: [Word] = []
    /// In rising order of what counts at one time.
    private enum Naming: Int { case given, link, naming, loss, said, gain }

    private struct Name {
        var at: Int64
        var by: Naming
        var holder: Holder
        /// Of a link.
        var about: Holder?
        var isOfPurchase: Bool { by.rawValue >= Naming.naming.rawValue }
    }

    private var names: [Name] = []
    private var own: [Holder: Int64] = [:]
    private var given: Set<Holder> = []
    private var moved: [(pair: Pair, at: Int64)] = []
    private let isOneTime: Bool
    /// Whether a source that always names somebody could have stated all of it.
    private let isPlain: Bool
    private let minute: Int64 = 60_000
    private let day: Int64 = 86_400_000

    /// - Parameter isStore: whether events of the source may name nobody.
    init(_ all: [PurchaseStatement], kind: Purchase.Kind = .subscription, isStore: Bool) {
        isOneTime = kind == .oneTime
        var facts: [Fact] = []
        for case .fact(let fact) in all { facts.append(fact) }
        for fact in facts where !fact.isNamed {
            own[fact.holder] = min(own[fact.holder] ?? .max, fact.at.milliseconds)
            if !fact.isGiven { continue }
            given.insert(fact.holder)
            if fact.kind == .gain { names.append(Name(at: fact.at.milliseconds, by: .given, holder: fact.holder)) }
        }
        isPlain = !isStore && own.isEmpty && !facts.contains { $0.kind == .naming || $0.kind == .said }
        for fact in facts where fact.isNamed {
            let by: Naming =
                switch fact.kind {
                case .naming: .naming
                case .said: .said
                case .gain: .gain
                default: .loss
                }
            names.append(Name(at: fact.at.milliseconds, by: by, holder: fact.holder))
            if by == .gain || by == .loss { state(fact, of: fact.holder) }
        }
        // At one time a link is stated before what it applies to.
        var times: [Int64: (links: Set<PurchaseStatement>, facts: Set<Fact>)] = [:]
        for statement in all {
            switch statement {
            case .fact(let fact): if !fact.isNamed { times[statement.at, default: ([], [])].facts.insert(fact) }
            case .link(let from, _, _):
                if own[from] != nil { times[statement.at, default: ([], [])].links.insert(statement) }
            }
        }
        for (_, here) in times.sorted(by: { $0.key < $1.key }) {
            for case .link(let from, let to, let at) in here.links.sorted(by: { Self.order($0, $1) }) {
                link(from, to, at.milliseconds)
            }
            // Of one holder a gain comes before a loss of its time.
            for fact in here.facts.sorted(by: {
                ($0.holder, $0.isRevoked ? 1 : 0, $0.kind == .gain ? 0 : 1)
                    < ($1.holder, $1.isRevoked ? 1 : 0, $1.kind == .gain ? 0 : 1)
            }) {
                give(fact)
            }
        }
        count()
        judgeAccess()
    }

    private static func order(_ left: PurchaseStatement, _ right: PurchaseStatement) -> Bool {
        guard case .link(let from, let to, _) = left, case .link(let otherFrom, let otherTo, _) = right else {
            return false
        }
        return (from, to) < (otherFrom, otherTo)
    }

    /// Whether nothing is known of the holder but a link.
    func isMerelyLinked(_ holder: Holder) -> Bool { own[holder] == nil && !words.contains { $0.holder == holder } }

    // MARK: Whose it is

    private mutating func give(_ fact: Fact) {
        let at = fact.at.milliseconds
        let holder = holder(of: fact.holder, at: at)
        // Whoever has it loses it, too.
        let others = fact.kind == .loss ? having(at: at) : []
        state(fact, of: holder)
        for other in others where other != holder { words.append(Word(holder: other, at: at, isOn: false)) }
    }

    private func known(at time: Int64) -> [Name] {
        names.filter { $0.at <= time }
            .sorted { ($0.at, $0.by.rawValue, $0.holder) < ($1.at, $1.by.rawValue, $1.holder) }
    }

    private func holder(of own: Holder, at time: Int64) -> Holder {
        if let account = account(at: time) { return account.holder }
        let installs = known(at: time).filter { $0.by == .given }
        let own = given.contains(own) ? own : installs.last?.holder ?? own
        return links(about: own, at: time).last?.holder ?? own
    }

    /// The last who was given it by name, or who lost it by name while nobody else had been given it by name; somebody
    /// whom only the purchase names, while neither is.
    private func account(at time: Int64) -> Name? {
        let known = known(at: time).filter(\.isOfPurchase)
        // A loss counts only of whom the purchase is then, so a walk from the first.
        var counted: [Name] = []
        for (index, name) in known.enumerated() {
            // Of two sayings of one time the second is compared with the first.
            let saidBefore = known[..<index].last { $0.by == .said }
            let isNew =
                switch name.by {
                case .gain: true
                case .loss: counted.last.map { $0.holder == name.holder } ?? true
                case .said:
                    if counted.last?.holder == name.holder {
                        true
                    } else if let saidBefore {
                        saidBefore.holder != name.holder
                    } else {
                        !counted.contains { $0.holder == name.holder }
                    }
                default: counted.last.map { $0.by == .naming } ?? true
                }
            if isNew { counted.append(name) }
        }
        return counted.last
    }

    /// The links that say who this own holder is: its own, and those of the store's id from while it had the purchase;
    /// from before any install had it, those say who it is that is no install.
    private func links(about own: Holder?, at time: Int64) -> [Name] {
        let known = known(at: time)
        return known.filter { link in
            guard link.by == .link, let about = link.about else { return false }
            if about == own || given.contains(about) { return about == own }
            let had = known.filter { $0.by == .given && $0.at <= link.at }
            if let install = had.last?.holder { return install == own }
            return !known.contains { $0.by == .given && $0.holder == own }
        }
    }

    /// Who was given it last at or before a time, if it was not taken from that holder since; of a one-time purchase
    /// everybody who has it.
    private func having(at time: Int64) -> Set<Holder> {
        if isOneTime { return Set(words.map(\.holder)).filter { isOn($0, at: time) } }
        let given = statements.filter { $0.isGain && $0.at <= time }
        guard let last = given.max(by: { isBefore(($0.at, $0.holder), ($1.at, $1.holder)) })?.holder else { return [] }
        return isOn(last, at: time) ? [last] : []
    }

    private func isOn(_ holder: Holder, at time: Int64) -> Bool {
        let mine = words.filter { $0.holder == holder && $0.at <= time }
        let newest = mine.map(\.at).max()
        return newest != nil && mine.filter { $0.at == newest }.allSatisfy(\.isOn)
    }

    private mutating func state(_ fact: Fact, of holder: Holder) {
        let at = fact.at.milliseconds
        let isGain = fact.kind == .gain
        words.append(Word(holder: holder, at: at, isOn: isGain))
        if isOneTime { return }
        let stated = fact.until?.milliseconds
        let until = fact.isRevoked ? at - 1 : isGain ? stated ?? .max : max(stated ?? 0, at + minute)
        statements.insert(
            Statement(holder: holder, at: at, isGain: isGain, isRevoked: fact.isRevoked, until: until))
    }

    private mutating func link(_ about: Holder, _ to: Holder, _ at: Int64) {
        let link = Name(at: at, by: .link, holder: to, about: about)
        defer { names.append(link) }
        if let account = account(at: at) {
            if account.by != .naming || account.holder != to { return }
        } else {
            let install = known(at: at).last { $0.by == .given }?.holder
            var tried = self
            tried.names.append(link)
            if !tried.links(about: install, at: at).contains(where: { $0.holder == to && $0.about == about }) { return }
        }
        let before = statements.filter { $0.isGain && $0.at < at }
        guard !isOneTime,
            let from = before.max(by: { isBefore(($0.at, $0.holder), ($1.at, $1.holder)) })?.holder, from != to,
            isOn(from, at: at)
        else { return }
        let known = statements.filter {
            $0.holder == from && ($0.at < at || $0.at == at && ($0.isGain || $0.isRevoked))
        }
        let revoked = known.filter(\.isRevoked).map(\.at).max()
        guard let stated = lasting(known, since: revoked, isStated: true), stated > at else { return }
        statements.insert(
            Statement(holder: from, at: at, isGain: false, isRevoked: false, until: max(stated, at + minute)))
        statements.insert(Statement(holder: to, at: at, isGain: true, isRevoked: false, until: stated))
        words.append(Word(holder: from, at: at, isOn: false))
        words.append(Word(holder: to, at: at, isOn: true))
        moved.append((Pair(from: from, to: to), at))
    }

    // MARK: Tenures

    private func firstLoss(_ holder: Holder, _ start: Int64) -> Int64? {
        let losses = statements.filter { !$0.isGain && $0.holder == holder }.map(\.at)
        return losses.filter { (start...start + minute).contains($0) }.min()
    }

    /// At one time, who first loses it within a minute comes first.
    private func isBefore(_ left: (at: Int64, holder: Holder), _ right: (at: Int64, holder: Holder)) -> Bool {
        if left.at != right.at { return left.at < right.at }
        func place(_ holder: Holder) -> (Int64, Holder) { (firstLoss(holder, left.at) ?? .max, holder) }
        return place(left.holder) < place(right.holder)
    }

    /// The end of the period known from statements of one holder, of which a revocation took back what was before it.
    private func lasting(_ statements: Set<Statement>, since revoked: Int64?, isStated: Bool = false) -> Int64? {
        statements.filter { $0.at > revoked ?? .min || $0.isRevoked && $0.at == revoked || revoked == nil }.map {
            statement in
            if isStated || isPlain || statement.isRevoked { return statement.until }
            // After a revocation only a gain states a further period.
            if let revoked, !statement.isGain,
                !statements.contains(where: { $0.isGain && $0.at > revoked && $0.at <= statement.at })
            {
                return revoked - 1
            }
            if own[statement.holder] != nil { return .max }
            return statement.until > .max - day ? .max : statement.until + day
        }.max()
    }

    private func reach(_ statements: Set<Statement>, _ revoked: Int64?) -> Int64 {
        lasting(statements, since: revoked) ?? .min
    }

    private mutating func count() {
        struct Point {
            var at: Int64
            var holder: Holder
            var isGain: Bool
        }
        var points: [Point] = []
        for statement in statements {
            if statement.isGain {
                points.append(Point(at: statement.at, holder: statement.holder, isGain: true))
            } else if !statement.isRevoked {
                let earlier = statements.filter {
                    $0.holder == statement.holder
                        && ($0.at < statement.at || $0.at == statement.at && $0.isGain && !$0.isRevoked)
                }
                if reach(earlier, earlier.filter(\.isRevoked).map(\.at).max()) < statement.at - minute {
                    points.append(Point(at: statement.at - minute, holder: statement.holder, isGain: false))
                }
            }
        }
        points.sort { isBefore(($0.at, $0.holder), ($1.at, $1.holder)) }
        var changes = moved
        var runs: [(holder: Holder, start: Int64, firstGain: Int64?)] = []
        for point in points {
            if runs.last?.holder != point.holder { runs.append((point.holder, point.at, nil)) }
            if point.isGain, runs[runs.count - 1].firstGain == nil { runs[runs.count - 1].firstGain = point.at }
        }
        let moveTimes = Set(moved.map(\.at))
        for (old, new) in zip(runs, runs.dropFirst()) {
            guard let start = new.firstGain else { continue }
            let isLost = firstLoss(old.holder, start).map { !moveTimes.contains($0) } ?? false
            guard old.start < start || isLost || moveTimes.contains(start) else { continue }
            let known = statements.filter {
                $0.holder == old.holder && $0.at <= start + ($0.isGain ? 0 : minute)
            }
            let revoked = known.filter { $0.isRevoked && $0.at <= start }.map(\.at).max()
            if reach(known, revoked) >= start { changes.append((Pair(from: old.holder, to: new.holder), start)) }
        }
        var times: [Pair: Set<Int64>] = [:]
        for change in changes { times[change.pair, default: []].insert(change.at) }
        numbers = times.mapValues(\.count)
    }

    // MARK: Access

    private mutating func judgeAccess() {
        let newest = statements.filter(\.isGain).max { isBefore(($0.at, $0.holder), ($1.at, $1.holder)) }?.holder
        for holder in Set(words.map(\.holder)) {
            let at = words.filter { $0.holder == holder }.map(\.at).max() ?? 0
            let isReplaced = own[holder] != nil && words.contains { own[$0.holder] == nil && $0.at >= at }
            let has = isOn(holder, at: at) && (isOneTime || holder == newest) && !isReplaced
            access[holder] = Access(isActive: has, asOf: Timestamp(milliseconds: at))
        }
        for (holder, since) in own where access[holder] == nil {
            access[holder] = Access(isActive: false, asOf: Timestamp(milliseconds: since))
        }
        for name in names.sorted(by: { $0.at < $1.at }) where access[name.holder] == nil {
            access[name.holder] = Access(isActive: false, asOf: Timestamp(milliseconds: name.at))
        }
    }
}
