/// What one webhook states about who holds a purchase. Built by the source's own file, judged by TransferResolution.
package struct Fact: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// ACTIVATE: `holder` has the purchase.
        case gain
        /// DEACTIVATE: `holder` no longer has the purchase.
        case loss
        /// A native SUBSCRIPTION_TRANSFERRED / ONE_TIME_PURCHASE_TRANSFERRED: a webhook about the old holder.
        case transferred
        /// A native SUBSCRIPTION_RECEIVED / ONE_TIME_PURCHASE_RECEIVED: a webhook about the new holder.
        case received
        /// A line of an import: `holder` has received the purchase from `counterpart` so many times by then.
        case passed(times: Int)
        /// `holder` is the account behind the purchase, whether it runs or not: facts that name no account are of this
        /// holder from then on.
        case naming
        /// The store has `holder` as the account behind the purchase, and repeats it in each event, also where the app
        /// has passed the purchase on since. So it is news only where it is not what the store said before; then it
        /// counts as a naming does, and also against whoever has the purchase.
        case said
    }

    package let kind: Kind
    /// The holder that the webhook is about: the old one for `transferred`, the new one for `received`.
    package let holder: Holder
    /// The other side of a native transfer, where the webhook names one.
    package let counterpart: Holder?
    /// Event time (`event_created_at_ms`): the only thing that orders facts.
    package let at: Timestamp
    /// `effective_next_renewal_at`: end of the paid period. Absent: no end.
    package let until: Timestamp?
    /// `subscription_status` REVOKED.
    package let isRevoked: Bool
    /// `is_family_shared` of this event.
    package let isFamilyShared: Bool
    /// The id of the plan that a gain begins or a loss ends, from a vendor that ends a plan which was left for another
    /// one by a loss of the whole purchase (Purchasely, docs.purchasely.com/docs/entitlement-events, DEACTIVATE: "a
    /// subscription ends because of a plan change"). Nil: unknown, and a loss ends whatever there is.
    package let plan: String?
    /// False: the event names no account, and `holder` is an anonymous one of the purchase's own. The fact is that of
    /// whoever was named last at or before it; only while nobody is, that of `holder`.
    package let isNamed: Bool
    /// Whether the loss ends its holder's access and says nothing of the purchase. The holder is an alias of the
    /// customer, and may never have had the purchase.
    package let endsAccessOnly: Bool
    /// Whether the app gave the own holder (an install's token), and not the store: such a one goes before the others.
    package let isGiven: Bool

    package init(
        kind: Kind, holder: Holder, counterpart: Holder? = nil, at: Timestamp, until: Timestamp? = nil,
        isRevoked: Bool = false, isFamilyShared: Bool = false, plan: String? = nil, isNamed: Bool = true,
        endsAccessOnly: Bool = false, isGiven: Bool = false
    ) {
        self.kind = kind
        self.holder = holder
        self.counterpart = counterpart
        self.at = at
        self.until = until
        self.isRevoked = isRevoked
        self.isFamilyShared = isFamilyShared
        self.plan = plan
        self.isNamed = isNamed
        self.endsAccessOnly = endsAccessOnly
        self.isGiven = isGiven && !isNamed
    }
}

