import Postgres
import Vocabulary

/// The pending rows of the queries about holders. Nil: nothing of that kind was queried.
struct HolderAnswers {
    let owners: OwnerLoading
    var links: [PendingRows<HolderStatements.LinkRow>] = []
    var identities: PendingRows<HolderStatements.IdentityRow>?
    var registered: PendingRows<HolderStatements.RegisteredRow>?
    var owned: PendingRows<(Int64, Identifier)>?
    var restored: PendingRows<(Identifier, String)>?
    var changes: ChangeAnswers?
    var unfinished: PendingRows<(Int64, String, String, String, String, String, String, String?, Int64)>?
    /// Purchases that events concern without naming them.
    private(set) var purchases: Set<Identifier> = []
    /// Holders who have more purchases than one transaction takes, each with the last one taken.
    private(set) var through: [(holder: HolderKnowledge.LinkKey, last: Identifier)] = []
    private var transactions: PendingRows<HolderStatements.TransactionRow>?

    /// Sources with changes of holders.
    private let changing: Set<String>

    init(owners: OwnerLoading, changing: Set<String>) {
        self.owners = owners
        self.changing = changing
    }

    /// Waits for the purchases, then queries their newest transactions.
    mutating func enqueueTransactionQuery(on session: borrowing Session, purchasesMax limit: Int) throws(DatabaseError)
    {
        if let owned { (purchases, through) = owners.take(try session.answer(to: owned), limit: limit) }
        if let restored { purchases.formUnion(try session.answer(to: restored).map(\.0)) }
        guard !purchases.isEmpty else { return }
        transactions = try session.enqueueQuery(HolderStatements.newestTransactions, purchases.sorted())
    }

    func knowledge(on session: borrowing Session) throws(DatabaseError) -> HolderKnowledge {
        var holders = HolderKnowledge(changing: changing)
        for pending in links {
            for row in try session.answer(to: pending) {
                let link = HolderKnowledge.Link(
                    userID: row.4, until: row.5.map { Timestamp(milliseconds: $0) },
                    asOf: Timestamp(milliseconds: row.6))
                let scope = Scope(source: row.0, app: row.1, environment: row.2)
                holders.load(link, of: HolderKnowledge.LinkKey(scope: scope, holder: .anonymous(row.3)))
            }
        }
        if let identities {
            for row in try session.answer(to: identities) {
                let scope = Scope(source: row.1, app: row.2, environment: row.3)
                holders.load(
                    HolderKnowledge.Identity(first: row.4, linked: row.5, isNamed: row.6),
                    of: HolderKnowledge.IdentityKey(scope: scope, identity: .user(row.0)))
            }
        }
        if let registered {
            for row in try session.answer(to: registered) {
                let scope = Scope(source: row.1, app: row.2, environment: row.3)
                holders.load(registered: HolderKnowledge.LinkKey(scope: scope, holder: .anonymous(row.0)))
            }
        }
        for (holder, last) in through { holders.load(holder, through: last) }
        if let restored {
            for row in try session.answer(to: restored) { holders.know(name: row.1, of: row.0) }
        }
        if let transactions {
            for row in try session.answer(to: transactions) { holders.know(Self.transaction(row), of: row.0) }
        }
        try changes?.add(to: &holders, on: session)
        if let unfinished {
            for row in try session.answer(to: unfinished) {
                let scope = Scope(source: row.1, app: row.2, environment: row.3)
                do throws(HolderChangeRow.Unreadable) {
                    holders.load(
                        unfinished: try HolderChangeRow(
                            row: row.0, scope: scope, subject: row.4, kind: row.5, target: row.6, second: row.7,
                            at: row.8))
                } catch {
                    holders.leftOut[row.0] = error
                }
            }
        }
        return holders
    }

    private static func transaction(_ row: HolderStatements.TransactionRow) -> Transaction {
        Transaction(
            storeTransactionID: row.1, storeOriginalTransactionID: row.2,
            purchasedAt: row.3.map { Timestamp(milliseconds: $0) },
            effectiveNextRenewalAt: row.4.map { Timestamp(milliseconds: $0) }, offerType: row.5, status: row.6)
    }
}
