import Postgres
import Vocabulary

/// Reads what is stored of a purchase: its webhooks, the statements about its holders, and the tables that its state is
/// checked against.
///
/// A statement about a holder names no purchase. It is found by the purchase's holders, of whom `entitlements`,
/// `transfers` and the webhooks name all: as what `holder_changes` keeps of its subject, and as what `events` keeps of
/// its holder, because `holder_changes` is pruned earlier. What it leads to is a holder, too, whose statements are read
/// in turn. A webhook of another purchase can state who a store's customer is: it is found by that purchase.
struct HistoryLoader {
    /// Webhooks of one page: their bodies are in memory together.
    static let pageRows: Int32 = 64
    /// Statements about the holders of one purchase that are read.
    static let statementsMax = 10_000

    private let purchase: Identifier
    private let mayLackName: Bool
    private let ownership: Ownership
    private let read: Repair.Reader
    private var history: PurchaseHistory
    private var holders: Set<Holder> = []
    private var names: Set<String> = []
    private var changes: [Int64: [HolderChangeRow]] = [:]
    private var statements: [Int64: PurchaseHistory.Item] = [:]
    private var receivedAt: [Int64: Timestamp] = [:]
    private var statementsRead = 0
    /// What transfers of other purchases say of installs.
    private var links: [PurchaseHistory.Item] = []
    /// First identifies: row of the event, with its identity and install.
    private var firsts: [Int64: (identity: String, install: String)] = [:]
    /// The database's time.
    private var now = Timestamp.distantFuture

    init(
        _ purchase: Identifier, hash: Identifier, scope: Scope, key: String, kind: Purchase.Kind, mayLackName: Bool,
        ownership: Ownership, read: @escaping Repair.Reader
    ) {
        self.purchase = purchase
        self.mayLackName = mayLackName
        self.ownership = ownership
        self.read = read
        history = PurchaseHistory(purchase: purchase, hash: hash, scope: scope, key: key, kind: kind)
    }

    consuming func run(
        eventsKept: Duration, on session: borrowing Session
    ) throws(DatabaseError) -> PurchaseHistory {
        try readHorizon(eventsKept, on: session)
        try readTables(on: session)
        try readWebhooks(on: session)
        try readStatements(on: session)
        return history
    }

    /// Webhooks may have been pruned once the ledger is older than they are kept.
    private mutating func readHorizon(_ kept: Duration, on session: borrowing Session) throws(DatabaseError) {
        guard let age = try session.run(RepairStatements.horizon, ()).first else { return }
        now = age.now
        let horizon = now.advanced(byMilliseconds: -kept.wholeMilliseconds)
        if let since = age.since, since < horizon { history.prunedBefore = horizon }
    }

    private mutating func readTables(on session: borrowing Session) throws(DatabaseError) {
        for row in try session.run(RepairStatements.entitlements, purchase) {
            let access = Access(isActive: row.isActive, asOf: row.asOf)
            history.entitlements.append(
                PurchaseHistory.Entitlement(holder: try holder(row.holder), access: access, event: row.event))
        }
        for row in try session.run(RepairStatements.transfers, purchase) {
            let pair = Timeline.Pair(from: try holder(row.from), to: try holder(row.to))
            history.transfers.append(
                PurchaseHistory.Transfer(id: row.id, pair: pair, ordinal: Int(row.ordinal), event: row.event))
        }
        history.transactions = try session.run(RepairStatements.transactions, purchase)
        names = Set(history.transactions.map(\.id)).union([history.key])
        holders.formUnion(history.entitlements.map(\.holder))
        for transfer in history.transfers { holders.formUnion([transfer.pair.from, transfer.pair.to]) }
    }

    private mutating func readWebhooks(on session: borrowing Session) throws(DatabaseError) {
        var last: Int64 = -1
        while true {
            let page = try session.run(RepairStatements.webhooks, (purchase, last, Self.pageRows))
            for row in page { add(webhook: try webhook(row)) }
            guard let end = page.last?.id, page.count == Int(Self.pageRows) else { return }
            last = end
        }
    }

    private mutating func add(webhook: StoredWebhook) {
        guard let found = read(webhook), found.event.purchase != nil else {
            history.unreadable += 1
            return
        }
        let event = found.event.stored(as: webhook)
        if let holder = event.holder { holders.insert(holder) }
        for fact in event.facts { holders.formUnion([fact.holder] + (fact.counterpart.map { [$0] } ?? [])) }
        if let transaction = event.transaction {
            names.insert(transaction.storeTransactionID)
            if let original = transaction.storeOriginalTransactionID { names.insert(original) }
        }
        history.items.append(
            PurchaseHistory.Item(row: webhook.row, key: webhook.key, event: event, facts: found.facts, isOwn: true))
    }

    // MARK: Statements about holders

