package import Vocabulary

/// Decides who held a purchase when, and which transfers follow: one pure function, no SQL, no clock, no network.
///
/// A webhook is a fact about a holder at an event time. Facts arrive in any order, twice, late or never; the result
/// depends on the set alone (I1 to I3). The rules, which Domain.md, "Transfers", explains with timelines:
///
/// - Points are times at which somebody holds the purchase: each gain; and `Limits.ungrantedTenureMilliseconds` (60 s)
///   before a loss that nothing known of its holder explains, i.e. no earlier fact of that holder states a period that
///   lasts to that point (a REVOKED loss makes none). Runs of one holder among the points are its tenures: by time;
///   ties by who has the first loss within 60 s from then on, then anonymous first, then by id. A tenure without a
///   gain is ungranted: it can pass a purchase on, never receive it.
/// - A tenure of U directly after one of H is a transfer H→U if the period known of H reaches U's first gain: the
///   latest `until` among H's facts up to it, a loss counting up to 60 s after it (the webhooks of one transfer have
///   times of their own). REVOKED takes back all that was stated before it. Otherwise it is a new start. Two tenures
///   that begin at one time are a transfer only once a loss of H within 60 s says which was first, or if a move has
///   that time. A move's loss does not say it: the move is the transfer.
/// - The number of transfers H→U is the largest of these three: such changes and moves, distinct TRANSFERRED, distinct
///   RECEIVED.
///
/// What is known of a holder only grows, with REVOKED as the one exception: neither the newest fact alone nor "the last
/// tenure known by then" may decide, or I1 fails (Domain.md, "Two rules that are easy to get wrong").
///
/// A statement about holders as such (a login, a platform's TRANSFER) is kept with the purchase and judged with each
/// fact anew (`KeptMove`). So is a fact of an event that names no account (`NamelessFact`).
///
/// What can void a transfer is in `VoidedTransfer.Reason`: what was announced stays, and the count is corrected.
package enum TransferResolution {
    /// Resolves one fact. Only tests call it: a webhook may state several.
    /// - Parameters:
    ///   - state: what is known of this purchase.
    ///   - fact: what one webhook states; never a duplicate, whose event key was resolved before.
    ///   - kind: of a one-time purchase, only native webhooks and moves move anything (I3).
    ///   - mayLackName: whether events of the purchase's source may name no account.
    /// - Returns: the new state, and what follows.
    package static func resolve(
        _ state: PurchaseState, _ fact: Fact, kind: Purchase.Kind, mayLackName: Bool = false
    ) -> Resolution {
        resolve(state, [fact], moves: [], kind: kind, mayLackName: mayLackName)
    }

    /// Resolves the facts of one webhook together with the stored changes of holders that reach the purchase with them:
    /// counted once, so that nothing is announced that a change known already shows not to have happened.
    static func resolve(
        _ state: PurchaseState, _ facts: [Fact], moves: [KeptMove], kind: Purchase.Kind, mayLackName: Bool = false
    ) -> Resolution {
        let readings = facts.map { FactReading($0, kind: kind) }
        let counted = readings.filter { $0.isCounted(in: state) }.map { $0.unsettled(in: state) }
        let before = state == PurchaseState() ? Timeline() : Timeline(state)
        var next = state
        if mayLackName { next.expectNameless() }
        for reading in counted { next.record(reading) }
        for move in moves { next.insert(move) }
        let after = Timeline(next)
        let verdict = next.count(before: before, after: after, readings: counted)
        let evidence = TransferEvidence(next, after, since: state, before)
        let forgotten = next.compact(after)

        var access = after.access(insteadOf: before)
        for register in forgotten { access[register.holder] = Access(isActive: false, asOf: register.at) }
        let isPassedOn =
            readings.first.map { $0.isCounted(in: state) && $0.native == nil } ?? true
            || verdict.announced.contains { $0.native != nil }
        return Resolution(
            state: next, announced: verdict.announced, isPassedOn: isPassedOn, access: access, voids: verdict.voids,
            evidence: evidence)
    }

    /// The state with the facts of a webhook, before anything is counted: what stored changes are judged by.
    static func recording(
        _ facts: [Fact], in state: PurchaseState, kind: Purchase.Kind, mayLackName: Bool = false
    ) -> PurchaseState {
        var next = state
        if mayLackName { next.expectNameless() }
        for fact in facts {
            let reading = FactReading(fact, kind: kind)
            if reading.isCounted(in: state) { next.record(reading.unsettled(in: state)) }
        }
        return next
    }

    /// The move that a change of holders makes of one purchase.
    ///
    /// - Returns: nil if it can make none by what is known, or is known already.
    static func move(_ change: HolderChangeRow, in state: PurchaseState) -> KeptMove? {
        guard let move = KeptMove(change), !state.isSettled(move), !state.moves.contains(move),
            !state.canNeverCount(move)
        else { return nil }
        var next = state
        next.insert(move)
        // A restore names no old holder, so that any fact can give it effect; a link says whose later facts are.
        return move.from == nil || state.isLink(move) || next.effects.contains { $0.move == move } ? move : nil
    }

    /// Whether a change would move the purchase, had it come before what is newer became settled.
    static func comesTooLate(_ change: HolderChangeRow, in state: PurchaseState) -> Bool {
        guard let move = KeptMove(change), state.comesTooLate(move), !state.factsShow(move) else { return false }
        var next = state
        next.insert(move)
        return next.effects.contains { $0.move == move }
    }

    /// Converts the state of a purchase once a webhook says that it is a one-time purchase, after others were read as
    /// those of a subscription: no tenures, and every statement counts by itself. The result is the same as if it had
    /// been said first (I1), except for announced transfers that followed from tenures: those are voided and logged.
    static func oneTime(_ state: PurchaseState) -> Resolution {
        let before = Timeline(state)
        var next = state.freeOfTenures()
        let after = Timeline(next)
        let verdict = next.count(before: before, after: after, readings: [])
        let evidence = TransferEvidence(next, after, since: state, before)
        _ = next.compact(after)
        return Resolution(
            state: next, announced: verdict.announced, isPassedOn: true, access: after.access(insteadOf: before),
            voids: verdict.voids, evidence: evidence)
    }
}

