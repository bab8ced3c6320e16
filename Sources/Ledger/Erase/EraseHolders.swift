import Postgres
import Vocabulary

/// The person's purchases, and the rows beside them that name the person.
extension Erasure {
    /// Finds the purchases that name the person in their state, their key or what is known of access, by source. It
    /// reads every purchase, so no lock is held meanwhile; what is recorded after it was read is found by its rows
    /// (`EraseStatements.held`).
    func findPurchases(in pool: Pool) async throws(DatabaseError) -> [String: Set<Identifier>] {
        let (needles, keyParts, keys) = (ids.map(\.stateNeedle), ids.map(\.keyPart.found), storageKeys)
        var rows = EraseScans.pageRows(needles: needles.count + keyParts.count + keys.count)
        var (after, found): (Identifier, [String: Set<Identifier>]) = (Identifier(high: 0, low: 0), [:])
        while true {
            let page = try await readPage(of: &rows, in: pool) { [source, after] rows, session throws(DatabaseError) in
                try session.run(EraseScans.purchases, (needles, after, rows, source, keyParts, keys))
            }
            for purchase in page where purchase.isHit { found[purchase.source, default: []].insert(purchase.id) }
            guard let last = page.last?.id, page.count == Int(rows) else { return found }
            after = last
        }
    }

    /// Erases the person from the purchases of each source and from the rows beside them.
    /// - Parameter found: what `findPurchases` found.
    /// - Returns: false if it was overtaken (`Tally.isOvertaken`); the sources before were erased.
    func eraseHolders(
        _ found: [String: Set<Identifier>], in pool: Pool, _ own: inout Own
    ) async throws(DatabaseError) -> Bool {
        let wanted = (storageKeys, anonymousIDs, source)
        let naming = try await pool.withSession { session throws(DatabaseError) in
            try session.run(EraseStatements.sources, wanted)
        }
        for source in Set(naming).union(found.keys).sorted() {
            let erased = try await pool.retriedTransaction { session throws(DatabaseError) in
                try eraseHolders(of: source, found[source] ?? [], on: session)
            }
            guard let erased else { return false }
            own.purchases.formUnion(erased)
        }
        return true
    }

    /// Erases the person from one source's purchases and changes of holders, while nothing of the source is recorded:
    /// no webhook meets a purchase in which the person has another name than in the changes.
    ///
    /// - Returns: the purchases; nil if webhooks of the person came meanwhile: their purchases must not be renamed
    ///   before they are gone; or if an own holder has become somebody else's, or a change of holders concerns the
    ///   person.
    private func eraseHolders(
        of source: String, _ found: Set<Identifier>, on session: borrowing Session
    ) throws(DatabaseError) -> Set<Identifier>? {
        if !isDry {
            try session.enqueue(HolderStatements.lock, session.halfLockKey(KeyHash.lock(ofSource: source)))
            if try session.run(EraseStatements.hasArrivals, (storageKeys, source)).first ?? true { return nil }
            if try isMoving(on: session) { return nil }
            if try isShared(on: session) { return nil }
        }
        let held = try session.run(EraseStatements.held, (storageKeys, source))
        let purchases = found.union(held).sorted()
        let form = try LedgerForm.readByAll(on: session)
        var erased: Set<Identifier> = []
        for start in stride(from: 0, to: purchases.count, by: Int(Self.stepMax)) {
            let step = Array(purchases[start..<min(start + Int(Self.stepMax), purchases.count)])
            let readings = try read(step, on: session)
            if !isDry { try session.enqueue(KnownAccessStatements.write, step) }
            for purchase in readings where purchase.isAlone || purchase.isNamed || purchase.isKnown {
                erased.insert(purchase.row.id)
                if purchase.isAlone {
                    try delete(purchase, on: session)
                } else if purchase.isNamed {
                    try rename(purchase, form, on: session)
                }
            }
        }
        if isDry { return erased }
        _ = try session.execute(EraseStatements.transfers, (storageKeys, source))
        _ = try session.execute(EraseStatements.entitlements, (storageKeys, source))
        _ = try session.execute(EraseStatements.installs, (anonymousIDs, source))
        _ = try session.execute(EraseStatements.changes, (storageKeys, source))
        _ = try session.execute(
            EraseStatements.changeTargets, (storageKeys, ids.map(\.standIn.storageKey), source))
        return erased
    }

