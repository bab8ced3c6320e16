import Postgres
import Vocabulary

/// Applies a change that concerns more purchases of its holder than one transaction moves to the next of them, in a
/// transaction of its own. The change's row records how far it is; running a step twice changes nothing the second
/// time, because each change is idempotent.
///
/// A webhook of a purchase that was not moved yet moves it first (`BatchPlan.applyUnfinishedChanges`).
struct ChangeContinuation {
    let recording: BatchRecording

    /// Applies the oldest unfinished change to its next purchases.
    ///
    /// Order of locks (Architecture.md, "Locks"): sources, the change, purchases. The sources' locks are shared with
    /// webhooks; a batch that states a change and an erasure take them alone, because the first would not see the
    /// purchases that this one moves, and the second removes the change.
    /// - Parameters:
    ///   - skipped: rows of changes that are not to be continued now.
    ///   - row: becomes the row of the change that is applied further.
    /// - Returns: nil if nothing is left, or another transaction has it.
    func run(
        without skipped: Set<Int64>, on session: borrowing Session, row: inout Int64?, reserved: inout Reservations
    ) throws(DatabaseError) -> BatchRecording.Committed? {
        // A daemon whose configuration lacks the source does not know how its purchases are held.
        let wanted = (skipped.sorted(), recording.rules.keys.sorted())
        let sources = try session.run(HolderStatements.unfinishedSources, wanted)
        if sources.isEmpty { return nil }
        try session.lockShared(sources: sources)
        // Read under the locks: an erasure may have removed the change before.
        guard let unfinished = try session.run(HolderStatements.unfinished, (wanted.0, sources)).first else {
            return nil
        }
        row = unfinished.row
        switch unfinished.change {
        case .success(let change): return try apply(change, of: unfinished, on: session, reserved: &reserved)
        case .failure(let error): return BatchRecording.Committed(leftOut: [unfinished.row: error])
        }
    }

    private func apply(
        _ change: HolderChangeRow, of unfinished: HolderStatements.Unfinished, on session: borrowing Session,
        reserved: inout Reservations
    ) throws(DatabaseError) -> BatchRecording.Committed {
        var committed = BatchRecording.Committed()
        guard let cause = try session.run(HolderStatements.cause, unfinished.event).first else {
            try session.enqueue(HolderStatements.advance, (unfinished.row, nil))
            committed.observations.append(
                .warning(
                    "the remaining purchases of holder \(change.subject) are not moved: the event that moves them was "
                        + "pruned"))
            return committed
        }
        guard let event = Self.event(of: change, cause, row: unfinished.event) else {
            let column = "holder of row \(unfinished.event) of events"
            committed.leftOut = [unfinished.row: HolderChangeRow.Unreadable(row: unfinished.row, column: column)]
            return committed
        }
        let pending = try HolderLoader(continuing: change, after: unfinished.appliedThrough)
            .enqueueQueries(in: recording.ledgerForm, on: session, purchasesMax: recording.changePurchasesMax)
        let locked = try session.enqueueQuery(RecordStatements.lockPurchases, pending.purchases.sorted())
        let purchases = LoadedPurchases(try session.answer(to: locked))
        let plan = try purchases.plan(
            try pending.knowledge(on: session) { _ in nil }, rules: recording.rules, in: recording.ledgerForm,
            on: session
        ) { $0.continueChange(change, of: event) }
        let write = BatchWrite(
            plan: plan, recording: recording, queueReads: QueueReads(recording.routes), createdAt: cause.now)
        _ = try write.run(on: session, reserved: &reserved, into: &committed)
        for id in purchases.unreadable.keys.sorted() {
            committed.observations.append(.warning(BatchRecording.leftOut(id)))
        }
        try session.enqueue(HolderStatements.advance, (unfinished.row, pending.through.first?.last))
        return committed
    }

    /// - Returns: the event that stated the change, as far as messages quote it; nil if its holder cannot be read.
    private static func event(
        of change: HolderChangeRow, _ cause: HolderStatements.Cause, row: Int64
    ) -> BatchPlan.PlannedEvent? {
        guard let holder = Holder(storageKey: cause.holder) else { return nil }
        let event = Event(
            scope: change.scope, vendorEventID: cause.vendorEventID, name: cause.name, type: cause.type,
            holder: holder, occurredAt: change.at, purchase: nil, transaction: nil, body: cause.body)
        return BatchPlan.PlannedEvent(event, key: cause.key, row: row)
    }
}