/// One webhook with a readable envelope, in the vocabulary that all sources share. A class, because it is passed on
/// more often than it is read, and has some thirty fields to copy.
package final class Event: Sendable {
    package let scope: Scope
    /// The vendor's own id of the event, where it sends one.
    package let vendorEventID: String?
    /// The vendor's own name of the event.
    package let name: String
    /// Purchasely's v3 name of the event: what `events` globs match, and the value of `type`.
    package let type: String
    /// Nil: the event names neither a purchase nor anybody.
    package let holder: Holder?
    /// `event_created_at_ms`.
    package let occurredAt: Timestamp
    /// Whether the vendor says that a repeated webhook has the same time.
    package let isTimeRepeated: Bool
    /// The time of what it states of its purchase and transaction: its own, or the time at which a vendor's API was
    /// asked.
    package let asOf: Timestamp
    /// Whether what it says of its transaction yields to what any other event says of it: the vendor repeats what was
    /// bought, and leaves out what has changed since, names the transaction alone, or speaks of a plan or a holder that
    /// the purchase may have left.
    package let yieldsTransaction: Bool
    /// The time of what it states of its transaction: before that of any other event, if it yields.
    package var transactionAsOf: Timestamp { yieldsTransaction ? Self.yieldedTransaction : asOf }
    /// The time of a transaction of which only yielding events have said something: none is known.
    package static let yieldedTransaction = Timestamp(milliseconds: 0)
    /// Whether the product and the plan that it names yield to what any other event names: they are those of a payment,
    /// or the ones before a change, which need not be in force, and not of the purchase.
    package let yieldsProduct: Bool
    /// The time of the product and the plan that it names: before that of any other event, if they yield.
    package var productAsOf: Timestamp { yieldsProduct ? Timestamp(milliseconds: 0) : asOf }
    /// Whether the vendor's event id is unique in its source, whatever the app and the environment: those are not known
    /// of it before a vendor's API was asked.
    package let isIDOfSource: Bool
    /// Absent where the envelope names no purchase.
    package let purchase: Purchase?
    package let transaction: Transaction?
    /// What it says of money, as a JSON object (posthouse-messages(7), "Money"); nil: nothing.
    package let money: [UInt8]?
    /// Whether the vendor calls a renewal like any other, also if it converts a trial: the ledger then gives it the
    /// type TRIAL_CONVERTED if the period before was one, as far as it knows.
    package let mayConvertTrial: Bool
    /// The type if the ledger knew the purchase before, as far as it knows then: the vendor does not say of what it is.
    /// Nil: `type`.
    package let typeIfKnown: String?
    /// The type if the purchase is paused, as far as the ledger knows then: the vendor calls the end of a pause a
    /// recovery like any other. Nil: `type`.
    package let typeIfPaused: String?
    /// What the event states about who holds the purchase; empty for a lifecycle event. More than one where the vendor
    /// names several holders of one purchase (shared access, an install and its identity).
    package let facts: [Fact]
    /// What the event states about holders beyond this one purchase.
    package let change: HolderChange?
    /// The users that its anonymous holders are known to be, as of the event time.
    package let links: [HolderLink]
    /// What a sealed body says, as a JSON object; nil: the body is not sealed.
    package let decoded: [UInt8]?
    /// What a vendor's API answered, stored beside the body; nil: none was asked.
    package let answer: [UInt8]?
    /// What the event presumes and says of the tokens by which its store names the purchase: its own, then those that
    /// it replaces. An event that does not fit what is recorded of them meanwhile is refused.
    package let tokens: [KnownToken]
    /// A line of an export: all that was known of who had the purchase; nil: it states `facts` alone.
    package let history: StatedHistory?
    /// What each webhook of the event repeats byte for byte; nil: the body.
    package let repeated: [UInt8]?
    /// Whether the app's backend states it by the API: what it means is not all in its body, so it cannot be read again
    /// from quarantine. What cannot be stored is refused, and the backend tries again.
    package let isOfBackend: Bool
    /// What a statement of the app's backend presumes of its purchase: the time of the newest statement about it, or
    /// the least time if there was none. If another one was recorded meanwhile, the event is refused. A restore that
    /// has passed the purchase on is none of them. Nil: it presumes nothing.
    package let presumedAsOf: Timestamp?
    /// When the request of a statement of the app's backend is answered 503, at the latest. Nothing of it is written
    /// after that, for the backend may have stated something else since; what hangs in the writes or in their COMMIT
    /// then may still be stored, as with any 503. Nil: it may be recorded whenever that succeeds.
    package let admittedUntil: ContinuousClock.Instant?
    /// The body, byte for byte as it was signed.
    package let body: [UInt8]

    package init(
        scope: Scope, vendorEventID: String?, name: String, type: String, holder: Holder?, occurredAt: Timestamp,
        isTimeRepeated: Bool = false, asOf: Timestamp? = nil, yieldsTransaction: Bool = false,
        yieldsProduct: Bool = false, isIDOfSource: Bool = false, purchase: Purchase?,
        transaction: Transaction?, money: [UInt8]? = nil, mayConvertTrial: Bool = false,
        typeIfKnown: String? = nil, typeIfPaused: String? = nil, facts: [Fact] = [], change: HolderChange? = nil,
        links: [HolderLink] = [],
        decoded: [UInt8]? = nil, answer: [UInt8]? = nil, tokens: [KnownToken] = [], history: StatedHistory? = nil,
        repeated: [UInt8]? = nil, isOfBackend: Bool = false, presumedAsOf: Timestamp? = nil,
        admittedUntil: ContinuousClock.Instant? = nil, body: [UInt8]
    ) {
        self.scope = scope
        self.vendorEventID = vendorEventID
        self.name = name
        self.type = type
        self.holder = holder
        self.occurredAt = occurredAt
        self.isTimeRepeated = isTimeRepeated
        self.asOf = asOf ?? occurredAt
        self.yieldsTransaction = yieldsTransaction
        self.yieldsProduct = yieldsProduct
        self.isIDOfSource = isIDOfSource
        self.purchase = purchase
        self.transaction = transaction
        self.money = money
        self.mayConvertTrial = mayConvertTrial
        self.typeIfKnown = typeIfKnown
        self.typeIfPaused = typeIfPaused
        self.facts = facts
        self.change = change
        self.links = links
        self.decoded = decoded
        self.answer = answer
        self.tokens = tokens
        self.history = history
        self.repeated = repeated
        self.isOfBackend = isOfBackend
        self.presumedAsOf = presumedAsOf
        self.admittedUntil = admittedUntil
        self.body = body
    }
}

