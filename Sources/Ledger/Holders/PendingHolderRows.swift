import Postgres
import Vocabulary

/// The pending rows of the queries about holders. Nil: nothing of that kind was queried.
struct PendingHolderRows {
    let owners: OwnerLoader
    var links: [PendingRows<HolderStatements.LinkRow>] = []
    /// Anonymous holders whose links were queried.
    var lookedUp: [HolderKnowledge.LinkKey] = []
    var identities: PendingRows<HolderStatements.IdentityRow>?
    var registered: PendingRows<HolderKnowledge.LinkKey>?
    var owned: PendingRows<(Int64, Identifier)>?
    var restored: PendingRows<(Identifier, String)>?
    var changes: PendingChangeRows?
    var unfinished: PendingRows<HolderStatements.Unfinished>?
    /// Purchases that events concern without naming them.
    private(set) var purchases: Set<Identifier> = []
    /// Holders who have more purchases than one transaction takes, each with the last one taken.
    private(set) var through: [(holder: HolderKnowledge.LinkKey, last: Identifier)] = []
    private var transactions: PendingRows<BatchPlan.TransactionRow>?

    /// Sources with changes of holders.
    private let changing: Set<String>

    init(owners: OwnerLoader, changing: Set<String>) {
        self.owners = owners
        self.changing = changing
    }

    /// Waits for the purchases, then queries their newest transactions.
    mutating func enqueueTransactionQuery(on session: borrowing Session, purchasesMax limit: Int) throws(DatabaseError)
    {
        if let owned { (purchases, through) = owners.take(try session.answer(to: owned), limit: limit) }
        if let restored { for (purchase, _) in try session.answer(to: restored) { purchases.insert(purchase) } }
        guard !purchases.isEmpty else { return }
        transactions = try session.enqueueQuery(HolderStatements.newestTransactions, purchases.sorted())
    }

    /// - Parameter purchase: the id of the purchase with a hash.
    func knowledge(
        on session: borrowing Session, purchase id: (Identifier) -> Identifier?
    ) throws(DatabaseError) -> HolderKnowledge {
        var holders = HolderKnowledge(changing: changing)
        for pending in links {
            for (key, link) in try session.answer(to: pending) { holders.load(link, of: key) }
        }
        holders.markLookedUp(lookedUp)
        if let identities {
            for (key, identity) in try session.answer(to: identities) { holders.load(identity, of: key) }
        }
        if let registered {
            for install in try session.answer(to: registered) { holders.load(registered: install) }
        }
        for (holder, last) in through { holders.load(holder, through: last) }
        if let restored {
            for (purchase, name) in try session.answer(to: restored) { holders.add(name: name, of: purchase) }
        }
        if let transactions {
            for row in try session.answer(to: transactions) { holders.add(row) }
        }
        try changes?.add(to: &holders, on: session, purchase: id)
        if let unfinished {
            for unfinished in try session.answer(to: unfinished) {
                switch unfinished.change {
                case .success(let change): holders.load(unfinished: change)
                case .failure(let error): holders.leftOut[unfinished.row] = error
                }
            }
        }
        return holders
    }
}