    /// Deletes those of the purchases that are the person's alone, once the person has no events of them.
    /// - Returns: those that were deleted.
    func deleteAlone(
        _ purchases: [Identifier], on session: borrowing Session
    ) throws(DatabaseError) -> Set<Identifier> {
        var alone: Set<Identifier> = []
        for purchase in try read(purchases, on: session) where purchase.isAlone {
            // While the person has events of it, a later round deletes it, and counts it.
            guard isDry || !purchase.company.hasOwn else { continue }
            alone.insert(purchase.row.id)
            try delete(purchase, on: session)
        }
        return alone
    }

    /// A locked purchase, and what the person has of it.
    private struct Reading {
        let row: RecordTables.PurchaseRow
        let state: PurchaseState
        let company: EraseStatements.Company
        /// The key without the person's ids.
        let key: String
        /// Whether the purchase names the person.
        let isNamed: Bool
        /// Whether what is known of access does (`KnownAccess`), which an erasure empties.
        let isKnown: Bool
        /// Whether it is nobody else's. Whoever was erased before is nobody.
        let isAlone: Bool
    }

    private func read(
        _ purchases: [Identifier], on session: borrowing Session
    ) throws(DatabaseError) -> [Reading] {
        guard !purchases.isEmpty else { return [] }
        let rows = try session.run(RecordStatements.lockPurchases, purchases)
        let company = Dictionary(
            firstOf: try session.run(EraseStatements.company, (purchases, storageKeys)), by: \.purchase)
        var readings: [Reading] = []
        for row in rows { if let company = company[row.id] { readings.append(try read(row, company)) } }
        return readings
    }

    private func read(
        _ row: RecordTables.PurchaseRow, _ company: EraseStatements.Company
    ) throws(DatabaseError) -> Reading {
        let state = try Self.state(row.state, of: row.id)
        let erased = Set(holders)
        let key = ids.renaming(key: row.key)
        let isNamed =
            !state.holders.isDisjoint(with: erased) || ids.occur(inLines: state.unknownLines)
            || !key.utf8.elementsEqual(row.key.utf8)
        return Reading(
            row: row, state: state, company: company, key: key, isNamed: isNamed,
            isKnown: !KnownAccess.holders(in: row.access).isDisjoint(with: erased),
            isAlone: !company.hasOthers && state.holders.allSatisfy { erased.contains($0) || ErasedID.isStandIn($0) })
    }

    private func delete(_ purchase: Reading, on session: borrowing Session) throws(DatabaseError) {
        if !isDry { try session.enqueue(EraseStatements.deletePurchase, purchase.row.id) }
    }

    /// Replaces the person by a nameless holder.
    ///
    /// What a newer version added to the state can be neither renamed nor dropped by this one without damage to the
    /// purchase, so the person's id in it is an error.
    private func rename(
        _ purchase: Reading, _ form: LedgerForm, on session: borrowing Session
    ) throws(DatabaseError) {
        if ids.occur(inLines: purchase.state.unknownLines) {
            throw .protocolViolation(
                reason: """
                    a newer version of Posthouse wrote the state of purchase \(purchase.row.id.hex) and names the person \
                    where this version cannot read it; posthouse erase of that version erases it. Purchases of this \
                    source were not changed
                    """)
        }
        if isDry { return }
        let subscriptionID = purchase.row.subscriptionID.map { ids.renaming(key: $0) }
        try session.enqueue(
            EraseStatements.rewritePurchase,
            (purchase.row.id, purchase.state.renaming(ids).bytes(form), purchase.key, subscriptionID))
    }
}
