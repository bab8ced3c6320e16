import Postgres
import Vocabulary

/// Writes the rows of a plan. The statements of a batch that is too small to be copied are enqueued and sent with its
/// COMMIT. A careful batch first waits for its messages, because messages that exist already are not delivered again.
struct BatchWrite {
    let plan: BatchPlan
    let recorder: RecordEvents
    let queueReads: QueueReads
    let createdAt: Timestamp?

    private var isCareful: Bool { recorder.copiedEventsMin == nil }
    private var isCopied: Bool { recorder.copiedEventsMin.map { plan.events.count >= $0 } ?? false }

    /// Writes all rows; returns the counts that each event caused, by its event key.
    func run(
        on session: borrowing Session, reserved: inout Reservations, into committed: inout RecordEvents.Committed
    ) throws(DatabaseError) -> [Identifier: (messages: Int, deliveries: Int)] {
        let planned = try fanOut(on: session, into: &committed)
        let (messageRows, deliveryRows) = try queueReads.rowIDs(
            messages: plan.messages.count, deliveries: planned.count, on: session)
        try writePurchases(on: session)
        try writeEvents(on: session)
        try writeRest(on: session)
        let written = try writeMessages(messageRows, on: session)
        var caused: [Identifier: (messages: Int, deliveries: Int)] = [:]
        for (index, message) in plan.messages.enumerated() where written.contains(messageRows[index]) {
            caused[plan.events[message.cause].key, default: (0, 0)].messages += 1
        }
        let kept = zip(deliveryRows, planned).filter { written.contains(messageRows[$0.1.message]) }
        for (_, delivery) in kept {
            caused[plan.events[plan.messages[delivery.message].cause].key, default: (0, 0)].deliveries += 1
        }
        try writeDeliveries(kept, messageRows: messageRows, on: session, reserved: &reserved, into: &committed)
        committed.happenings += plan.transfers.map { .transferResolved($0.trail) } + plan.voids
        for unmoved in plan.unmoved {
            let cause = plan.events[unmoved.cause]
            let (id, source) = (cause.event.vendorEventID ?? cause.key.eventID, cause.event.scope.source)
            let said = KeptMove.movedNothing(of: unmoved.purchase)
            committed.happenings.append(.warning("\(cause.event.name) \(id) from \(source) \(said)"))
        }
        committed.unmoved = plan.unmoved.map(\.purchase)
        return caused
    }

    private func fanOut(
        on session: borrowing Session, into committed: inout RecordEvents.Committed
    ) throws(DatabaseError) -> [FanOut.Planned] {
        let known = plan.touched.filter { plan.purchases[$0]?.isNew == false }.sorted()
        var heads = try queueReads.heads(of: known, on: session)
        var fanOut = FanOut(routes: recorder.routes, occupied: Set(heads.keys))
        let planned = plan.messages.indices.flatMap { index in
            let message = plan.messages[index]
            let cause = plan.events[message.cause]
            return fanOut.plan(
                message: index, type: message.type, scope: cause.event.scope, purchase: message.purchase)
        }
        for delivery in planned where delivery.isBlocked {
            guard let purchase = delivery.purchase else { continue }
            let key = FanOut.OrderingKey(purchase: purchase, integration: delivery.integration)
            if let head = heads.removeValue(forKey: key) { committed.blocked.append((key, head)) }
        }
        return planned
    }

    private func writeMessages(_ rows: [Int64], on session: borrowing Session) throws(DatabaseError) -> Set<Int64> {
        guard !rows.isEmpty else { return [] }
        let messages = plan.messages
        if isCopied {
            try session.copy(
                BatchCopies.messages, zip(rows, messages).map { ($0, plan.events[$1.cause].row, $1) })
            return Set(rows)
        }
        let columns: RecordStatements.MessageColumns = (
            rows, messages.map(\.key), messages.map { plan.events[$0.cause].row }, messages.map(\.type),
            messages.map(\.transfer), messages.map(\.envelope), messages.map(\.derivedBody)
        )
        if isCareful { return Set(try session.run(RecordStatements.tryMessages, columns)) }
        try session.enqueue(RecordStatements.insertMessages, columns)
        return Set(rows)
    }

    private func writeEvents(on session: borrowing Session) throws(DatabaseError) {
        if plan.isCauseStored { return }
        if isCopied { return try session.copy(BatchCopies.events, plan.events) }
        let events = plan.events.map(\.event)
        try session.enqueue(
            RecordStatements.events,
            (
                plan.events.map(\.row), plan.events.map(\.key), events.map(\.scope.source), events.map(\.scope.app),
                events.map(\.scope.environment), events.map(\.vendorEventID), events.map(\.name), events.map(\.type),
                events.map(\.holder.storageKey), events.map(\.occurredAt.milliseconds),
                plan.events.map(\.purchase),
                events.map { $0.transaction?.storeTransactionID }, events.map(\.body)
            ))
    }