/// The result of one webhook.
package struct Resolution: Sendable {
    package let state: PurchaseState
    /// In the order of announcement: by the times at which the purchase passed on.
    package let announced: [AnnouncedTransfer]
    /// Whether the event itself is a message; false only for a native transfer webhook that announces nothing new.
    package let isPassedOn: Bool
    /// The access of every holder with a register afterwards; the caller finds what changed.
    package let access: [Holder: Access]
    package let voids: [VoidedTransfer]
    /// Under exclusive ownership: what shows the transfers.
    var evidence = TransferEvidence()
}

/// The n-th transfer from one holder to another. Its id is made from (purchase, from, to, ordinal), never from a time.
package struct AnnouncedTransfer: Sendable, Hashable {
    package enum Native: Sendable { case transferred, received }

    package let from: Holder
    package let to: Holder
    /// Counted from 1 for each ordered pair of holders.
    package let ordinal: Int
    /// The message of the two that the event at hand is itself; nil: both are derived.
    package let native: Native?
}

/// Whether a holder may use the purchase.
package struct Access: Sendable, Hashable {
    package let isActive: Bool
    /// Event time of the holder's register.
    package let asOf: Timestamp
}

/// A transfer that was announced and is now void: what was sent stays, one void is added and logged.
package struct VoidedTransfer: Sendable, Hashable {
    package enum Reason: Sendable, Hashable {
        /// A late fact shows that this third holder had it between the two.
        case thirdHolder(Holder)
        /// A REVOKED arrived late: the old holder's period had ended before the new one's began.
        case revoked
        /// A late fact shows another course between the same two holders: that a login or a platform's TRANSFER moved
        /// nothing (`KeptMove`), that a nameless fact was of the new holder already, or that it is a one-time purchase.
        /// Anything else takes lost webhooks, transfers less than two minutes apart, or a history beyond the limits of
        /// `PurchaseState`.
        case rearranged
    }

    package let reason: Reason
    package let from: Holder
    package let to: Holder
    /// Transfers of this pair that the fact at hand voids.
    package let count: Int
}

extension PurchaseState {
    struct Verdict {
        var announced: [AnnouncedTransfer] = []
        var voids: [VoidedTransfer] = []
    }

