package import Vocabulary

/// Decides who held a purchase when, and which transfers follow: one pure function, no SQL, no clock, no network.
///
/// A webhook is a fact about a holder at an event time. Facts arrive in any order, twice, late or never; the result
/// depends on the set alone (I1 to I3). The rules, which Domain.md, "Transfers", explains with timelines:
///
/// - Points are times at which somebody holds the purchase: each gain; and `Limits.ungrantedTenureMilliseconds` (60 s)
///   before a loss that nothing known of its holder explains, i.e. no earlier fact of that holder states a period that
///   lasts to that point (a REVOKED loss makes none). Runs of one holder among the points, by time, ties anonymous
///   first and then by id, are its tenures. A tenure without a gain is ungranted: it can pass a purchase on, never
///   receive it.
/// - A tenure of U directly after one of H is a transfer H→U if the period known of H reaches U's first gain: the
///   latest `until` among H's facts up to it, a loss counting up to 60 s after it (the webhooks of one transfer have
///   times of their own). REVOKED takes back all that was stated before it. Otherwise it is a new start.
/// - The number of transfers H→U is the largest of these three: such changes, distinct TRANSFERRED, distinct RECEIVED.
///
/// What is known of a holder only grows, with REVOKED as the one exception: neither the newest fact alone nor "the last
/// tenure known by then" may decide, or I1 fails (Domain.md, "Two rules that are easy to get wrong").
///
/// Only three things can void a transfer, and each gives a `Note`; what was announced stands and the count is
/// corrected.
package enum TransferResolution {
    /// Resolves one fact.
    /// - Parameters:
    ///   - state: what is known of this purchase.
    ///   - fact: what one webhook states; never a duplicate, whose event key was resolved before.
    ///   - kind: of a one-time purchase, only native webhooks move anything (I3).
    /// - Returns: the new state, and what follows.
    package static func resolve(_ state: PurchaseState, _ fact: Fact, kind: Purchase.Kind) -> Resolution {
        let reading = FactReading(fact, kind: kind)
        if reading.isIgnored || reading.native.map(state.isSettled) ?? false {
            let access = access(of: state, newest: Timeline(state.facts).newestGranted)
            return Resolution(state: state, told: [], isPassedOn: false, access: access, notes: [])
        }
        var next = state
        let before = Timeline(state.facts)
        next.record(reading)
        let after = Timeline(next.facts)
        let verdict = next.count(before: before, after: after, reading: reading)
        let forgotten = next.compact(after)

        var access = access(of: next, newest: after.newestGranted)
        for register in forgotten { access[register.holder] = Access(isActive: false, asOf: register.at) }
        let isPassedOn = reading.native == nil || verdict.told.contains { $0.native != nil }
        return Resolution(state: next, told: verdict.told, isPassedOn: isPassedOn, access: access, notes: verdict.notes)
    }

    /// The access of each holder: its register is on, and its access follows no tenure or it has the newest granted
    /// tenure.
    static func access(of state: PurchaseState, newest: Holder?) -> [Holder: Access] {
        var access: [Holder: Access] = [:]
        for register in state.registers {
            let isActive = register.isOn && (register.isTenureFree || register.holder == newest)
            access[register.holder] = Access(isActive: isActive, asOf: register.at)
        }
        return access
    }
}

/// The result of one webhook.
package struct Resolution: Sendable {
    package let state: PurchaseState
    /// In the order of announcement: by the times at which the purchase passed on.
    package let told: [ToldTransfer]
    /// Whether the event itself is a message; false only for a native transfer webhook that announces nothing new.
    package let isPassedOn: Bool
    /// The access of every holder with a register afterwards; the caller finds what changed.
    package let access: [Holder: Access]
    package let notes: [Note]
}

/// The n-th transfer from one holder to another. Its id is made from (purchase, from, to, ordinal), never from a time.
package struct ToldTransfer: Sendable, Hashable {
    package enum Native: Sendable { case transferred, received }

    package let from: Holder
    package let to: Holder
    /// Counted from 1 for each ordered pair of holders.
    package let n: Int
    /// The message of the two that the event at hand is itself; nil: both are derived.
    package let native: Native?
}

/// Whether a holder may use the purchase.
package struct Access: Sendable, Hashable {
    package let isActive: Bool
    /// Event time of the holder's register.
    package let asOf: Timestamp
}

/// A transfer that was announced and is now void: what was sent stands, one void is added and logged.
package struct Note: Sendable, Hashable {
    package enum Reason: Sendable, Hashable {
        /// A late fact shows that this third holder had it between the two.
        case thirdHolder(Holder)
        /// A REVOKED arrived late: the old holder's period had ended before the new one's began.
        case revoked
        /// A late fact shows another course between the same two holders. This takes lost webhooks, transfers less than
        /// two minutes apart, or a history beyond the limits of `PurchaseState`.
        case rearranged
    }

    package let reason: Reason
    package let from: Holder
    package let to: Holder
    /// Transfers of this pair that the fact at hand voids.
    package let count: Int
}
