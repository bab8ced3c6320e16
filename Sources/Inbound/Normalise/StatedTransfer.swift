package import Vocabulary

/// Who gives a purchase and who gets it, as one event states it. An event that names only who has a purchase states no
/// transfer, though one may follow from it.
package struct StatedTransfer: Hashable, Sendable {
    /// Empty: the event does not name them.
    package let givers: [Holder]
    /// Nil: the event does not name the new holder.
    package let receiver: Holder?
    /// Whether it is a transfer only where the source has `merge = true`.
    package let needsMerge: Bool

    /// Nil where the event states none.
    package init?(_ event: Event) {
        if let fact = event.facts.first(where: { $0.kind == .transferred || $0.kind == .received }) {
            let other = fact.counterpart.map { [$0] } ?? []
            givers = fact.kind == .transferred ? [fact.holder] : other
            receiver = fact.kind == .transferred ? other.first : fact.holder
            needsMerge = false
        } else if case .move(let from, let to, let isNative)? = event.change {
            givers = from
            receiver = to
            needsMerge = !isNative
        } else {
            return nil
        }
    }
}

/// What the holder of a sample is in an event that states a transfer, for the help of `posthouse send`.
package struct SampleTransfer: Sendable {
    package enum Role: Sendable {
        /// The holder gives, the counterpart gets.
        case gives
        /// The holder gets, the counterpart gives.
        case gets
        /// The anonymous one of both gives, the user gets, if the source has `merge = true`.
        case logsIn
    }

    package let eventName: String
    package let role: Role

    /// The native events of a transfer and their twins.
    static let native = [
        SampleTransfer(eventName: "SUBSCRIPTION_TRANSFERRED", role: .gives),
        SampleTransfer(eventName: "SUBSCRIPTION_RECEIVED", role: .gets),
        SampleTransfer(eventName: "ONE_TIME_PURCHASE_TRANSFERRED", role: .gives),
        SampleTransfer(eventName: "ONE_TIME_PURCHASE_RECEIVED", role: .gets),
    ]
}
