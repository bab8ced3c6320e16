import Testing
import Vocabulary

@testable import Ledger

/// The state that a line of an export has, joined with the one that is known. Oracles: the laws of a join, and what the
/// webhooks give by themselves (`PlannedHistory`).
@Suite("Joining of states")
struct StateJoiningTests {
    private static let sources = ["shop", "store", "shared"]
    private static let histories = 12
    private static let length = 24

    private static func history(_ source: String, _ lateness: DrawnHistory.Lateness, _ number: Int) -> [Event] {
        var drawing = DrawnHistory(source, "PRODUCTION", lateness, seed: UInt64(number) * 1_000_003 + 17)
        return drawing.next(length)
    }

    /// The state of a purchase, as it is once it is known to be of this kind. When its values were named follows from
    /// its row.
    private static func state(_ history: PlannedHistory, _ purchase: String, _ kind: Purchase.Kind) -> PurchaseState {
        var state = history.state(of: purchase)
        if kind == .oneTime, history.kind(of: purchase) != .oneTime { state = TransferResolution.oneTime(state).state }
        state.valueTimes = [:]
        return state
    }

    private static func joined(
        _ other: PurchaseState, to state: PurchaseState, _ kind: Purchase.Kind, _ source: String
    ) -> PurchaseState {
        source == "shared"
            ? SharedOwnership.joining(other, to: state).state
            : TransferResolution.joining(other, to: state, kind: kind).state
    }

    private static func expectSame(
        _ one: PurchaseState, _ other: PurchaseState, _ what: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let (one, other) = (one.withoutRepeatedNames, other.withoutRepeatedNames)
        if one == other { return }
        let texts = [one, other].map { String(decoding: $0.bytes, as: UTF8.self).split(separator: "\n") }
        let (mine, theirs) = (Set(texts[0].dropFirst()), Set(texts[1].dropFirst()))
        Issue.record(
            "\(what): \(mine.subtracting(theirs).sorted()) instead of \(theirs.subtracting(mine).sorted())",
            sourceLocation: sourceLocation)
    }

    @Test(
        "A state joined with itself or with an older state of itself is itself, whichever comes first",
        arguments: sources)
    func older(_ source: String) {
        for number in 0..<Self.histories {
            let events = Self.history(source, .retried, number)
            let newest = PlannedHistory(events)
            for cut in [6, 12, 18, Self.length] {
                let prefix = PlannedHistory(Array(events.prefix(cut)))
                for purchase in prefix.purchases {
                    let kind = newest.kind(of: purchase)
                    let (old, new) = (Self.state(prefix, purchase, kind), Self.state(newest, purchase, kind))
                    let what = "history \(number) of \(source), \(purchase) after \(cut)"
                    Self.expectSame(Self.joined(old, to: new, kind, source), new, "\(what), joined to the newest")
                    Self.expectSame(Self.joined(new, to: old, kind, source), new, "\(what), joined with the newest")
                }
            }
        }
    }

    @Test(
        "States of different webhooks give the same in either order; joined again with one of them, nothing changes",
        arguments: sources)
    func different(_ source: String) {
        for number in 0..<Self.histories {
            var dice = Dice(state: UInt64(number))
            let events = Self.history(source, .retried, number)
            let whole = PlannedHistory(events)
            let parts = (0..<2).map { _ in PlannedHistory(events.filter { _ in dice.chance(60) }) }
            for purchase in whole.purchases {
                let kind = whole.kind(of: purchase)
                let states = parts.map { Self.state($0, purchase, kind) }
                let joined = Self.joined(states[1], to: states[0], kind, source)
                let what = "history \(number) of \(source), \(purchase)"
                Self.expectSame(
                    Self.joined(states[0], to: states[1], kind, source), joined, "\(what), in the other order")
                for state in states + [joined] {
                    Self.expectSame(Self.joined(state, to: joined, kind, source), joined, "\(what), again")
                    Self.expectSame(Self.joined(joined, to: state, kind, source), joined, "\(what), again, turned")
                }
            }
        }
    }

    @Test(
        "Three states give the same however they are joined, but for transfers that were announced and are void",
        arguments: sources)
    func three(_ source: String) {
        for number in 0..<Self.histories {
            var dice = Dice(state: UInt64(number))
            let events = Self.history(source, .within, number)
            let whole = PlannedHistory(events)
            let parts = (0..<3).map { _ in PlannedHistory(events.filter { _ in dice.chance(60) }) }
            for purchase in whole.purchases {
                let kind = whole.kind(of: purchase)
                let states = parts.map { Self.state($0, purchase, kind) }
                func joined(_ other: PurchaseState, to state: PurchaseState) -> PurchaseState {
                    Self.joined(other, to: state, kind, source)
                }
                let one = joined(states[2], to: joined(states[1], to: states[0]))
                let other = joined(joined(states[2], to: states[1]), to: states[0])
                Self.expectSame(
                    one.withoutVoids, other.withoutVoids, "history \(number) of \(source), \(purchase)")
            }
        }
    }

