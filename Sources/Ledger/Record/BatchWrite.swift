import Postgres
import Vocabulary

/// Writes the rows of a plan in the recording's `WriteMode`. What is inserted is enqueued, and sent with COMMIT.
///
/// A class, because it has a plan and a recording to copy.
final class BatchWrite {
    /// What an event caused.
    struct Caused {
        var messages = 0
        var deliveries = 0
    }

    /// A delivery of a message that was written, with its row.
    private typealias WrittenDelivery = (id: Int64, planned: FanOut.Planned)

    let plan: BatchPlan
    let recording: BatchRecording
    let queueReads: QueueReads
    /// The database's time in the transaction, which becomes that of the rows.
    let createdAt: Timestamp

    init(plan: BatchPlan, recording: BatchRecording, queueReads: QueueReads, createdAt: Timestamp) {
        self.plan = plan
        self.recording = recording
        self.queueReads = queueReads
        self.createdAt = createdAt
    }

    /// Writes all rows; returns what each event caused, by its event key.
    func run(
        on session: borrowing Session, reserved: inout Reservations, into committed: inout BatchRecording.Committed
    ) throws(DatabaseError) -> [Identifier: Caused] {
        let (planned, ids) = try fanOut(on: session, into: &committed)
        var new = NewRows(mode: recording.mode)
        let known = try writeNew(into: &new, on: session)
        let access: [Int: [UInt8]]
        let including = messagesIncludingAccess(planned)
        if including.isEmpty {
            access = [:]
        } else {
            // Behind all locks and writes: it says what they leave.
            try new.copy(on: session)
            try write(known, on: session)
            access = try self.access(of: including, on: session)
        }
        let written = try writeMessages(ids.messages, for: wanted(planned), with: access, into: &new, on: session)
        let kept = zip(ids.deliveries, planned).filter { written.contains(ids.messages[$1.message]) }
            .map { (id: $0, planned: $1) }
        let deliveries = lease(
            kept, messageIDs: ids.messages, with: access, reserved: &reserved, into: &committed)
        try new.write(deliveries, to: RecordTables.deliveries, on: session)
        try new.copy(on: session)
        if including.isEmpty { try write(known, on: session) }
        let isLeftForOthers = deliveries.contains { !$0.isBlocked && $0.leasedBy == nil }
        if isLeftForOthers, recording.dispatchBuffer.mayHint() { try session.enqueue(RecordStatements.notify, "") }
        committed.leftOut = plan.holders.leftOut
        committed.isUnfinished = plan.holders.newChanges.contains { $0.appliedThrough != nil }
        committed.observations += plan.transfers.map { .transferResolved($0.trail) } + plan.voids
        for unmoved in plan.unmoved {
            let cause = plan.events[unmoved.cause]
            let (id, source) = (cause.event.vendorEventID ?? cause.key.eventID, cause.event.scope.source)
            let said = KeptMove.movedNothing(of: unmoved.purchase)
            committed.observations.append(.warning("\(cause.event.name) \(id) from \(source) \(said)"))
        }
        committed.unmoved = plan.unmoved.map(\.purchase)
        return caused(written: written, messageIDs: ids.messages, kept)
    }

    private func caused(written: Set<Int64>, messageIDs: [Int64], _ kept: [WrittenDelivery]) -> [Identifier: Caused] {
        var caused: [Identifier: Caused] = [:]
        for (id, message) in zip(messageIDs, plan.messages) where written.contains(id) {
            caused[plan.events[message.cause].key, default: Caused()].messages += 1
        }
        for (_, delivery) in kept { caused[plan.events[cause(of: delivery)].key, default: Caused()].deliveries += 1 }
        return caused
    }

    /// Index into the plan's events.
    private func cause(of delivery: FanOut.Planned) -> Int { plan.messages[delivery.message].cause }

    /// Indexes of the messages that say what holders have, because an integration includes it.
    private func messagesIncludingAccess(_ planned: [FanOut.Planned]) -> [Int] {
        let including = recording.routes.includingAccess
        if including.isEmpty { return [] }
        return Set(planned.filter { including.contains($0.integration) }.map(\.message)).sorted()
    }

