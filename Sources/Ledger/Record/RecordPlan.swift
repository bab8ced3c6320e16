import Vocabulary

/// What a batch of new events means: every row that is to be written, and no SQL. Events are taken in order of
/// arrival; what they mean does not depend on it (TransferResolution, invariant I1).
struct RecordPlan {
    /// An event that the identities let through.
    struct New {
        /// Row of `events`.
        var row: Int64
        var key: Identifier
        var event: Event
        /// Level two of the identity, where the event names a purchase.
        var purchase: Identifier?

        init(row: Int64, key: Identifier, event: Event) {
            self.row = row
            self.key = key
            self.event = event
            purchase = event.purchase.map { Identity.purchase($0, in: event.scope) }
        }
    }

    /// A purchase as the table has it; of a new one everything is empty.
    struct PurchaseRow {
        var scope: Scope
        var purchase: Purchase
        var asOf: Timestamp
        var state: PurchaseState
        var isNew: Bool
    }

    struct TransactionRow {
        var purchase: Identifier
        var transaction: Transaction
        var asOf: Timestamp
        var asOfEvent: Identifier
    }

    struct EntitlementRow: Hashable {
        var holder: Holder
        var purchase: Identifier
    }

    struct TransferRow {
        var id: Identifier
        var purchase: Identifier
        var from: Holder
        var to: Holder
        var ordinal: Int
        var event: Int64
        var trail: TransferTrail
    }

    struct LinkKey: Hashable {
        var scope: Scope
        var holder: Holder
    }

    struct TransactionKey: Hashable {
        var purchase: Identifier
        /// As bytes: Swift's strings take different spellings of a letter for the same.
        var storeTransactionID: [UInt8]
    }

    struct MessageRow {
        var key: Identifier
        /// Index into `events`.
        var cause: Int
        var type: String
        var transfer: Identifier?
        var eventID: String
        var envelope: [UInt8]
        var derivedBody: [UInt8]?
    }

    private(set) var events: [New] = []
    private(set) var purchases: [Identifier: PurchaseRow]
    private(set) var touched: Set<Identifier> = []
    private(set) var transactions: [TransactionKey: TransactionRow] = [:]
    private(set) var entitlements: [EntitlementRow: Access] = [:]
    private(set) var transfers: [TransferRow] = []
    /// Anonymous holders and the users they are known to be: loaded, and learned here.
    private(set) var links: [LinkKey: (userID: String, asOf: Timestamp)]
    private(set) var learnedLinks: Set<LinkKey> = []
    private(set) var messages: [MessageRow] = []
    private(set) var notes: [Observation] = []

    private let shapes: [String: any SourceShape]

    init(
        purchases: [Identifier: PurchaseRow], links: [LinkKey: (userID: String, asOf: Timestamp)],
        shapes: [String: any SourceShape]
    ) {
        self.purchases = purchases
        self.links = links
        self.shapes = shapes
    }

    mutating func add(_ new: New) {
        let index = events.count
        events.append(new)
        guard let purchase = new.event.purchase, let id = new.purchase else { return passOn(index, transfer: nil) }
        note(purchase, id: id, of: new)
        note(new.event.transaction, purchase: id, of: new)
        guard let fact = new.event.fact, let row = purchases[id] else { return passOn(index, transfer: nil) }
        let resolution = TransferResolution.resolve(row.state, fact, kind: row.purchase.kind)
        purchases[id]?.state = resolution.state
        for (holder, access) in resolution.access {
            entitlements[EntitlementRow(holder: holder, purchase: id)] = access
        }
        tell(resolution, index: index, purchase: purchase, id: id)
    }

    // MARK: What is known of purchases and transactions

    private mutating func note(_ purchase: Purchase, id: Identifier, of new: New) {
        touched.insert(id)
        guard let known = purchases[id] else {
            purchases[id] = PurchaseRow(
                scope: new.event.scope, purchase: purchase, asOf: new.event.occurredAt, state: PurchaseState(),
                isNew: true)
            return
        }
        // Kind is settled by the first webhook: it decides how facts are judged, so it must not flip between them.
        guard new.event.occurredAt > known.asOf else { return }
        purchases[id]?.asOf = new.event.occurredAt
        purchases[id]?.purchase = Purchase(
            key: purchase.key, kind: known.purchase.kind, store: purchase.store,
            product: purchase.product ?? known.purchase.product, plan: purchase.plan ?? known.purchase.plan,
            subscriptionID: purchase.subscriptionID ?? known.purchase.subscriptionID)
    }

    private mutating func note(_ transaction: Transaction?, purchase: Identifier, of new: New) {
        guard let transaction else { return }
        let key = TransactionKey(
            purchase: purchase, storeTransactionID: Array(transaction.storeTransactionID.utf8))
        if let known = transactions[key], (known.asOf, known.asOfEvent) >= (new.event.occurredAt, new.key) { return }
        transactions[key] = TransactionRow(
            purchase: purchase, transaction: transaction, asOf: new.event.occurredAt, asOfEvent: new.key)
    }

