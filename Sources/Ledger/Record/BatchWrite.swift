import Postgres
import Vocabulary

/// Writes the rows of a plan in the recorder's `WriteMode`. What is inserted is enqueued, and sent with COMMIT.
struct BatchWrite {
    /// What an event caused.
    struct Caused {
        var messages = 0
        var deliveries = 0
    }

    /// A delivery of a message that was written, with its row.
    private typealias Kept = (id: Int64, planned: FanOut.Planned)

    let plan: BatchPlan
    let recorder: RecordEvents
    let queueReads: QueueReads
    let createdAt: Timestamp?

    /// Writes all rows; returns what each event caused, by its event key.
    func run(
        on session: borrowing Session, reserved: inout Reservations, into committed: inout RecordEvents.Committed
    ) throws(DatabaseError) -> [Identifier: Caused] {
        let planned = try fanOut(on: session, into: &committed)
        let ids = try queueReads.rowIDs(messages: plan.messages.count, deliveries: planned.count, on: session)
        let entitlements = EntitlementWrite(plan, in: recorder.ledgerForm, at: createdAt)
        // What is stored belongs to the states that are written below.
        if !entitlements.outdated.isEmpty { try session.enqueue(KnownAccessStatements.write, entitlements.outdated) }
        try writePurchases(knowing: entitlements.known, on: session)
        if !plan.isCauseStored {
            let events = plan.events.map { RecordTables.EventRow($0, isStray: plan.isStray($0)) }
            try write(events, to: RecordTables.events, on: session)
            try writeTokens(on: session)
        }
        try writeTransactions(on: session)
        try write(entitlements: entitlements.rows, on: session)
        try writeEnds(beside: entitlements.rows, on: session)
        if !plan.transfers.isEmpty { try session.enqueue(RecordTables.transfers.insert, plan.transfers) }
        try writeLinks(on: session)
        try writeChanges(on: session)
        // Behind all locks and writes: it says what they leave.
        let access = try access(for: planned, on: session)
        let written = try writeMessages(ids.messages, for: wanted(planned), with: access, on: session)
        let kept = zip(ids.deliveries, planned).filter { written.contains(ids.messages[$1.message]) }
            .map { (id: $0, planned: $1) }
        let deliveries = lease(
            kept, messageIDs: ids.messages, with: access, reserved: &reserved, into: &committed)
        try write(deliveries, to: RecordTables.deliveries, on: session)
        let isLeftForOthers = deliveries.contains { !$0.isBlocked && $0.leasedBy == nil }
        if isLeftForOthers, recorder.dispatchBuffer.mayHint() { try session.enqueue(RecordStatements.notify, "") }
        committed.leftOut = plan.holders.leftOut
        committed.isUnfinished = plan.holders.newChanges.contains { $0.appliedThrough != nil }
        committed.happenings += plan.transfers.map { .transferResolved($0.trail) } + plan.voids
        for unmoved in plan.unmoved {
            let cause = plan.events[unmoved.cause]
            let (id, source) = (cause.event.vendorEventID ?? cause.key.eventID, cause.event.scope.source)
            let said = KeptMove.movedNothing(of: unmoved.purchase)
            committed.happenings.append(.warning("\(cause.event.name) \(id) from \(source) \(said)"))
        }
        committed.unmoved = plan.unmoved.map(\.purchase)
        return caused(written: written, messageIDs: ids.messages, kept)
    }

    private func caused(written: Set<Int64>, messageIDs: [Int64], _ kept: [Kept]) -> [Identifier: Caused] {
        var caused: [Identifier: Caused] = [:]
        for (id, message) in zip(messageIDs, plan.messages) where written.contains(id) {
            caused[plan.events[message.cause].key, default: Caused()].messages += 1
        }
        for (_, delivery) in kept { caused[plan.events[cause(of: delivery)].key, default: Caused()].deliveries += 1 }
        return caused
    }

    /// Index into the plan's events.
    private func cause(of delivery: FanOut.Planned) -> Int { plan.messages[delivery.message].cause }

    /// What holders have now, of each message to an integration that includes it.
    private func access(
        for planned: [FanOut.Planned], on session: borrowing Session
    ) throws(DatabaseError) -> [Int: [UInt8]] {
        let including = recorder.routes.includingAccess
        if including.isEmpty { return [:] }
        let indexes = Set(planned.filter { including.contains($0.integration) }.map(\.message)).sorted()
        if indexes.isEmpty { return [:] }
        let concerned = AccessHolders(plan)
        let subjects = indexes.map { index in
            let message = plan.messages[index]
            return (index, concerned.holders(of: message).map { message.fields.accessSubject($0) })
        }
        let access = try MessageAccess(
            of: subjects.flatMap { $0.1 }, leeways: Leeways(recorder.rules), on: session)
        return Dictionary(firstOf: subjects.map { ($0, access.text(of: $1)) })
    }