    /// What holders have now, of each of these messages.
    private func access(
        of indexes: [Int], on session: borrowing Session
    ) throws(DatabaseError) -> [Int: [UInt8]] {
        if indexes.isEmpty { return [:] }
        let concerned = AccessHolders(plan)
        let subjects = indexes.map { index in
            let message = plan.messages[index]
            return (index, concerned.holders(of: message).map { message.fields.accessSubject($0) })
        }
        let access = try MessageAccess(
            of: subjects.flatMap { $0.1 }, leeways: Leeways(recording.rules), on: session)
        return Dictionary(firstOf: subjects.map { ($0, access.text(of: $1)) })
    }

    // MARK: Fan-out and leases

    /// - Returns: row ids of all messages and of all planned deliveries beside these.
    private func fanOut(
        on session: borrowing Session, into committed: inout BatchRecording.Committed
    ) throws(DatabaseError) -> (planned: [FanOut.Planned], ids: RecordStatements.RowIDs) {
        let known = plan.touched.subtracting(plan.newPurchases).sorted()
        var fanOut = FanOut(plan.messages.lazy.map(\.fields), by: recording.routes)
        let rows = try queueReads.rows(
            headsOf: known, for: fanOut.orderedReceivers, messages: plan.messages.count,
            deliveries: fanOut.planned.count, on: session)
        var heads = rows.heads
        fanOut.block(occupied: heads.keys)
        for delivery in fanOut.planned where delivery.isBlocked {
            if let key = delivery.orderingKey, let head = heads.removeValue(forKey: key) {
                committed.blocked.append((key, head))
            }
        }
        return (fanOut.planned, rows.ids)
    }

    /// Leases the deliveries that are not blocked and find a free slot of an open lane; these are handed over after the
    /// commit. The others wait in the table.
    private func lease(
        _ kept: [WrittenDelivery], messageIDs: [Int64], with access: [Int: [UInt8]], reserved: inout Reservations,
        into committed: inout BatchRecording.Committed
    ) -> [RecordTables.DeliveryRow] {
        var shared: [Int: Message] = [:]
        let messages = kept.map { _, delivery in
            let message =
                shared[delivery.message]
                ?? message(delivery.message, row: messageIDs[delivery.message], with: access[delivery.message])
            shared[delivery.message] = message
            return message
        }
        let unblocked = zip(kept, messages).filter { written, _ in !written.planned.isBlocked }
            .map { written, message in (integration: written.planned.integration, bytes: message.bytes) }
        // Whether each of these has a slot, in this order.
        var slots = recording.daemon == nil ? [] : recording.dispatchBuffer.reserve(unblocked)[...]
        let rows = zip(kept, messages).map { written, message in
            let (id, delivery) = written
            var lease: Int64?
            if let daemon = recording.daemon, !delivery.isBlocked, slots.popFirst() == true {
                lease = daemon
                reserved.take(
                    Delivery(
                        id: id, lease: daemon, integration: delivery.integration, message: message, attemptsMade: 0,
                        createdAt: createdAt))
            }
            return RecordTables.DeliveryRow(
                id: id, message: message.row, integration: delivery.integration, purchase: delivery.purchase,
                isBlocked: delivery.isBlocked, leasedBy: lease)
        }
        collectAwaited(kept, into: &committed)
        recording.dispatchBuffer.hold(reserved.deliveries)
        return rows
    }

    private func collectAwaited(_ kept: [WrittenDelivery], into committed: inout BatchRecording.Committed) {
        let timeouts = recording.routes.confirmTimeouts
        guard !timeouts.isEmpty else { return }
        for (id, delivery) in kept {
            let cause = plan.events[cause(of: delivery)]
            guard cause.grantsOrEndsAccess, let timeout = timeouts[delivery.integration] else { continue }
            committed.awaited[cause.key, default: [:]][id] = timeout
        }
    }