    @Test(
        "An export imported where it came from changes nothing, whatever has come since and comes after",
        arguments: sources, [DrawnHistory.Lateness.within, .retried])
    func again(_ source: String, _ lateness: DrawnHistory.Lateness) {
        for number in 0..<Self.histories {
            var dice = Dice(state: UInt64(number))
            let events = Self.history(source, lateness, number)
            let cut = Int.random(in: 1..<events.count, using: &dice)
            let lines = PlannedHistory(Array(events.prefix(cut))).lines.shuffled(using: &dice).map(\.event)
            let place = Int.random(in: cut...events.count, using: &dice)
            let (expected, found) = (PlannedHistory(events), PlannedHistory(events.inserting(lines, at: place)))
            let what = "history \(number) of \(source), \(lateness), after \(cut) imported after \(place)"
            #expect(found.lacking(expected) == [], "\(what), lacks \(expected.lacking(found))")
            #expect(expected.lacking(found) == [], "\(what)")
        }
    }

    @Test(
        "An export of some of the webhooks, imported in the midst of all, gives what all of them give",
        arguments: ["shop", "store"])
    func midst(_ source: String) {
        for number in 0..<Self.histories {
            var dice = Dice(state: UInt64(number))
            let events = Self.history(source, .within, number)
            let lines = PlannedHistory(events.filter { _ in dice.chance(60) }).lines.shuffled(using: &dice).map(\.event)
            let place = Int.random(in: 0...events.count, using: &dice)
            let (expected, found) = (PlannedHistory(events), PlannedHistory(events.inserting(lines, at: place)))
            for purchase in expected.purchases {
                let (one, other) = (found.state(of: purchase), expected.state(of: purchase))
                Self.expectSame(
                    one.withoutIdleMoves.withoutVoids, other.withoutIdleMoves.withoutVoids,
                    "history \(number), \(purchase) at \(place)")
                #expect(
                    found.active(purchase) == expected.active(purchase), "history \(number), \(purchase) at \(place)")
            }
        }
    }

    @Test("An export from before an erasure brings the person back; erased again, nobody has or is counted more")
    func erased() {
        let ann = [ErasedID(holder: .user("ann"), standIn: ErasedID.standIn("0123456789abcdef"))]
        for number in 0..<Self.histories {
            let events = Self.history("shop", .retried, number)
            let newest = PlannedHistory(events)
            let prefix = PlannedHistory(Array(events.prefix(12)))
            for purchase in prefix.purchases {
                let kind = newest.kind(of: purchase)
                let erased = Self.state(newest, purchase, kind).renaming(ann)
                let old = Self.state(prefix, purchase, kind)
                let again = Self.joined(old, to: erased, kind, "shop").renaming(ann)
                let what = "history \(number), \(purchase)"
                Self.expectSame(again.announcedAlone, erased.announcedAlone, what)
                let (found, expected) = (Timeline(again).access, Timeline(erased).access)
                #expect(found.filter(\.value.isActive).keys == expected.filter(\.value.isActive).keys, "\(what)")
            }
        }
    }
}

extension PurchaseState {
    /// With the numbers of transfers alone that are not void: what was announced depends on the order of arrival.
    fileprivate var withoutVoids: PurchaseState {
        var state = self
        state.announced = announced.compactMap { entry in
            let settled = min(entry.settledChanges, entry.settledTransferred, entry.settledReceived)
            let number = entry.lastOrdinal - entry.voided.count - settled
            if number == 0 { return nil }
            return AnnouncedPair(
                from: entry.from, to: entry.to, lastOrdinal: number, settledChanges: 0, settledTransferred: 0,
                settledReceived: 0)
        }
        return state
    }
}

extension PurchaseState {
    /// With the moves alone that take effect: which others are kept depends on what was known when they came.
    fileprivate var withoutIdleMoves: PurchaseState {
        var state = self
        state.moves = effects.map(\.move)
        return state
    }

    /// The ordinals alone.
    fileprivate var announcedAlone: PurchaseState {
        var state = PurchaseState()
        state.announced = announced.map { entry in
            AnnouncedPair(
                from: entry.from, to: entry.to, lastOrdinal: entry.lastOrdinal, settledChanges: entry.lastOrdinal,
                settledTransferred: 0, settledReceived: 0)
        }
        return state
    }
}

extension [Event] {
    fileprivate func inserting(_ events: [Event], at place: Int) -> [Event] {
        Array(prefix(place)) + events + Array(dropFirst(place))
    }
}