    /// Writes the deliveries. Those of an open lane with a free slot are leased and dispatched after the commit; the
    /// others wait in the table.
    private func writeDeliveries(
        _ kept: [(Int64, FanOut.Planned)], messageRows: [Int64], on session: borrowing Session,
        reserved: inout Reservations,
        into committed: inout RecordEvents.Committed
    ) throws(DatabaseError) {
        guard !kept.isEmpty else { return }
        var shared: [Int: Message] = [:]
        var leases: [Int64?] = []
        var isLeftForOthers = false
        for (id, delivery) in kept {
            let message =
                shared[delivery.message] ?? self.message(delivery.message, row: messageRows[delivery.message])
            shared[delivery.message] = message
            guard !delivery.isBlocked, let lease = recorder.daemon,
                recorder.dispatchBuffer.reserve(delivery.integration, upTo: 1, bytesEach: message.bytes) == 1
            else {
                leases.append(nil)
                isLeftForOthers = isLeftForOthers || !delivery.isBlocked
                continue
            }
            leases.append(lease)
            let leased = Delivery(
                id: id, lease: lease, integration: delivery.integration, message: message, attemptsMade: 0,
                createdAt: createdAt ?? Timestamp(milliseconds: 0))
            reserved.take(leased)
            committed.dispatched.append(leased)
        }
        collectAwaited(kept, into: &committed)
        if let lease = recorder.daemon { recorder.dispatchBuffer.hold(reserved.deliveries.map(\.id), under: lease) }
        if isCopied {
            let rows = zip(kept, leases).map { delivery, lease in
                BatchCopies.DeliveryRow(
                    id: delivery.0, message: messageRows[delivery.1.message], integration: delivery.1.integration,
                    purchase: delivery.1.purchase, isBlocked: delivery.1.isBlocked, leasedBy: lease)
            }
            try session.copy(BatchCopies.deliveries, rows)
        } else {
            try session.enqueue(
                RecordStatements.deliveries,
                (
                    kept.map(\.0), kept.map { messageRows[$0.1.message] }, kept.map(\.1.integration),
                    kept.map(\.1.purchase), kept.map(\.1.isBlocked), leases
                ))
        }
        if isLeftForOthers, recorder.dispatchBuffer.mayHint() { try session.enqueue(RecordStatements.notify, "") }
    }

    private func collectAwaited(_ kept: [(Int64, FanOut.Planned)], into committed: inout RecordEvents.Committed) {
        let timeouts = Dictionary(
            recorder.routes.compactMap { route in route.integration.confirmTimeout.map { (route.row, $0) } },
            uniquingKeysWith: { first, _ in first })
        guard !timeouts.isEmpty else { return }
        for (id, delivery) in kept {
            let cause = plan.events[plan.messages[delivery.message].cause]
            guard cause.event.grantsOrEndsAccess, let timeout = timeouts[delivery.integration] else { continue }
            committed.awaited[cause.key, default: [:]][id] = timeout
        }
    }

    private func message(_ index: Int, row: Int64) -> Message {
        let message = plan.messages[index]
        let new = plan.events[message.cause]
        return Message(
            row: row, id: message.key.messageID, event: new.row, eventID: message.eventID, type: message.type,
            source: new.event.scope.source, transaction: message.storeTransactionID, purchase: message.purchase,
            purchaseKey: message.purchaseKey, transferID: message.transfer?.transferID,
            envelope: message.envelope, original: new.event.body, derivedBody: message.derivedBody)
    }

    private func writePurchases(on session: borrowing Session) throws(DatabaseError) {
        let touched = plan.touched.sorted().compactMap { id in plan.purchases[id].map { (id, $0) } }
        let known = touched.filter { !$0.1.isNew }
        if !known.isEmpty {
            try session.enqueue(
                RecordStatements.updatePurchases,
                (
                    known.map(\.0), known.map(\.1.purchase.kind.rawValue), known.map(\.1.purchase.product),
                    known.map(\.1.purchase.plan),
                    known.map(\.1.purchase.subscriptionID), known.map(\.1.asOf.milliseconds),
                    known.map { $0.1.state.bytes(recorder.stateForm) }
                ))
        }
        let new = touched.filter(\.1.isNew)
        guard !new.isEmpty else { return }
        if isCopied { return try session.copy(BatchCopies.purchases, new.map { ($0.0, $0.1, recorder.stateForm) }) }
        let columns: RecordStatements.PurchaseColumns = (
            new.map(\.0), new.map(\.1.scope.source), new.map(\.1.scope.app), new.map(\.1.scope.environment),
            new.map(\.1.purchase.store), new.map(\.1.purchase.key), new.map(\.1.purchase.kind.rawValue),
            new.map(\.1.purchase.product), new.map(\.1.purchase.plan), new.map(\.1.purchase.subscriptionID),
            new.map(\.1.asOf.milliseconds), new.map { $0.1.state.bytes(recorder.stateForm) }
        )
        guard isCareful else { return try session.enqueue(RecordStatements.insertPurchases, columns) }
        try session.enqueue(RecordStatements.tryPurchases, columns) {
            $0 == new.count ? nil : RecordEvents.purchaseRace
        }
    }