extension Event {
    /// The same event, which states these of its purchase instead.
    package func replacing(purchase: Purchase?, transaction: Transaction?, facts: [Fact]) -> Event {
        copy(purchase, transaction, facts, admittedUntil)
    }

    /// The same event, with `admittedUntil`.
    package func admitted(until limit: ContinuousClock.Instant) -> Event { copy(purchase, transaction, facts, limit) }

    private func copy(
        _ purchase: Purchase?, _ transaction: Transaction?, _ facts: [Fact], _ admittedUntil: ContinuousClock.Instant?
    ) -> Event {
        Event(
            scope: scope, vendorEventID: vendorEventID, name: name, type: type, holder: holder, occurredAt: occurredAt,
            isTimeRepeated: isTimeRepeated, asOf: asOf, yieldsTransaction: yieldsTransaction,
            yieldsProduct: yieldsProduct, isIDOfSource: isIDOfSource, purchase: purchase, transaction: transaction,
            money: money, mayConvertTrial: mayConvertTrial, typeIfKnown: typeIfKnown, typeIfPaused: typeIfPaused,
            facts: facts, change: change, links: links, decoded: decoded, answer: answer, tokens: tokens,
            history: history, repeated: repeated, isOfBackend: isOfBackend, presumedAsOf: presumedAsOf,
            admittedUntil: admittedUntil, body: body)
    }

    /// The name of the events that lines of an import become: nothing is sent of them.
    package static let importName = "posthouse.import"

    package var isImport: Bool { name.utf8.elementsEqual(Self.importName.utf8) }
}

/// An authentic body without a readable envelope: kept byte for byte, acknowledged, never lost.
package struct QuarantinedBody: Sendable {
    package let source: String
    /// The error, for a person; never quotes the body.
    package let reason: String
    package let body: [UInt8]
    /// `Event.answer`.
    package let answer: [UInt8]?
    /// The vendor's own id of its event, as far as it is known: one that a header of the request gives is in no body.
    package let eventID: String?

    package init(source: String, reason: String, body: [UInt8], answer: [UInt8]? = nil, eventID: String? = nil) {
        self.source = source
        self.reason = reason
        self.body = body
        self.answer = answer
        self.eventID = eventID
    }
}