    private func message(_ index: Int, row: Int64, with access: [UInt8]?) -> Message {
        let message = plan.messages[index]
        let new = plan.events[message.cause]
        return Message(
            row: row, id: (ownKey(of: message) ?? new.key).messageID, eventID: message.eventID, type: message.type,
            source: new.event.scope.source, transaction: message.storeTransactionID, purchase: message.purchase,
            purchaseKey: message.purchaseKey, transferID: message.transfer?.transferID,
            envelope: message.envelope, original: new.event.body, derivedBody: message.derivedBody, access: access)
    }

    /// Its key for receivers; nil: it has the event's.
    ///
    /// An event of which a source may still repeat the webhook is known by its event key. That of an older one may
    /// have been pruned while its message was kept, by a version before: then the message's own key says it.
    private func ownKey(of message: BatchPlan.MessageRow) -> Identifier? {
        if let key = message.key { return key }
        let cause = plan.events[message.cause]
        if recording.ledgerForm >= .keylessMessages,
            cause.event.occurredAt > createdAt.advanced(byMilliseconds: -Limits.retryHorizonMilliseconds)
        {
            return nil
        }
        return KeyHash.message(passingOn: cause.hash)
    }

    // MARK: Rows

    /// What is written of purchases that may have rows already, in one order everywhere. It is sent with COMMIT.
    private struct KnownRows {
        var outdated: [Identifier] = []
        var purchases: [RecordTables.PurchaseRow] = []
        var transactions: [BatchPlan.TransactionRow] = []
        var entitlements: [BatchPlan.EntitlementRow] = []
        var ends: [PurchaseEnds.Row] = []
        var regained: [Identifier] = []
    }

    /// Writes what the batch takes for new. A new purchase has no rows in other tables either, so these are copied
    /// where the batch copies.
    /// - Returns: what is to be written behind it.
    private func writeNew(
        into new: inout NewRows, on session: borrowing Session
    ) throws(DatabaseError) -> KnownRows {
        let entitlements = EntitlementWrite(plan, in: recording.ledgerForm, at: createdAt)
        let ends = EndWrite(plan, writing: entitlements.rows)
        var known = KnownRows(outdated: entitlements.outdated, regained: ends.regained)
        var purchases: [RecordTables.PurchaseRow] = []
        for id in plan.touched.sorted() {
            guard let purchase = plan.purchases[id] else { continue }
            let row = purchase.written(as: id, knowing: entitlements.known[id], in: recording.ledgerForm)
            if plan.newPurchases.contains(id) { purchases.append(row) } else { known.purchases.append(row) }
        }
        if recording.mode == .insertIfAbsent, !purchases.isEmpty {
            let count = purchases.count
            try session.enqueue(RecordTables.purchasesIfAbsent, purchases) {
                $0 == count ? nil : BatchRecording.purchaseRace
            }
        } else {
            try new.write(purchases, to: RecordTables.purchases, on: session)
        }
        if !plan.isCauseStored {
            let events = plan.events.map { RecordTables.EventRow($0, isStray: plan.isStray($0)) }
            try new.write(events, to: RecordTables.events, on: session)
        }
        known.transactions = try writeNew(
            Array(plan.transactions.values), of: \.purchase, to: RecordTables.transactions, into: &new, on: session
        ).sorted {
            ($0.transaction.storeTransactionID, $0.purchase) < ($1.transaction.storeTransactionID, $1.purchase)
        }
        known.entitlements = try writeNew(
            entitlements.rows, of: \.purchase, to: RecordTables.entitlements, into: &new, on: session
        ).sorted { ($0.holder, $0.purchase) < ($1.holder, $1.purchase) }
        known.ends = try writeNew(ends.rows, of: \.purchase, to: PurchaseEnds.table, into: &new, on: session)
        return known
    }

    /// Copies the rows of new purchases, if the batch copies.
    /// - Returns: the others.
    private func writeNew<Row>(
        _ rows: [Row], of purchase: (Row) -> Identifier, to table: Table<Row>, into new: inout NewRows,
        on session: borrowing Session
    ) throws(DatabaseError) -> [Row] {
        guard recording.mode == .copy else { return rows }
        var (copied, others) = ([Row](), [Row]())
        for row in rows {
            if plan.newPurchases.contains(purchase(row)) { copied.append(row) } else { others.append(row) }
        }
        try new.write(copied, to: table, on: session)
        return others
    }

