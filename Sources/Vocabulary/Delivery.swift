/// One outbound statement: an event passed on, or a transfer message that Posthouse derived. Its deliveries share it.
package final class Message: Sendable {
    /// Row of `messages`; ascending within a purchase in the order in which its messages are announced.
    package let row: Int64
    package let trail: MessageTrail
    package let purchase: Identifier?
    /// `{"type":…,"data":{…,"original":` – the standard payload up to the source's original.
    package let envelope: [UInt8]
    /// The webhook's body, byte for byte.
    package let original: [UInt8]
    /// For a derived message: the original as the source itself would have stated it, or the standard payload where
    /// only the vendor could. The latter also for a webhook from which a person was erased, so that it is not the
    /// vendor's any more.
    package let derivedBody: [UInt8]?
    /// What its holders had when it was recorded, a JSON array; nil: no integration with `include = ["access"]` asked
    /// for it then.
    package let access: [UInt8]?

    package init(
        row: Int64, id: String, eventID: String, type: String, source: String, transaction: String?,
        purchase: Identifier?, purchaseKey: String?, transferID: String?, envelope: [UInt8], original: [UInt8],
        derivedBody: [UInt8]?, access: [UInt8]? = nil
    ) {
        self.row = row
        trail = MessageTrail(
            id: id, eventID: eventID, type: type, source: source, transaction: transaction, purchaseKey: purchaseKey,
            transferID: transferID)
        self.purchase = purchase
        self.envelope = envelope
        self.original = original
        self.derivedBody = derivedBody
        self.access = access
    }

    package var id: String { trail.id }
    package var eventID: String { trail.eventID }
    package var type: String { trail.type }
    package var source: String { trail.source }
    package var transaction: String? { trail.transaction }
    package var purchaseKey: String? { trail.purchaseKey }
    package var transferID: String? { trail.transferID }

    /// The end of the standard payload, after the original.
    package static let envelopeEnd: [UInt8] = Array("}}".utf8)

    /// Bytes held in memory, counted against the limits of a lane.
    package var bytes: Int {
        envelope.count + original.count + (derivedBody?.count ?? 0) + (access?.count ?? 0)
    }

    /// `data.access`, between the original and the end of the payload: so the rest is the same for every integration.
    package var accessMember: [UInt8] { Array(#","access":"#.utf8) + (access ?? Array("null".utf8)) }
}

/// One message to one integration, leased by this daemon.
package struct Delivery: Sendable {
    /// Row of `deliveries`.
    package let id: Int64
    /// Row of `daemons` that holds its lease. The outcome is written only under this lease.
    package let lease: Int64
    package let integration: Int32
    package let message: Message
    /// Attempts made so far.
    package let attemptsMade: Int
    /// When the message was recorded, or queued by a replay or a backfill; `give_up_after` counts from here.
    package let createdAt: Timestamp

    /// - Parameter attemptsMade: below 0, as in a damaged row, it counts as 0.
    package init(
        id: Int64, lease: Int64, integration: Int32, message: Message, attemptsMade: Int, createdAt: Timestamp
    ) {
        self.id = id
        self.lease = lease
        self.integration = integration
        self.message = message
        self.attemptsMade = max(0, attemptsMade)
        self.createdAt = createdAt
    }
}

/// The parts of a delivery that settling needs: no body, because settlements may queue up while the database is down.
package struct SettledDelivery: Sendable {
    package let id: Int64
    package let lease: Int64
    package let integration: Int32
    /// Row of `messages`.
    package let message: Int64
    package let purchase: Identifier?
    package let attemptsMade: Int
    package let createdAt: Timestamp

    init(_ delivery: Delivery) {
        id = delivery.id
        lease = delivery.lease
        integration = delivery.integration
        message = delivery.message.row
        purchase = delivery.message.purchase
        attemptsMade = delivery.attemptsMade
        createdAt = delivery.createdAt
    }
}

/// The result of one attempt, to be written to the ledger.
package struct Settlement: Sendable {
    package enum Verdict: Sendable {
        case accepted
        case retry(after: Duration)
        /// A failed probe of an open breaker, for example: uses up no attempt of the schedule and changes nothing else.
        case postponed(after: Duration)
        /// Given up, with the reason that stays with the dead letter.
        case dead(reason: String)
        /// 410: the integration is paused and the delivery waits; uses up no attempt of the schedule.
        case paused(reason: String)

        /// Whether the verdict has a text that is written.
        package var hasText: Bool {
            switch self {
            case .dead, .paused: true
            case .accepted, .retry, .postponed: false
            }
        }
    }

    package let delivery: SettledDelivery
    package let verdict: Verdict
    package let httpStatus: Int?
    package let latencyMilliseconds: Int
    /// Why it was not accepted. Contains no secret and at most an excerpt of the response.
    package let failure: String?

    package init(
        delivery: Delivery, verdict: Verdict, httpStatus: Int?, latencyMilliseconds: Int, failure: String?
    ) {
        let given = Settlement(SettledDelivery(delivery), verdict, httpStatus, latencyMilliseconds, failure)
        self = given.changingTexts(Self.withoutNUL)
    }

    private init(
        _ delivery: SettledDelivery, _ verdict: Verdict, _ httpStatus: Int?, _ latencyMilliseconds: Int,
        _ failure: String?
    ) {
        self.delivery = delivery
        self.verdict = verdict
        self.httpStatus = httpStatus
        self.latencyMilliseconds = latencyMilliseconds
        self.failure = failure
    }

    // MARK: Texts

    /// PostgreSQL keeps no NUL in text.
    private static func withoutNUL(_ text: String) -> String {
        text.utf8.contains(0) ? String(String.UnicodeScalarView(text.unicodeScalars.filter { $0 != "\0" })) : text
    }

    /// A copy with each of its texts (the failure and the reason of the verdict) replaced by `change`.
    package func changingTexts(_ change: (String) -> String) -> Settlement {
        let changed: Verdict =
            switch verdict {
            case .accepted, .retry, .postponed: verdict
            case .dead(let reason): .dead(reason: change(reason))
            case .paused(let reason): .paused(reason: change(reason))
            }
        return Settlement(delivery, changed, httpStatus, latencyMilliseconds, failure.map(change))
    }

    /// A copy without text from a receiver, for a database that refuses such a text.
    package var withoutTexts: Settlement {
        changingTexts { _ in "the database refused the text of this failure" }
    }
}