    private func writeRest(on session: borrowing Session) throws(DatabaseError) {
        try writeTransactions(on: session)
        try writeEntitlements(on: session)
        try writeTransfers(on: session)
    }

    /// Whether rows of this purchase can be copied: the purchase is new, so no row of it exists yet.
    private func isCopied(_ purchase: Identifier) -> Bool { isCopied && plan.purchases[purchase]?.isNew == true }

    private func writeTransactions(on session: borrowing Session) throws(DatabaseError) {
        let new = plan.transactions.values.filter { isCopied($0.purchase) }
        if !new.isEmpty { try session.copy(BatchCopies.transactions, new) }
        guard new.count < plan.transactions.count else { return }
        let rows = plan.transactions.values.filter { !isCopied($0.purchase) }.sorted {
            ($0.transaction.storeTransactionID, $0.purchase) < ($1.transaction.storeTransactionID, $1.purchase)
        }
        try session.enqueue(
            RecordStatements.transactions,
            (
                rows.map(\.transaction.storeTransactionID), rows.map(\.purchase),
                rows.map(\.transaction.storeOriginalTransactionID),
                rows.map { $0.transaction.purchasedAt?.milliseconds },
                rows.map { $0.transaction.effectiveNextRenewalAt?.milliseconds },
                rows.map(\.transaction.offerType), rows.map(\.transaction.status),
                rows.map(\.asOf.milliseconds), rows.map(\.asOfEvent)
            ))
    }

    private func writeEntitlements(on session: borrowing Session) throws(DatabaseError) {
        let new = plan.entitlements.filter { isCopied($0.key.purchase) }
        if !new.isEmpty { try session.copy(BatchCopies.entitlements, new.map { ($0.key, $0.value) }) }
        guard new.count < plan.entitlements.count else { return }
        let rows = plan.entitlements.filter { !isCopied($0.key.purchase) }.sorted {
            ($0.key.holder, $0.key.purchase) < ($1.key.holder, $1.key.purchase)
        }
        try session.enqueue(
            RecordStatements.entitlements,
            (
                rows.map(\.key.holder.storageKey), rows.map(\.key.purchase), rows.map(\.value.access.isActive),
                rows.map(\.value.access.asOf.milliseconds), rows.map(\.value.event)
            ))
    }
}

/// The rows about holders that a batch writes: transfers, links, changes and identities.
extension BatchWrite {
    func writeTransfers(on session: borrowing Session) throws(DatabaseError) {
        if !plan.transfers.isEmpty {
            let transfers = plan.transfers
            try session.enqueue(
                RecordStatements.transfers,
                (
                    transfers.map(\.id), transfers.map(\.purchase), transfers.map(\.from.storageKey),
                    transfers.map(\.to.storageKey), transfers.map { Int32($0.ordinal) }, transfers.map(\.event),
                    transfers.map(\.storeTransactionID)
                ))
        }
        try writeLinks(on: session)
        try writeChanges(on: session)
    }

    private func writeLinks(on session: borrowing Session) throws(DatabaseError) {
        let learned = plan.holders.learnedLinks.compactMap { key in plan.holders.links[key].map { (key, $0) } }
            .sorted { $0.0.holder < $1.0.holder }
        guard !learned.isEmpty else { return }
        try session.enqueue(
            HolderStatements.learnLinks,
            (
                learned.map(\.0.holder.id), learned.map(\.0.scope.source), learned.map(\.0.scope.app),
                learned.map(\.0.scope.environment), learned.map(\.1.userID), learned.map { $0.1.until?.milliseconds },
                learned.map(\.1.asOf.milliseconds)
            ))
    }

    private func writeChanges(on session: borrowing Session) throws(DatabaseError) {
        let changes = plan.holders.newChanges
        if !changes.isEmpty {
            try session.enqueue(
                HolderStatements.addChanges,
                (
                    changes.map(\.row.scope.source), changes.map(\.row.scope.app), changes.map(\.row.scope.environment),
                    changes.map(\.row.subject), changes.map(\.row.kind.rawValue), changes.map(\.row.target.storageKey),
                    changes.map { $0.row.secondTarget?.storageKey }, changes.map(\.row.at.milliseconds),
                    changes.map(\.event), changes.map(\.appliedThrough)
                ))
        }
        let identities = plan.holders.newIdentities
        if !identities.isEmpty {
            try session.enqueue(
                HolderStatements.addIdentities,
                (
                    identities.map(\.key.identity.id), identities.map(\.key.scope.source),
                    identities.map(\.key.scope.app), identities.map(\.key.scope.environment),
                    identities.map(\.install), identities.map(\.event)
                ))
        }
    }
}
