/// How long access goes on past its stated end while no webhook says what became of the purchase: `leeway` of a
/// `[[source]]`. A stated end includes grace; a renewal often comes only after it.
package enum Leeway: Sendable, Hashable {
    /// Only webhooks end access.
    case off
    /// Milliseconds, 0 or more.
    case lasting(Int64)

    /// Where neither the source nor its kind says it: 24 h.
    package static let usual = Leeway.lasting(86_400_000)
    /// Of what the app's backend granted (`Purchase.manualStore`): no webhook is awaited.
    package static let none = Leeway.lasting(0)

    /// - Parameter duration: 0 or more.
    package init(_ duration: Duration) { self = .lasting(duration.wholeMilliseconds) }

    /// Nil: off.
    package var milliseconds: Int64? {
        switch self {
        case .off: nil
        case .lasting(let milliseconds): milliseconds
        }
    }
}

/// What is answered of somebody's access to a purchase at a time: by what the ledger says, and by the end that was
/// stated last. Nothing stored changes because time passes, so that a webhook which comes late is judged as if it had
/// come in time (Domain.md, "Ends by the clock").
package struct TimedAccess: Sendable, Hashable {
    /// What the webhooks say.
    package let isGranted: Bool
    /// The end of the purchase's newest transaction, grace included; nil: none is stated.
    package let until: Timestamp?
    package let leeway: Leeway
    /// Whether the platform has a word to say of the end: not of what the app's backend granted.
    package let isWordDue: Bool

    /// - Parameters:
    ///   - store: of the purchase.
    ///   - leeway: of the purchase's source.
    package init(isGranted: Bool, until: Timestamp?, store: String, leeway: Leeway) {
        let isManual = store.utf8.elementsEqual(Purchase.manualStore.utf8)
        self.isGranted = isGranted
        self.until = until
        self.leeway = isManual ? .none : leeway
        isWordDue = !isManual
    }

    /// When access is over if nothing further comes; nil: never, or nobody has it.
    package var lapsesAt: Timestamp? {
        guard isGranted, let until, let leeway = leeway.milliseconds else { return nil }
        return until.advanced(byMilliseconds: leeway)
    }

    package func isActive(at now: Timestamp) -> Bool { isGranted && (lapsesAt.map { now < $0 } ?? true) }

    /// Whether the stated end has passed, and no webhook has said that the purchase was renewed or ended.
    package func isOverdue(at now: Timestamp) -> Bool { isGranted && isWordDue && (until.map { $0 <= now } ?? false) }
}
