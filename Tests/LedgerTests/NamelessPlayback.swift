import Testing
import Vocabulary

@testable import Ledger

/// Everything that one order of arrival leads to where events may name nobody. The state is written and read again
/// after each webhook, as the database does; links are kept and looked up as recording does.
struct NamelessPlayback {
    private(set) var state = PurchaseState()
    private(set) var announced: [AnnouncedTransfer] = []
    private(set) var voids: [VoidedTransfer] = []
    /// As the table `entitlements` has it: what is not stated again stays.
    private(set) var access: [Holder: Access] = [:]
    private(set) var isReadBack = true
    private var links: [HolderChangeRow] = []
    private let kind: Purchase.Kind
    private let isStore: Bool
    private let scope = Scope(source: "store", app: "app", environment: "PRODUCTION")

    /// - Parameter arrivals: each is what one webhook states.
    init(_ arrivals: [[PurchaseStatement]], kind: Purchase.Kind = .subscription, isStore: Bool) {
        self.kind = kind
        self.isStore = isStore
        for statements in arrivals { play(statements) }
    }

    fileprivate mutating func play(_ statements: [PurchaseStatement]) {
        var facts: [Fact] = []
        for case .fact(let fact) in statements { facts.append(fact) }
        var wanted: [HolderChangeRow] = []
        for case .link(let from, let to, let at) in statements {
            let row = HolderChangeRow(
                scope: scope, subject: from.storageKey, kind: .login, target: to, secondTarget: nil, at: at)
            links.append(row)
            if state.everHolders.contains(from) { wanted.append(row) }
        }
        var known = TransferResolution.recording(facts, in: state, kind: kind, mayLackName: isStore)
        let isNew = facts.contains { !$0.isNamed && !state.isOwn($0.holder) }
        var moves: [KeptMove] = []
        for row in isNew ? links : wanted {
            guard let move = TransferResolution.move(row, in: known) else { continue }
            known.insert(move)
            moves.append(move)
        }
        if facts.isEmpty, moves.isEmpty { return }
        let resolution = TransferResolution.resolve(state, facts, moves: moves, kind: kind, mayLackName: isStore)
        announced += resolution.announced
        voids += resolution.voids
        access.merge(resolution.access) { _, new in new }
        let again = try? PurchaseState(bytes: resolution.state.bytes)
        if again != resolution.state { isReadBack = false }
        state = again ?? resolution.state
    }

    var numbers: [TransferOracle.Pair: Int] {
        var numbers: [TransferOracle.Pair: Int] = [:]
        for transfer in announced {
            let pair = TransferOracle.Pair(from: transfer.from, to: transfer.to)
            numbers[pair] = max(numbers[pair] ?? 0, transfer.ordinal)
        }
        return numbers
    }

    var isAnnouncedOnce: Bool {
        Set(announced.map { [$0.from.storageKey, $0.to.storageKey, "\($0.ordinal)"] }).count == announced.count
            && announced.count == numbers.values.reduce(0, +)
    }

    /// What is known, without what was announced.
    var knowledge: PurchaseState {
        var knowledge = state
        knowledge.announced = []
        return knowledge
    }

    /// Whether it led to what the model says. What was announced and is void stays announced. Of somebody whom only an
    /// old link names, and who never had the purchase, nothing need be known.
    func agrees(with model: NamelessModel) -> Bool {
        let isAccess = model.access.allSatisfy { holder, access in
            self.access[holder] == access || model.isMerelyLinked(holder) && self.access[holder]?.isActive != true
        }
        guard isReadBack, isAnnouncedOnce, isAccess, access.keys.allSatisfy({ model.access[$0] != nil }) else {
            return false
        }
        if voids.isEmpty { return numbers == model.numbers }
        for (pair, number) in model.numbers where numbers[pair, default: 0] < number { return false }
        return state.announced.allSatisfy { entry in
            let number = model.numbers[TransferOracle.Pair(from: entry.from, to: entry.to)] ?? 0
            return entry.lastOrdinal == number + entry.voided.count + entry.settledVoids
        }
    }
}

extension AnnouncedPair {
    /// Voids that no fact restores any more: they raise all counts.
    fileprivate var settledVoids: Int { min(settledChanges, settledTransferred, settledReceived) }
}

/// Plays lists of webhooks, one after the other. What a list begins with as the list before it is not played again.
struct NamelessPlayer {
    private let start: NamelessPlayback
    private var played: [(webhook: [PurchaseStatement], after: NamelessPlayback)] = []

    init(kind: Purchase.Kind, isStore: Bool) { start = NamelessPlayback([], kind: kind, isStore: isStore) }

    mutating func play(_ arrivals: [[PurchaseStatement]]) -> NamelessPlayback {
        let shared = zip(played, arrivals).prefix(while: { $0.webhook == $1 }).count
        played.removeLast(played.count - shared)
        for webhook in arrivals.dropFirst(shared) {
            var playback = played.last?.after ?? start
            playback.play(webhook)
            played.append((webhook: webhook, after: playback))
        }
        return played.last?.after ?? start
    }
}

/// Every way to cut a list into consecutive parts.
func partitions<Element>(_ elements: [Element]) -> [[[Element]]] {
    guard let first = elements.first else { return [[]] }
    return partitions(Array(elements.dropFirst())).flatMap { rest -> [[[Element]]] in
        guard let head = rest.first else { return [[[first]]] }
        return [[[first]] + rest, [[first] + head] + rest.dropFirst()]
    }
}