    private mutating func readStatements(on session: borrowing Session) throws(DatabaseError) {
        let own = Set(history.items.map(\.row))
        let referenced = Set(history.entitlements.compactMap(\.event) + history.transfers.map(\.event))
        try readEvents(referenced.subtracting(own), on: session)
        var known: Set<Holder> = []
        var isFirst = true
        while true {
            let new = holders.subtracting(known)
            if new.isEmpty, !isFirst { break }
            known.formUnion(new)
            let subjects =
                new.map(\.storageKey).sorted()
                + (isFirst ? names.map(HolderChangeRow.transactionSubject).sorted() : [])
            isFirst = false
            try readChanges(of: subjects, on: session)
            try readEvents(of: new, on: session)
            try readEvents(Set(changes.keys).subtracting(own), on: session)
            let customers = customers
            if !customers.isEmpty { try readOthers(of: new, on: session) { $0.add($1, linking: customers) } }
        }
        if dependsOnLinks { try readOthers(of: holders, on: session) { $0.add(linking: $1) } }
        let pruned = changes.filter { !own.contains($0.key) && statements[$0.key] == nil }
        for (row, changes) in pruned {
            guard let first = changes.first else { continue }
            statements[row] = PurchaseHistory.Item(
                row: row, key: .ofRow(row), event: .pruned(first), facts: nil, isOwn: false)
        }
        let stated = statements.map { row, item in
            var item = item
            item.changes = changes[row] ?? []
            item.isFirstIdentify = isFirstIdentify(row, item.event)
            return item
        }
        history.items = (history.items + stated + links).sorted { $0.row < $1.row }
    }

    private mutating func readChanges(of subjects: [String], on session: borrowing Session) throws(DatabaseError) {
        let scope = history.scope
        let wanted = (subjects, scope.source, scope.app, scope.environment, Int32(Self.statementsMax))
        let rows = try session.run(RepairStatements.changes, wanted)
        if rows.count == Self.statementsMax { history.isCut = true }
        for row in rows {
            let change: HolderChangeRow
            do throws(HolderChangeRow.Unreadable) {
                change = try HolderChangeRow(
                    row: row.event, scope: scope, subject: row.subject, kind: row.kind, target: row.target,
                    second: row.secondTarget, at: row.at)
            } catch {
                history.unreadable += 1
                continue
            }
            changes[row.event, default: []].append(change)
            holders.formUnion(change.targets)
        }
    }

    /// Reads the events without a purchase of holders.
    private mutating func readEvents(of holders: Set<Holder>, on session: borrowing Session) throws(DatabaseError) {
        guard !holders.isEmpty else { return }
        let scope = history.scope
        let installs = holders.filter(\.isAnonymous).map(\.id).sorted()
        if !installs.isEmpty {
            let wanted = (installs, scope.source, scope.app, scope.environment)
            for row in try session.run(RepairStatements.firstIdentifies, wanted) where !row.wasKnown {
                firsts[row.event] = (row.identity, row.install)
            }
            if ownership == .exclusive { try readLinks(of: installs, on: session) }
        }
        var last: Int64 = -1
        while statementsRead < Self.statementsMax {
            let page = try session.run(
                RepairStatements.statements,
                (
                    holders.map(\.storageKey).sorted(), scope.source, scope.app, scope.environment, last,
                    Self.pageRows
                ))
            for row in page { add(statement: try webhook(row)) }
            guard let end = page.last?.id, page.count == Int(Self.pageRows) else { return }
            last = end
        }
        history.isCut = true
    }

    /// Reads who installs were known to be by transfers of other purchases: a restore and a grant depend on it.
    private mutating func readLinks(of installs: [String], on session: borrowing Session) throws(DatabaseError) {
        let scope = history.scope
        let wanted = (
            installs.map { Holder.anonymous($0).storageKey }, purchase, scope.source, scope.app, scope.environment,
            Int32(Self.statementsMax)
        )
        let rows = try session.run(RepairStatements.links, wanted)
        if rows.count == Self.statementsMax { history.isCut = true }
        for row in rows {
            let (from, to) = (try holder(row.from), try holder(row.to))
            let event = Event.transfer(from, to, in: scope, at: row.at)
            links.append(
                PurchaseHistory.Item(row: row.event, key: .ofRow(row.event), event: event, facts: nil, isOwn: false))
        }
    }

    /// Whether something depends on who an install was known to be: a restore whose row of `holder_changes` is pruned,
    /// or facts of a grant.
    private var dependsOnLinks: Bool {
        history.items.contains { $0.facts != nil }
            || statements.values.contains { item in
                if case .restore = item.event.change { changes[item.row] == nil } else { false }
            }
    }

    /// Reads the webhooks of holders that name other purchases. Their bodies must be read for it, so only where
    /// something depends on it.
    private mutating func readOthers(
        of holders: Set<Holder>, on session: borrowing Session, add: (inout HistoryLoader, StoredWebhook) -> Void
    ) throws(DatabaseError) {
        let scope = history.scope
        let keys = holders.map(\.storageKey).sorted()
        var (last, count): (Int64, Int) = (-1, 0)
        while count < Self.statementsMax {
            let page = try session.run(
                RepairStatements.others,
                (keys, scope.source, scope.app, scope.environment, purchase, last, Self.pageRows))
            for row in page where statements[row.id] == nil { add(&self, try webhook(row)) }
            guard let end = page.last?.id, page.count == Int(Self.pageRows) else { return }
            (last, count) = (end, count + page.count)
        }
        history.isCut = true
    }

