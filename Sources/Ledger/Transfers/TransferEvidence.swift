import Vocabulary

/// What shows the transfers of a purchase, for what they say of its old holders: an anonymous one from whom it passes
/// to a user is that user from then on, unless a restore passed it on, which takes what was somebody else's (Domain.md,
/// "Changes of holders").
struct TransferEvidence {
    /// Transfers other than by a restore, and native webhooks.
    private var shown: [Timeline.Transfer] = []
    /// The pairs of which a restore shows a transfer.
    private var restored: Set<Timeline.Pair> = []
    /// New transfers of pairs for which a restore shows or showed one. They may be announced already or counted with
    /// the restore's, so no announcement dates them.
    private(set) var added: [Timeline.Transfer] = []

    /// Nothing is known.
    init() {}

    /// Of one state; `added` is empty, because that takes two.
    /// - Parameter timeline: of the state.
    init(_ state: PurchaseState, _ timeline: Timeline) {
        let unrestored = timeline.unrestored
        shown = unrestored
        shown += state.natives.map { Timeline.Transfer(pair: $0.pair, at: $0.at) }
        // Whoever else the purchase passes from to the new holder at that time loses it by the restore, too.
        if unrestored.count < timeline.transfers.count {
            restored = Set(timeline.transfers.filter { !unrestored.contains($0) }.map(\.pair))
        }
    }

    /// - Parameters:
    ///   - after: of the next state.
    ///   - before: of the state before.
    init(_ next: PurchaseState, _ after: Timeline, since state: PurchaseState, _ before: Timeline) {
        self.init(next, after)
        // A restore is a move, and most purchases have none.
        if state.moves.isEmpty, next.moves.isEmpty { return }
        let former = TransferEvidence(state, before)
        let pairs = restored.union(former.restored)
        if pairs.isEmpty { return }
        added = shown.filter { pairs.contains($0.pair) && !former.shown.contains($0) }
    }

    /// Since when the old holder of an announced transfer is the new one. The webhook that shows the transfer may have
    /// another time, depending on the order of arrival.
    /// - Parameter time: what to return if nothing that is kept shows a transfer between the two.
    /// - Returns: nil if a restore shows one: what else is new between the two is `added`, and what is older may be a
    ///   restore, too, that became part of the facts (`PurchaseState.settle`).
    func linkTime(of pair: Timeline.Pair, unshown time: Timestamp?) -> Timestamp? {
        if restored.contains(pair) { return nil }
        return shown.filter { $0.pair == pair }.map(\.at).max() ?? time
    }
}