    private func write(_ known: KnownRows, on session: borrowing Session) throws(DatabaseError) {
        // What is stored belongs to the states that are written below.
        if !known.outdated.isEmpty { try session.enqueue(KnownAccessStatements.write, known.outdated) }
        if !known.purchases.isEmpty { try session.enqueue(RecordTables.updatePurchases, known.purchases) }
        try writeTokens(on: session)
        try insert(known.transactions, into: RecordTables.transactions, on: session)
        try insert(known.entitlements, into: RecordTables.entitlements, on: session)
        try insert(known.ends, into: PurchaseEnds.table, on: session)
        if !known.regained.isEmpty { try session.enqueue(PurchaseEnds.addStored, known.regained) }
        if !plan.transfers.isEmpty { try session.enqueue(RecordTables.transfers.insert, plan.transfers) }
        try writeLinks(on: session)
        try writeChanges(on: session)
    }

    private func insert<Row>(
        _ rows: [Row], into table: Table<Row>, on session: borrowing Session
    ) throws(DatabaseError) {
        if !rows.isEmpty { try session.enqueue(table.inserting(rows), rows) }
    }

    /// Writes what is new of tokens. A row that another batch wrote first, with another purchase, is not written: then
    /// this one is run again.
    private func writeTokens(on session: borrowing Session) throws(DatabaseError) {
        let rows = plan.tokens.newRows
        let count = rows.count
        if rows.isEmpty { return }
        try session.enqueue(RecordTables.tokens.insert, rows) { $0 == count ? nil : BatchRecording.purchaseRace }
    }

    /// Whom each message is for, in the order of the messages.
    private func wanted(_ planned: [FanOut.Planned]) -> [String] {
        var rows = [[Int32]](repeating: [], count: plan.messages.count)
        for delivery in planned { rows[delivery.message].append(delivery.integration) }
        // Most messages of a batch are for the same ones.
        var texts: [[Int32]: String] = [:]
        return rows.map { integrations in
            if let text = texts[integrations] { return text }
            let text = MessageReceivers.text(integrations)
            texts[integrations] = text
            return text
        }
    }

    /// - Returns: the rows of the messages that are new.
    private func writeMessages(
        _ ids: [Int64], for wanted: [String], with access: [Int: [UInt8]], into new: inout NewRows,
        on session: borrowing Session
    ) throws(DatabaseError) -> Set<Int64> {
        let rows = zip(zip(ids, plan.messages.enumerated()), wanted).map { numbered, integrations in
            let (id, (index, message)) = numbered
            return RecordTables.MessageRow(
                id: id, key: ownKey(of: message), event: plan.events[message.cause].row,
                type: message.type, transfer: message.transfer, envelope: message.envelope,
                derivedBody: message.derivedBody, integrations: integrations, access: access[index])
        }
        if recording.mode == .insertIfAbsent, !rows.isEmpty {
            return Set(try session.run(RecordTables.messagesIfAbsent, rows))
        }
        let own = rows.compactMap(\.key)
        if !own.isEmpty, try !session.run(RecordStatements.messagesKept, own).isEmpty {
            throw BatchRecording.messageIsThere
        }
        try new.write(rows, to: RecordTables.messages, on: session)
        return Set(rows.map(\.id))
    }

    // MARK: Holders

    private func writeLinks(on session: borrowing Session) throws(DatabaseError) {
        let newLinks = plan.holders.newLinks.sorted { $0.holder < $1.holder }
            .compactMap { key in plan.holders.links[key].map { HolderKnowledge.NewLink(key: key, link: $0) } }
        if !newLinks.isEmpty { try session.enqueue(HolderTables.links.insert, newLinks) }
    }

    private func writeChanges(on session: borrowing Session) throws(DatabaseError) {
        let (changes, identities) = (plan.holders.newChanges, plan.holders.newIdentities)
        if !changes.isEmpty { try session.enqueue(HolderTables.changes.insert, changes) }
        if !identities.isEmpty { try session.enqueue(HolderTables.identities.insert, identities) }
    }
}
