import Vocabulary

/// What shows the transfers of a purchase, for what they say of its old holders: an anonymous one from whom it passes
/// to a user is that user from then on, unless a restore passed it on, which takes what was somebody else's (Domain.md,
/// "Changes of holders").
struct TransferEvidence {
    /// Passings other than by a restore, and native webhooks.
    private var shown: [Timeline.Passing] = []
    /// The pairs of which a restore shows a transfer.
    private var restored: Set<Timeline.Pair> = []
    /// What is new of pairs of which a restore had shown a transfer: it may be that very transfer, which is not
    /// announced again.
    private(set) var added: [Timeline.Passing] = []

    /// Nothing is known.
    init() {}

    /// - Parameters:
    ///   - timeline: of the state.
    ///   - before: of the state before; empty: nothing is added.
    init(_ state: PurchaseState, _ timeline: Timeline, since before: TransferEvidence = TransferEvidence()) {
        shown = timeline.unrestored + state.natives.map { Timeline.Passing(pair: $0.pair, at: $0.at) }
        restored = Set(timeline.restored.map(\.pair))
        if before.restored.isEmpty { return }
        added = shown.filter { before.restored.contains($0.pair) && !before.shown.contains($0) }
    }

    /// Since when the old holder of a transfer is the new one. The webhook that shows the transfer may have another
    /// time, depending on the order of arrival.
    /// - Parameter time: what to return if nothing that is kept shows a transfer between the two.
    /// - Returns: nil if only a restore shows one.
    func linkTime(of pair: Timeline.Pair, unshown time: Timestamp?) -> Timestamp? {
        if let newest = shown.filter({ $0.pair == pair }).map(\.at).max() { return newest }
        return restored.contains(pair) ? nil : time
    }
}