    // MARK: Fan-out and leases

    private func fanOut(
        on session: borrowing Session, into committed: inout RecordEvents.Committed
    ) throws(DatabaseError) -> [FanOut.Planned] {
        let known = plan.touched.filter { plan.purchases[$0]?.isNew == false }.sorted()
        var fanOut = FanOut(plan.messages.lazy.map(\.fields), by: recorder.routes)
        var heads = try queueReads.heads(of: known, for: fanOut.orderedReceivers, on: session)
        fanOut.block(occupied: heads.keys)
        for delivery in fanOut.planned where delivery.isBlocked {
            if let key = delivery.orderingKey, let head = heads.removeValue(forKey: key) {
                committed.blocked.append((key, head))
            }
        }
        return fanOut.planned
    }

    /// Leases the deliveries that are not blocked and find a free slot of an open lane; these are handed over after the
    /// commit. The others wait in the table.
    private func lease(
        _ kept: [Kept], messageIDs: [Int64], with access: [Int: [UInt8]], reserved: inout Reservations,
        into committed: inout RecordEvents.Committed
    ) -> [RecordTables.DeliveryRow] {
        var shared: [Int: Message] = [:]
        let rows = kept.map { id, delivery in
            let message =
                shared[delivery.message]
                ?? message(delivery.message, row: messageIDs[delivery.message], with: access[delivery.message])
            shared[delivery.message] = message
            var lease: Int64?
            if !delivery.isBlocked, let daemon = recorder.daemon,
                recorder.dispatchBuffer.reserve(delivery.integration, upTo: 1, bytesEach: message.bytes) == 1
            {
                lease = daemon
                let leased = Delivery(
                    id: id, lease: daemon, integration: delivery.integration, message: message, attemptsMade: 0,
                    createdAt: createdAt ?? Timestamp(milliseconds: 0))
                reserved.take(leased)
                committed.dispatched.append(leased)
            }
            return RecordTables.DeliveryRow(
                id: id, message: message.row, integration: delivery.integration, purchase: delivery.purchase,
                isBlocked: delivery.isBlocked, leasedBy: lease)
        }
        collectAwaited(kept, into: &committed)
        if let lease = recorder.daemon { recorder.dispatchBuffer.hold(reserved.deliveries.map(\.id), under: lease) }
        return rows
    }

    private func collectAwaited(_ kept: [Kept], into committed: inout RecordEvents.Committed) {
        let timeouts = recorder.routes.confirmTimeouts
        guard !timeouts.isEmpty else { return }
        for (id, delivery) in kept {
            let cause = plan.events[cause(of: delivery)]
            guard cause.event.grantsOrEndsAccess, let timeout = timeouts[delivery.integration] else { continue }
            committed.awaited[cause.key, default: [:]][id] = timeout
        }
    }

    private func message(_ index: Int, row: Int64, with access: [UInt8]?) -> Message {
        let message = plan.messages[index]
        let new = plan.events[message.cause]
        return Message(
            row: row, id: key(of: message).messageID, event: new.row, eventID: message.eventID, type: message.type,
            source: new.event.scope.source, transaction: message.storeTransactionID, purchase: message.purchase,
            purchaseKey: message.purchaseKey, transferID: message.transfer?.transferID,
            envelope: message.envelope, original: new.event.body, derivedBody: message.derivedBody, access: access)
    }

    /// Its key for receivers.
    private func key(of message: BatchPlan.MessageRow) -> Identifier {
        hasKeyOfEvent(message) ? plan.events[message.cause].key : message.key
    }

    /// An event of which a source may still repeat the webhook is known by its event key. That of an older one may
    /// have been pruned while its message was kept, by a version before: then the message's own key tells.
    private func hasKeyOfEvent(_ message: BatchPlan.MessageRow) -> Bool {
        guard message.transfer == nil, recorder.ledgerForm >= .three, let createdAt else { return false }
        let occurredAt = plan.events[message.cause].event.occurredAt
        return occurredAt > createdAt.advanced(byMilliseconds: -Limits.retryHorizonMilliseconds)
    }

    // MARK: Rows

    /// Writes rows that the batch takes for new.
    private func write<Row>(_ rows: [Row], to table: Table<Row>, on session: borrowing Session) throws(DatabaseError) {
        if rows.isEmpty { return }
        switch recorder.mode {
        case .copy: try session.copy(table, rows)
        case .insert, .insertIfAbsent: try session.enqueue(table.insert, rows)
        }
    }

