import Vocabulary

/// The messages of a plan: what an event is passed on as, and what transfers announce. A line of an import is no
/// message; transfers that it reveals are messages only where they were asked for (`announcesImports`).
extension BatchPlan {
    mutating func announce(_ resolution: Resolution, index: Int, id: Identifier) {
        let new = events[index]
        for transfer in resolution.evidence.added { addLink(by: transfer.pair, at: transfer.at, of: new.event) }
        // So it is with most webhooks, and a purchase has many fields to copy.
        if resolution.announced.isEmpty, resolution.voids.isEmpty { return }
        guard let row = purchases[id] else { return }
        for announced in resolution.announced {
            let transfer = KeyHash.transfer(
                purchase: row.hash, from: announced.from, to: announced.to, ordinal: announced.ordinal)
            let subject = subject(id, index: index)
            let trail = TransferTrail(
                source: new.event.scope.source, transfer: transfer.transferID, purchase: row.purchase.key,
                transaction: subject.transaction?.storeTransactionID, event: eventID(of: new), from: announced.from,
                to: announced.to)
            transfers.append(
                TransferRow(
                    id: transfer, purchase: id, from: announced.from, to: announced.to, ordinal: announced.ordinal,
                    event: new.row,
                    storeTransactionID: subject.transaction?.storeTransactionID, trail: trail))
            let pair = Timeline.Pair(from: announced.from, to: announced.to)
            // When a transfer happened of which an import has only the number, its links say.
            let unshown = new.event.isImport ? nil : new.event.occurredAt
            addLink(by: pair, at: resolution.evidence.linkTime(of: pair, unshown: unshown), of: new.event)
            let prefix = row.purchase.kind == .oneTime ? "ONE_TIME_PURCHASE_" : "SUBSCRIPTION_"
            for (side, type) in [
                (AnnouncedTransfer.Native.transferred, prefix + "TRANSFERRED"), (.received, prefix + "RECEIVED"),
            ] {
                let parties = (id: transfer, from: announced.from, to: announced.to)
                if announced.native == side {
                    passOn(index, transfer: parties)
                } else {
                    derive(type, index: index, side: side, transfer: parties, of: subject)
                }
            }
        }
        for voided in resolution.voids { voids.append(observation(of: voided, index: index, purchase: row.purchase)) }
    }

    /// Adds who the old holder of a transfer is. An export has all links. Where install and identity hold a purchase
    /// together, the install that it is taken from is not whoever has it then: only an identify says who is logged in
    /// there.
    private mutating func addLink(by pair: Timeline.Pair, at time: Timestamp?, of event: Event) {
        guard event.history == nil, ownership(of: event.scope.source) == .exclusive else { return }
        holders.add(pair, scope: event.scope, at: time)
    }

    /// The purchase that a message is about, and its transaction.
    private func subject(_ id: Identifier, index: Int) -> MessageEnvelope.Subject {
        let new = events[index]
        if new.purchase == id {
            return MessageEnvelope.Subject(id: id, purchase: new.event.purchase, transaction: new.event.transaction)
        }
        return MessageEnvelope.Subject(
            id: id, purchase: purchases[id]?.purchase, transaction: holders.newestTransaction(of: id))
    }

    /// - Parameter state: of its purchase; nil: what is known without the event.
    mutating func passOn(
        _ index: Int, transfer: (id: Identifier, from: Holder, to: Holder)?, knowing state: PurchaseState? = nil
    ) {
        let new = events[index]
        if new.event.isImport { return }
        let state = state ?? new.purchase.flatMap { purchases[$0]?.state }
        let statement = MessageEnvelope.Statement(
            type: new.type, eventID: eventID(of: new), eventName: new.event.name, holder: new.event.holder,
            resolvedUserID: new.event.holder.flatMap { user(of: $0, in: state, as: new.event) },
            transfer: transfer.map { ($0.id.transferID, $0.from, $0.to) })
        let subject = MessageEnvelope.Subject(
            id: new.purchase, purchase: new.event.purchase, transaction: new.event.transaction, money: new.event.money)
        messages.append(
            MessageRow(
                key: transfer.map { KeyHash.message(ofTransfer: $0.id, type: new.type) },
                cause: index, fields: MessageFields(statement, of: subject, causedBy: new.event),
                transfer: transfer?.id,
                envelope: MessageEnvelope.write(statement, of: subject, causedBy: new.event), derivedBody: nil))
    }

    private mutating func derive(
        _ type: String, index: Int, side: AnnouncedTransfer.Native,
        transfer: (id: Identifier, from: Holder, to: Holder),
        of subject: MessageEnvelope.Subject
    ) {
        let new = events[index]
        if new.event.isImport, !announcesImports { return }
        let key = KeyHash.message(ofTransfer: transfer.id, type: type)
        let holder = side == .transferred ? transfer.from : transfer.to
        let statement = MessageEnvelope.Statement(
            type: type, eventID: key.eventID, eventName: type, holder: holder,
            resolvedUserID: resolved(holder, as: new.event),
            transfer: (transfer.id.transferID, transfer.from, transfer.to))
        let isNamed = new.purchase == subject.id
        let derived = DerivedTransfer(
            type: type, from: transfer.from, to: transfer.to, eventID: key.eventID,
            unnamedPurchase: isNamed ? nil : subject.purchase,
            unnamedTransaction: isNamed ? nil : subject.transaction)
        let envelope = MessageEnvelope.write(statement, of: subject, causedBy: new.event)
        let body = rules[new.event.scope.source].map { rules in
            // A line of an import has not the shape of the source's bodies.
            rules.shape.isSealed || new.event.isImport
                ? envelope + new.event.body + Message.envelopeEnd
                : rules.shape.derivedBody(from: new.event.body, stating: derived)
        }
        messages.append(
            MessageRow(
                key: key, cause: index, fields: MessageFields(statement, of: subject, causedBy: new.event),
                transfer: transfer.id, envelope: envelope, derivedBody: body))
    }

    /// The user that an anonymous holder is known to be. Of an event that names an account: the user who has its
    /// purchase by then, if that is another one.
    /// - Parameter state: of the event's purchase.
    private func user(of holder: Holder, in state: PurchaseState?, as event: Event) -> String? {
        let time = event.facts.first?.at ?? event.occurredAt
        let known =
            holder.isAnonymous
            ? state?.holder(of: holder, at: time) : state?.account(at: max(time, event.occurredAt))
        guard let known, known != holder else { return resolved(holder, as: event) }
        return known.isAnonymous ? resolved(known, as: event) : known.id
    }

    private func resolved(_ holder: Holder, as event: Event) -> String? {
        holders.user(of: holder, scope: event.scope, at: event.occurredAt)
    }

    private func eventID(of new: PlannedEvent) -> String { new.event.vendorEventID ?? new.key.eventID }

    private func observation(of voided: VoidedTransfer, index: Int, purchase: Purchase) -> Observation {
        let new = events[index]
        let trail = TransferTrail(
            source: new.event.scope.source, transfer: nil, purchase: purchase.key,
            transaction: new.event.transaction?.storeTransactionID, event: eventID(of: new), from: voided.from,
            to: voided.to)
        return .transferVoided(trail, explanation: voided.explanation)
    }
}
