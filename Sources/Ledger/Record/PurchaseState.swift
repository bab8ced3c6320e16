package import Vocabulary

/// What the relay must remember of one purchase to judge the next webhook: a handful of facts, not its history.
///
/// Every list is kept in one canonical order and without repetition, so that equal knowledge is equal (`==`), whatever
/// order it came in. Two rules write it, as the source's ownership policy says: `TransferResolution` (exclusive) and
/// `SharedOwnership` (shared); an erasure renames people in it.
package struct PurchaseState: Sendable, Equatable {
    /// Exclusive: gains and losses that make tenures; family-shared and one-time facts make none and are not here.
    /// Shared: the first gain of each holder that has a register.
    package internal(set) var facts: [KeptFact] = []
    /// Exclusive: distinct native transfer webhooks that name two holders. Shared: the relay's own, one for each holder
    /// that a restore took the running purchase from.
    package internal(set) var natives: [KeptNative] = []
    /// One last-writer-wins register for each holder ever named. Both.
    package internal(set) var registers: [Register] = []
    /// What was told, for each ordered pair of holders. Exclusive: the largest of three counts and the voids. Shared:
    /// the natives.
    package internal(set) var told: [ToldPair] = []
    /// The highest number told of any pair that had to be forgotten (`pairsMax`): a new pair is numbered above it, so
    /// that no transfer id is ever used twice.
    package internal(set) var forgottenNumber = 0

    /// Whether the purchase is running, for all of its holders at once: of shared ownership alone.
    package internal(set) var period: Period?

    /// A purchase of which nothing is known.
    package init() {}

    /// Facts kept for one purchase. Beyond it the oldest is settled: what it gave rise to stays counted, but no later
    /// webhook can pair with it any more. A life of transfers in every billing period stays under it for years.
    package static let factsMax = 64
    /// Native webhooks kept for one purchase. Beyond it the oldest is only counted, and neither it nor what would come
    /// before it is told any more.
    package static let nativesMax = 32
    /// Holders of one purchase with a register. Beyond it the oldest without access goes, else the oldest.
    package static let registersMax = 256
    /// Pairs of holders of one purchase. Beyond it one that no kept fact speaks of goes into `forgottenNumber`.
    package static let pairsMax = 256
    /// Voided transfers remembered by time for one pair, so that a fact which restores one tells it no second time.
    package static let voidedMax = 8
    /// Bytes of a stored state whose holders' ids have 64 bytes or less, whatever its history: what the limits above
    /// add up to.
    package static let bytesMax = 192 << 10
}

extension PurchaseState {
    /// Whether a purchase that several hold together was last said to run or to have ended, by event time.
    package struct Period: Sendable, Hashable {
        package let at: Timestamp
        package let isOn: Bool
    }
}

/// A gain or a loss, as far as later webhooks can still depend on it.
package struct KeptFact: Sendable, Hashable {
    package enum Kind: Int, Sendable { case gain, loss }

    package let at: Timestamp
    package let holder: Holder
    /// `subscription_status` REVOKED: takes back every period stated up to here.
    package let isRevoked: Bool
    package let kind: Kind
    /// How far the paid period is known to last: of a gain the stated end (`Int64.max` without one), of a loss the
    /// later of the stated end and its own time + `Limits.ungrantedTenureMilliseconds`, of a revocation just before its
    /// time. Facts that were compacted into this one have raised it.
    package internal(set) var until: Timestamp
}

extension KeptFact: Comparable {
    /// By time; then by holder, anonymous first (the tie rule of tenures); then a revocation last.
    package static func < (left: KeptFact, right: KeptFact) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.holder != right.holder { return left.holder < right.holder }
        if left.isRevoked != right.isRevoked { return right.isRevoked }
        return left.kind.rawValue < right.kind.rawValue
    }

    /// Whether both say the same of the same instant; they may differ in `until` and are then one fact with the later.
    func isSameStatement(as other: KeptFact) -> Bool {
        at == other.at && holder == other.holder && isRevoked == other.isRevoked && kind == other.kind
    }
}

/// A native transfer webhook. Two are one if they agree in all of this: the same webhook sent under two event ids.
package struct KeptNative: Sendable, Hashable, Comparable {
    package enum Kind: Int, Sendable { case transferred, received }

    package let at: Timestamp
    package let kind: Kind
    package let from: Holder
    package let to: Holder

    package static func < (left: KeptNative, right: KeptNative) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
        if left.from != right.from { return left.from < right.from }
        return left.to < right.to
    }
}

/// Whether one holder was last given or last denied the purchase, by event time.
package struct Register: Sendable, Hashable {
    package let holder: Holder
    package internal(set) var at: Timestamp
    package internal(set) var isOn: Bool
    /// Stated by a family-shared event or of a one-time purchase: access does not follow tenures.
    package internal(set) var isTenureFree: Bool
}

/// What was told of the transfers from one holder to another, and what stands behind it without being kept as facts.
package struct ToldPair: Sendable, Hashable {
    package let from: Holder
    package let to: Holder
    /// The n of the last transfer told; 1…n were.
    package internal(set) var number: Int
    /// When transfers took place that were told and have since turned out not to be (the exceptions of I1), ascending.
    package internal(set) var voided: [Timestamp] = []
    /// Changes of tenure, TRANSFERRED and RECEIVED whose facts are no longer kept (or, below zero, are shown by what is
    /// kept in their place): added to what the kept facts show.
    package internal(set) var settledChanges: Int
    package internal(set) var settledTransferred: Int
    package internal(set) var settledReceived: Int
}