    // MARK: What is told

    private mutating func tell(_ resolution: Resolution, index: Int, purchase: Purchase, id: Identifier) {
        let new = events[index]
        let native = resolution.told.first { $0.native != nil }
        // The webhook's own statement comes first, unless it is itself one of the two messages of a transfer.
        if native == nil, resolution.isPassedOn { passOn(index, transfer: nil) }
        for told in resolution.told {
            let transfer = Identity.transfer(purchase: id, from: told.from, to: told.to, ordinal: told.n)
            let trail = TransferTrail(
                source: new.event.scope.source, transfer: transfer.transferID, purchase: purchase.key,
                transaction: new.event.transaction?.storeTransactionID, event: eventID(of: new), from: told.from,
                to: told.to)
            transfers.append(
                TransferRow(
                    id: transfer, purchase: id, from: told.from, to: told.to, ordinal: told.n, event: new.row,
                    trail: trail))
            learn(told, scope: new.event.scope, at: new.event.occurredAt)
            let prefix = purchases[id]?.purchase.kind == .oneTime ? "ONE_TIME_PURCHASE_" : "SUBSCRIPTION_"
            for (side, type) in [
                (ToldTransfer.Native.transferred, prefix + "TRANSFERRED"), (.received, prefix + "RECEIVED"),
            ] {
                let parties = (id: transfer, from: told.from, to: told.to)
                if told.native == side {
                    passOn(index, transfer: parties)
                } else {
                    derive(type, index: index, side: side, transfer: parties)
                }
            }
        }
        for remark in resolution.notes { notes.append(observation(of: remark, index: index, purchase: purchase)) }
    }

    private mutating func passOn(_ index: Int, transfer: (id: Identifier, from: Holder, to: Holder)?) {
        let new = events[index]
        let event = new.event
        let statement = MessageEnvelope.Statement(
            type: event.type, eventID: eventID(of: new), eventName: event.name, holder: event.holder,
            resolvedUserID: resolved(event.holder, scope: event.scope),
            transfer: transfer.map { ($0.id.transferID, $0.from, $0.to) })
        messages.append(
            MessageRow(
                key: transfer.map { Identity.message(ofTransfer: $0.id, type: event.type) }
                    ?? Identity.message(passingOn: new.key),
                cause: index, type: event.type, transfer: transfer?.id, eventID: statement.eventID,
                envelope: MessageEnvelope.write(statement, causedBy: event), derivedBody: nil))
    }

    private mutating func derive(
        _ type: String, index: Int, side: ToldTransfer.Native, transfer: (id: Identifier, from: Holder, to: Holder)
    ) {
        let event = events[index].event
        let key = Identity.message(ofTransfer: transfer.id, type: type)
        let holder = side == .transferred ? transfer.from : transfer.to
        let statement = MessageEnvelope.Statement(
            type: type, eventID: key.eventID, eventName: type, holder: holder,
            resolvedUserID: resolved(holder, scope: event.scope),
            transfer: (transfer.id.transferID, transfer.from, transfer.to))
        let derived = DerivedTransfer(type: type, from: transfer.from, to: transfer.to, eventID: key.eventID)
        messages.append(
            MessageRow(
                key: key, cause: index, type: type, transfer: transfer.id, eventID: key.eventID,
                envelope: MessageEnvelope.write(statement, causedBy: event),
                derivedBody: shapes[event.scope.source]?.derivedBody(from: event.body, stating: derived)))
    }

    // MARK: Who an anonymous holder is

    private mutating func learn(_ told: ToldTransfer, scope: Scope, at time: Timestamp) {
        guard told.from.isAnonymous, case .user(let user) = told.to else { return }
        let key = LinkKey(scope: scope, holder: told.from)
        if let known = links[key], known.asOf > time { return }
        links[key] = (user, time)
        learnedLinks.insert(key)
    }

    private func resolved(_ holder: Holder, scope: Scope) -> String? {
        holder.isAnonymous ? links[LinkKey(scope: scope, holder: holder)]?.userID : nil
    }

    private func eventID(of new: New) -> String { new.event.vendorEventID ?? new.key.eventID }

    private func observation(of remark: Note, index: Int, purchase: Purchase) -> Observation {
        let new = events[index]
        let trail = TransferTrail(
            source: new.event.scope.source, transfer: nil, purchase: purchase.key,
            transaction: new.event.transaction?.storeTransactionID, event: eventID(of: new), from: remark.from,
            to: remark.to)
        return .transferVoided(trail, explanation: remark.explanation)
    }
}

extension Note {
    /// For a person: why a transfer that was told is one no more.
    fileprivate var explanation: String {
        let amount = count == 1 ? "one transfer that was told is" : "\(count) transfers that were told are"
        return switch reason {
        case .thirdHolder(let third): "\(amount) void: a late webhook shows that \(third.coalesced) held it in between"
        case .revoked: "\(amount) void: a late webhook shows that the old holder's purchase had been revoked before"
        case .rearranged: "\(amount) void: a late webhook shows another course between these two holders"
        }
    }
}