    private func writePurchases(
        knowing access: [Identifier: KnownAccess], on session: borrowing Session
    ) throws(DatabaseError) {
        var (known, new) = ([RecordTables.PurchaseRow](), [RecordTables.PurchaseRow]())
        for id in plan.touched.sorted() {
            guard let purchase = plan.purchases[id] else { continue }
            let row = purchase.written(as: id, knowing: access[id], in: recorder.ledgerForm)
            if purchase.isNew { new.append(row) } else { known.append(row) }
        }
        if !known.isEmpty { try session.enqueue(RecordTables.updatePurchases, known) }
        guard recorder.mode == .insertIfAbsent, !new.isEmpty else {
            return try write(new, to: RecordTables.purchases, on: session)
        }
        let count = new.count
        try session.enqueue(RecordTables.purchasesIfAbsent, new) { $0 == count ? nil : RecordEvents.purchaseRace }
    }

    private func writeTransactions(on session: borrowing Session) throws(DatabaseError) {
        try upsert(Array(plan.transactions.values), into: RecordTables.transactions, of: \.purchase, on: session) {
            ($0.transaction.storeTransactionID, $0.purchase) < ($1.transaction.storeTransactionID, $1.purchase)
        }
    }

    private func write(
        entitlements rows: [BatchPlan.EntitlementRow], on session: borrowing Session
    ) throws(DatabaseError) {
        try upsert(rows, into: RecordTables.entitlements, of: \.purchase, on: session) {
            ($0.holder, $0.purchase) < ($1.holder, $1.purchase)
        }
    }

    private func writeEnds(
        beside entitlements: [BatchPlan.EntitlementRow], on session: borrowing Session
    ) throws(DatabaseError) {
        let ends = EndWrite(plan, writing: entitlements)
        if !ends.rows.isEmpty { try session.enqueue(PurchaseEnds.table.insert, ends.rows) }
        if !ends.regained.isEmpty { try session.enqueue(PurchaseEnds.addStored, ends.regained) }
    }

    /// Writes what is new of tokens. A row that another batch wrote first, with another purchase, is not written: then
    /// this one is run again.
    private func writeTokens(on session: borrowing Session) throws(DatabaseError) {
        let rows = plan.tokens.news
        let count = rows.count
        if rows.isEmpty { return }
        try session.enqueue(RecordTables.tokens.insert, rows) { $0 == count ? nil : RecordEvents.purchaseRace }
    }

    /// Writes rows that purchases may have already, in one order everywhere. A new purchase has none.
    private func upsert<Row>(
        _ rows: [Row], into table: Table<Row>, of purchase: (Row) -> Identifier, on session: borrowing Session,
        by isBefore: (Row, Row) -> Bool
    ) throws(DatabaseError) {
        var rows = rows
        if recorder.mode == .copy {
            let new = rows.partition { plan.purchases[purchase($0)]?.isNew != true }
            if new > 0 { try session.copy(table, rows[..<new]) }
            rows.removeFirst(new)
        }
        if !rows.isEmpty { try session.enqueue(table.insert, rows.sorted(by: isBefore)) }
    }

    /// Whom each message is for, in the order of the messages.
    private func wanted(_ planned: [FanOut.Planned]) -> [String] {
        var rows = [[Int32]](repeating: [], count: plan.messages.count)
        for delivery in planned { rows[delivery.message].append(delivery.integration) }
        return rows.map(WantedIntegrations.text)
    }

    /// - Returns: the rows of the messages that are new.
    private func writeMessages(
        _ ids: [Int64], for wanted: [String], with access: [Int: [UInt8]], on session: borrowing Session
    ) throws(DatabaseError) -> Set<Int64> {
        let rows = zip(zip(ids, plan.messages.enumerated()), wanted).map { numbered, integrations in
            let (id, (index, message)) = numbered
            return RecordTables.MessageRow(
                id: id, key: hasKeyOfEvent(message) ? nil : message.key, event: plan.events[message.cause].row,
                type: message.type, transfer: message.transfer, envelope: message.envelope,
                derivedBody: message.derivedBody, integrations: integrations, access: access[index])
        }
        if recorder.mode == .insertIfAbsent, !rows.isEmpty {
            return Set(try session.run(RecordTables.messagesIfAbsent, rows))
        }
        let own = rows.compactMap(\.key)
        if !own.isEmpty, try !session.run(RecordStatements.messagesKept, own).isEmpty {
            throw RecordEvents.messageIsThere
        }
        try write(rows, to: RecordTables.messages, on: session)
        return Set(rows.map(\.id))
    }

    // MARK: Holders

    private func writeLinks(on session: borrowing Session) throws(DatabaseError) {
        let learned = plan.holders.learnedLinks.sorted { $0.holder < $1.holder }
            .compactMap { key in plan.holders.links[key].map { HolderKnowledge.LearnedLink(key: key, link: $0) } }
        if !learned.isEmpty { try session.enqueue(HolderTables.links.insert, learned) }
    }

    private func writeChanges(on session: borrowing Session) throws(DatabaseError) {
        let (changes, identities) = (plan.holders.newChanges, plan.holders.newIdentities)
        if !changes.isEmpty { try session.enqueue(HolderTables.changes.insert, changes) }
        if !identities.isEmpty { try session.enqueue(HolderTables.identities.insert, identities) }
    }
}