    /// The anonymous holders under whom other purchases may be, too, and whom webhooks of those link: a store's
    /// customers. A store's id of this purchase is no other's, and an install is linked by no webhook of a purchase.
    private var customers: Set<Holder> {
        guard mayLackName else { return [] }
        let facts = history.items.flatMap(\.event.facts)
        let installs = facts.filter(\.isGiven).map(\.holder)
        return holders.filter { $0.isAnonymous && !$0.id.hasSameBytes(as: history.key) }.subtracting(installs)
    }

    /// Takes who one of these customers is, as a webhook of another purchase states it.
    private mutating func add(_ webhook: StoredWebhook, linking customers: Set<Holder>) {
        guard let event = read(webhook)?.event, case .move(let from, _, _) = event.change,
            !customers.isDisjoint(with: from)
        else { return }
        add(statement: webhook)
    }

    /// Takes who installs were known to be by a webhook of another purchase.
    private mutating func add(linking webhook: StoredWebhook) {
        guard let event = read(webhook)?.event.stored(as: webhook), !event.links.isEmpty else { return }
        links.append(
            PurchaseHistory.Item(
                row: webhook.row, key: webhook.key, event: event.linkingAlone, facts: nil, isOwn: false))
    }

    /// Reads these events, as far as they are stored and not read yet.
    private mutating func readEvents(_ rows: Set<Int64>, on session: borrowing Session) throws(DatabaseError) {
        let wanted = rows.filter { statements[$0] == nil }.sorted()
        for start in stride(from: 0, to: wanted.count, by: Int(Self.pageRows)) {
            let page = Array(wanted[start..<min(start + Int(Self.pageRows), wanted.count)])
            for row in try session.run(RepairStatements.byRow, page) { add(statement: try webhook(row)) }
        }
    }

    private mutating func add(statement webhook: StoredWebhook) {
        guard statements[webhook.row] == nil else { return }
        statementsRead += 1
        guard let event = read(webhook)?.event.stored(as: webhook).aboutHolders else { return }
        statements[webhook.row] = PurchaseHistory.Item(
            row: webhook.row, key: webhook.key, event: event, facts: nil, isOwn: false)
        receivedAt[webhook.row] = webhook.receivedAt
        switch event.change {
        case .move(let from, let to, _): holders.formUnion(from + [to])
        case .identify(let install, let identity), .claim(let install, let identity, _):
            holders.formUnion([.anonymous(install), .user(identity)])
        case .restore(let install, let transactions, _):
            if !names.isDisjoint(with: transactions) { holders.insert(.anonymous(install)) }
        case .kept(let kept):
            if case .holder(let from) = kept.subject { holders.formUnion([from, kept.target]) }
        case .endSessions, .register, .first, nil: break
        }
    }

    /// Whether a login that no row of `holder_changes` keeps any more shared what its install had. As long as those
    /// rows are not pruned, one without a row shared nothing. After that `install_identities` names it, nothing stored
    /// before names the identity, and the identity is known as a holder of the purchase. In doubt it shared nothing:
    /// access that it gave is then in `entitlements`, and is kept from there (`MissingHistory.entitlements`).
    private func isFirstIdentify(_ row: Int64, _ event: Event) -> Bool {
        switch event.change {
        case .identify(let install, let identity), .claim(let install, let identity, _):
            let newest = max(receivedAt[row] ?? event.occurredAt, event.occurredAt)
            guard newest < now.advanced(byMilliseconds: -Limits.retryHorizonMilliseconds), let first = firsts[row]
            else { return false }
            return first.install.hasSameBytes(as: install) && first.identity.hasSameBytes(as: identity)
                && history.entitlements.contains { $0.holder == .user(identity) }
        case .move, .register, .endSessions, .restore, .kept, .first, nil: return false
        }
    }

    // MARK: Rows

    private func webhook(_ row: RepairStatements.WebhookRow) throws(DatabaseError) -> StoredWebhook {
        StoredWebhook(
            row: row.id, key: row.key, scope: history.scope, vendorEventID: row.vendorEventID, name: row.name,
            holder: row.holder.isEmpty ? nil : try holder(row.holder), occurredAt: row.occurredAt,
            receivedAt: row.receivedAt, storeTransactionID: row.storeTransactionID, body: row.body,
            answer: row.answer)
    }

    private func holder(_ text: String) throws(DatabaseError) -> Holder {
        guard let holder = Holder(storageKey: text) else {
            throw .protocolViolation(reason: "a holder of purchase \(purchase.hex) cannot be read")
        }
        return holder
    }
}

extension Identifier {
    /// Stands for the key of an event of which only the row is known.
    fileprivate static func ofRow(_ row: Int64) -> Identifier { Identifier(high: 0, low: UInt64(bitPattern: row)) }
}
