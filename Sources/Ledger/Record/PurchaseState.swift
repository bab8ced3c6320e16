package import Vocabulary

/// What Posthouse must remember of one purchase to judge the next webhook: a handful of facts, not its history.
///
/// Every list is kept in one canonical order and without repetition, so that equal knowledge is equal (`==`), whatever
/// its order of arrival. Two rules write it, depending on the source's ownership policy: `TransferResolution`
/// (exclusive) and `SharedOwnership` (shared); an erasure renames people in it.
package struct PurchaseState: Sendable, Equatable {
    /// Exclusive: gains and losses that make tenures; family-shared and one-time facts make none and are not here.
    /// Shared: the first gain of each holder that has a register.
    package internal(set) var facts: [KeptFact] = []
    /// Exclusive: distinct native transfer webhooks that name two holders. Shared: Posthouse's own, one for each holder
    /// that a restore took the running purchase from.
    package internal(set) var natives: [KeptNative] = []
    /// One last-writer-wins register for each holder ever named, under both policies.
    package internal(set) var registers: [Register] = []
    /// Exclusive: statements about holders as such that moved this purchase, by what was known then. What follows from
    /// them is not among the facts and registers, but computed (`EffectiveMoves`).
    package internal(set) var moves: [KeptMove] = []
    /// Exclusive: statements that are free of tenures and older than their holder's register. A move that arrives late is
    /// judged by them. Ascending.
    package internal(set) var earlier: [Register] = []
    /// What was announced, for each ordered pair of holders. Exclusive: the largest of three counts, and the voids.
    /// Shared: the natives.
    package internal(set) var announced: [AnnouncedPair] = []
    /// The highest number announced for any pair that was forgotten (`pairsMax`): a new pair is numbered above it, so
    /// that no transfer id is ever used twice.
    package internal(set) var forgottenOrdinal = 0

    /// Whether the purchase is running, for all of its holders at once: only under shared ownership.
    package internal(set) var period: Period?

    /// When the values were named that webhooks newer than that left out. The others were named by the newest webhook.
    var named: [Value: Timestamp] = [:]
    /// What a newer version added, as stored.
    var unknownLines: [UInt8] = []

    /// A purchase about which nothing is known.
    package init() {}

    /// Facts kept for one purchase. Beyond it the oldest is settled: its transfers stay counted, but no later webhook
    /// can pair with it any more. A purchase transferred in every billing period stays below it for years.
    package static let factsMax = 64
    /// Native webhooks kept for one purchase. Beyond it the oldest is only counted; neither it nor an older one is
    /// announced again.
    package static let nativesMax = 32
    /// Moves kept for one purchase. Beyond it the oldest becomes part of the facts: no later webhook takes it back.
    package static let movesMax = 32
    /// Statements older than their holder's register. Beyond it the oldest is dropped: a move before it that arrives
    /// late is judged without it.
    package static let earlierMax = 32
    /// Registers of one purchase, one for each holder. Beyond it the oldest without access is dropped, else the oldest.
    package static let registersMax = 256
    /// Pairs of holders of one purchase. Beyond it a pair that no kept fact concerns is merged into `forgottenOrdinal`.
    package static let pairsMax = 256
    /// Voided transfers remembered by time for one pair, so that a fact which restores one does not announce it again.
    package static let voidedMax = 8
    /// Bytes of a stored state, whatever its history, if its holders' ids have at most 64 bytes: the sum of the limits
    /// above.
    package static let bytesMax = 192 << 10
}

extension PurchaseState {
    /// Whether a purchase with several holders was last said to run or to have ended, by event time.
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
    /// `subscription_status` REVOKED: takes back every period stated up to its time.
    package let isRevoked: Bool
    package let kind: Kind
    /// How far the paid period is known to last. Gain: the stated end (`Int64.max` without one). Loss: the later of the
    /// stated end and its own time + `Limits.ungrantedTenureMilliseconds`. Revocation: just before its time. Facts that
    /// were compacted into this one have raised it.
    package internal(set) var until: Timestamp
}

extension KeptFact: Comparable {
    /// Orders by time; then by holder, anonymous first (the tie rule of tenures); then a revocation last.
    package static func < (left: KeptFact, right: KeptFact) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.holder != right.holder { return left.holder < right.holder }
        if left.isRevoked != right.isRevoked { return right.isRevoked }
        return left.kind.rawValue < right.kind.rawValue
    }

    /// Whether both state the same for the same instant. They may differ in `until`; they are then one fact with the
    /// later.
    func isSameStatement(as other: KeptFact) -> Bool {
        at == other.at && holder == other.holder && isRevoked == other.isRevoked && kind == other.kind
    }
}

/// A native transfer webhook. Two that agree in all fields are one: the same webhook sent under two event ids.
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
    /// Stated by a family-shared event or for a one-time purchase: access does not follow tenures.
    package internal(set) var isTenureFree: Bool
}

extension Register: Comparable {
    /// Orders by time, then by content: never by arrival.
    package static func < (left: Register, right: Register) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.holder != right.holder { return left.holder < right.holder }
        if left.isOn != right.isOn { return left.isOn }
        return !left.isTenureFree && right.isTenureFree
    }

    /// Whether the other statement about the same holder wins: the later one; on equal times the loss, then the one that
    /// is free of tenures.
    func yields(to other: Register) -> Bool {
        if at != other.at { return at < other.at }
        if isOn != other.isOn { return isOn }
        return !isTenureFree && other.isTenureFree
    }
}

/// The transfers announced from one holder to another, and the counts whose facts are not kept any more.
package struct AnnouncedPair: Sendable, Hashable {
    package let from: Holder
    package let to: Holder
    /// The ordinal of the last transfer announced; all from 1 to it were.
    package internal(set) var lastOrdinal: Int
    /// Times of transfers that were announced and later turned out not to have happened (the exceptions of I1),
    /// ascending.
    package internal(set) var voided: [Timestamp] = []
    /// Changes of tenure, TRANSFERRED and RECEIVED whose facts are no longer kept, added to what the kept facts show.
    /// Negative: what is kept shows more than there was.
    package internal(set) var settledChanges: Int
    package internal(set) var settledTransferred: Int
    package internal(set) var settledReceived: Int
}