    /// Compares the number of transfers of each pair with what was announced, announces the missing ones and voids
    /// those that no longer hold.
    ///
    /// - Parameter readings: what was recorded in between.
    mutating func count(before: Timeline, after: Timeline, readings: [FactReading]) -> Verdict {
        var verdict = Verdict()
        var raised: [(index: Int, transfers: [AnnouncedTransfer])] = []
        for pair in pairs(before, after, readings) {
            let index = indexOfEntry(pair)
            restore(at: index, after)
            raise(at: index, after, readings)
            let number = number(at: index, after)
            let expected = number + announced[index].voided.count
            if expected > announced[index].lastOrdinal {
                let place = after.lastIndex(of: pair) ?? .max
                raised.append(
                    (place, transfers(of: pair, after: announced[index].lastOrdinal, upTo: expected, readings)))
                announced[index].lastOrdinal = expected
            } else if expected < announced[index].lastOrdinal {
                verdict.voids.append(void(at: index, number: number, before, after, readings))
            }
        }
        // A native without a change of tenure comes last; the sort is stable for those.
        raised.sort { $0.index < $1.index }
        verdict.announced = raised.flatMap(\.transfers)
        return verdict
    }

    /// The number of transfers of the pair: the largest of the three counts.
    private func number(at index: Int, _ timeline: Timeline) -> Int {
        let entry = announced[index]
        var transferred = entry.settledTransferred
        var received = entry.settledReceived
        for native in natives where native.pair == entry.pair {
            switch native.kind {
            case .transferred: transferred += 1
            case .received: received += 1
            }
        }
        return max(timeline.count(of: entry.pair) + entry.settledChanges, transferred, received)
    }

    /// Raises the number of transfers of the pair to what was stated of it, as if so many RECEIVED were settled.
    private mutating func raise(at index: Int, _ timeline: Timeline, _ readings: [FactReading]) {
        let pair = announced[index].pair
        let stated = readings.compactMap(\.passed).filter { $0.pair == pair }.map(\.times).max()
        guard let stated = stated.map({ $0 - announced[index].voided.count }), stated > number(at: index, timeline)
        else { return }
        announced[index].settledReceived = stated - natives.count { $0.pair == pair && $0.kind == .received }
    }

    private func transfers(
        of pair: Timeline.Pair, after announced: Int, upTo expected: Int, _ readings: [FactReading]
    ) -> [AnnouncedTransfer] {
        let webhook = readings.lazy.compactMap(\.native).first { $0.pair == pair }
        return ((announced + 1)...expected).map { ordinal in
            var native: AnnouncedTransfer.Native?
            if ordinal == announced + 1, let webhook {
                native = webhook.kind == .transferred ? .transferred : .received
            }
            return AnnouncedTransfer(from: pair.from, to: pair.to, ordinal: ordinal, native: native)
        }
    }

    // MARK: Voids

    /// Restores voided transfers that the facts show again: they are the announced ones, not new ones.
    private mutating func restore(at index: Int, _ timeline: Timeline) {
        let entry = announced[index]
        if entry.voided.isEmpty { return }
        announced[index].voided.removeAll { time in
            timeline.transfers.contains(Timeline.Transfer(pair: entry.pair, at: time))
        }
    }

    private mutating func void(
        at index: Int, number: Int, _ before: Timeline, _ after: Timeline, _ readings: [FactReading]
    ) -> VoidedTransfer {
        let entry = announced[index]
        let time = readings.map(\.at).max() ?? before.transfers.last?.at ?? Timestamp(milliseconds: 0)
        let missing = entry.lastOrdinal - number - entry.voided.count
        var gone = before.transfers.filter { transfer in
            transfer.pair == entry.pair && !after.transfers.contains(transfer)
        }.map(\.at)
        // Transfers that nothing shows are settled at once beyond what can be kept: a count has no other bound.
        let unshown = max(missing - gone.count, 0)
        gone += Array(repeating: time, count: min(unshown, Self.voidedMax))
        let voided = gone.suffix(missing)
        let all = (entry.voided + voided).sorted()
        announced[index].voided = all.suffix(Self.voidedMax)
        // Settled permanently: no fact will restore these.
        announced[index].settle(missing - voided.count + all.count - announced[index].voided.count)
        let reason = reason(from: entry.from, to: entry.to, at: voided.last ?? time, after, readings)
        return VoidedTransfer(reason: reason, from: entry.from, to: entry.to, count: missing)
    }

