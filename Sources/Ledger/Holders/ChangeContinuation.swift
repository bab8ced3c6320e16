import Postgres
import Vocabulary

/// Applies a change that concerns more purchases of its holder than one transaction moves to the next of them, in a
/// transaction of its own. The change's row records how far it is; running a step twice changes nothing the second
/// time, because each change is idempotent.
///
/// A webhook of a purchase that was not moved yet moves it first (`BatchPlan.applyUnfinishedChanges`).
struct ChangeContinuation {
    /// A change that is not applied to all purchases yet.
    private struct Unfinished {
        let row: Int64
        let change: HolderChangeRow
        /// Row of the event that stated it.
        let event: Int64
        let appliedThrough: Identifier
    }

    /// The event that stated the change, as far as messages quote it.
    private struct Cause {
        let event: BatchPlan.New
        /// The database's time.
        let now: Timestamp
    }

    let recorder: RecordEvents

    /// Applies the oldest unfinished change to its next purchases.
    ///
    /// Order of locks: the change, the source, purchases. The source's lock is shared with webhooks: only a batch that
    /// states a change must not run at the same time, because the two would not see each other's purchases.
    /// - Parameters:
    ///   - skipped: rows of changes that failed.
    ///   - row: becomes the row of the change that is applied further.
    /// - Returns: nil if nothing is left, or another transaction has it.
    func run(
        without skipped: Set<Int64>, on session: borrowing Session, row: inout Int64?, reserved: inout Reservations
    ) throws(DatabaseError) -> RecordEvents.Committed? {
        // A daemon whose configuration lacks the source does not know how its purchases are held.
        let sources = recorder.rules.keys.sorted()
        guard let found = try session.run(HolderStatements.unfinished, (skipped.sorted(), sources)).first else {
            return nil
        }
        row = found.0
        let unfinished: Unfinished
        do throws(HolderChangeRow.Unreadable) {
            unfinished = try Self.unfinished(found)
        } catch {
            return RecordEvents.Committed(leftOut: [found.0: error])
        }
        return try apply(unfinished, on: session, reserved: &reserved)
    }

    private func apply(
        _ unfinished: Unfinished, on session: borrowing Session, reserved: inout Reservations
    ) throws(DatabaseError) -> RecordEvents.Committed {
        let change = unfinished.change
        try session.enqueue(HolderStatements.lockShared, KeyHash.lock(ofSource: change.scope.source))
        var committed = RecordEvents.Committed()
        guard let cause = try cause(of: unfinished, on: session) else {
            try session.enqueue(HolderStatements.advance, (unfinished.row, nil))
            committed.happenings.append(
                .warning("a change of holder \(change.subject) is not applied further: its event is not kept any more"))
            return committed
        }
        let answers = try HolderLoading(continuing: change, after: unfinished.appliedThrough)
            .enqueueQueries(on: session, purchasesMax: recorder.changePurchasesMax)
        let locked = try session.enqueueQuery(RecordStatements.lockPurchases, answers.purchases.sorted())
        let purchases = LoadedPurchases(try session.answer(to: locked))
        let plan = try purchases.plan(
            try answers.knowledge(on: session), rules: recorder.rules, on: session
        ) { $0.continueChange(change, of: cause.event) }
        let write = BatchWrite(
            plan: plan, recorder: recorder, queueReads: QueueReads(recorder.routes), createdAt: cause.now)
        _ = try write.run(on: session, reserved: &reserved, into: &committed)
        for id in purchases.unreadable.keys.sorted() {
            committed.happenings.append(.warning(RecordEvents.leftOut(id)))
        }
        try session.enqueue(HolderStatements.advance, (unfinished.row, answers.through.first?.last))
        return committed
    }

    private static func unfinished(
        _ row: HolderStatements.UnfinishedRow
    ) throws(HolderChangeRow.Unreadable) -> Unfinished {
        let change = try HolderChangeRow(
            row: row.0, scope: Scope(source: row.1, app: row.2, environment: row.3), subject: row.4, kind: row.5,
            target: row.6,
            second: row.7, at: row.8)
        return Unfinished(row: row.0, change: change, event: row.9, appliedThrough: row.10)
    }

    private func cause(of unfinished: Unfinished, on session: borrowing Session) throws(DatabaseError) -> Cause? {
        guard let row = try session.run(HolderStatements.cause, unfinished.event).first else { return nil }
        guard let holder = Holder(storageKey: row.4) else {
            throw .protocolViolation(reason: "the holder of event \(unfinished.event) cannot be read")
        }
        let event = Event(
            scope: unfinished.change.scope, vendorEventID: row.1, name: row.2, type: row.3, holder: holder,
            occurredAt: unfinished.change.at, purchase: nil, transaction: nil, body: row.5)
        return Cause(
            event: BatchPlan.New(event, key: row.0, row: unfinished.event), now: Timestamp(milliseconds: row.6))
    }
}