    private func reason(
        from: Holder, to: Holder, at time: Timestamp, _ after: Timeline, _ readings: [FactReading]
    ) -> VoidedTransfer.Reason {
        if let between = after.predecessor(of: to, at: time), between != from, between != to {
            return .thirdHolder(between)
        }
        return readings.contains { $0.isRevoked } ? .revoked : .rearranged
    }

    // MARK: Merging

    /// Adds a pair that may exist already under another holder's former name; numbering continues from the higher of
    /// the two.
    mutating func merge(_ other: AnnouncedPair) {
        let count = announced.count
        let index = indexOfEntry(other.pair)
        guard announced.count == count else { return announced[index] = other }
        let known = announced[index]
        announced[index] = AnnouncedPair(
            from: known.from, to: known.to, lastOrdinal: max(known.lastOrdinal, other.lastOrdinal),
            voided: Set(known.voided + other.voided).sorted().suffix(Self.voidedMax),
            settledChanges: known.settledChanges + other.settledChanges,
            settledTransferred: known.settledTransferred + other.settledTransferred,
            settledReceived: known.settledReceived + other.settledReceived)
    }

    /// Makes the count of each pair equal to its number, so that what facts with new names show is neither announced
    /// again nor voided.
    mutating func settleNumbers() {
        let timeline = period == nil ? Timeline(self) : Timeline()
        for transfer in timeline.transfers { _ = indexOfEntry(transfer.pair) }
        for index in announced.indices {
            restore(at: index, timeline)
            announced[index].settle(
                announced[index].lastOrdinal - announced[index].voided.count - number(at: index, timeline))
        }
    }

    // MARK: Pairs

    /// The pairs whose number this webhook may have changed.
    private func pairs(_ before: Timeline, _ after: Timeline, _ readings: [FactReading]) -> [Timeline.Pair] {
        var pairs = after.pairs(differingFrom: before)
        var stated = readings.compactMap(\.native?.pair) + readings.compactMap(\.passed?.pair)
        // A version before kept restores and gave some no effect, so that it announced nothing: those of purchases
        // without tenures, and of subscriptions those to an install that the purchase knows or while it was unpaid.
        // Where nobody has the purchase any more, a receiver would only take what is announced now for access.
        let restored = mayLackName ? after.restored.map(\.pair) : []
        if !restored.isEmpty, after.access.values.contains(where: \.isActive) { stated += restored }
        for pair in stated where !pairs.contains(pair) { pairs.append(pair) }
        return pairs
    }

    /// The index of the pair's entry; a new one starts after the forgotten ones, so that its numbers are new.
    mutating func indexOfEntry(_ pair: Timeline.Pair) -> Int {
        var (low, high) = (announced.startIndex, announced.endIndex)
        while low < high {
            let middle = (low + high) / 2
            if (announced[middle].from, announced[middle].to) < (pair.from, pair.to) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        if low < announced.endIndex, announced[low].pair == pair { return low }
        announced.insert(newEntry(of: pair), at: low)
        return low
    }

    /// The pair's entry, or the one that it would begin with.
    func entry(of pair: Timeline.Pair) -> AnnouncedPair { announced.first { $0.pair == pair } ?? newEntry(of: pair) }

    private func newEntry(of pair: Timeline.Pair) -> AnnouncedPair {
        AnnouncedPair(
            from: pair.from, to: pair.to, lastOrdinal: forgottenOrdinal, settledChanges: forgottenOrdinal,
            settledTransferred: forgottenOrdinal, settledReceived: forgottenOrdinal)
    }
}

extension AnnouncedPair {
    var pair: Timeline.Pair { Timeline.Pair(from: from, to: to) }

    /// Adds to each of the three counts.
    mutating func settle(_ count: Int) {
        settledChanges += count
        settledTransferred += count
        settledReceived += count
    }
}

extension KeptNative {
    var pair: Timeline.Pair { Timeline.Pair(from: from, to: to) }
}
