package import Postgres
package import Vocabulary

/// A purchase whose stated end has passed, and of which no webhook has said that it was renewed or ended.
package struct OverduePurchase: Sendable {
    fileprivate let id: Identifier
    package let scope: Scope
    /// The purchase's key.
    package let purchase: String
    package let product: String?
    package let store: String
    /// Storage keys of those who have it by the ledger's word: at most `holdersMax`.
    package let holders: [String]
    package let transaction: String?
    package let status: String?
    package let until: Timestamp
    /// Whether access goes on, by the leeway of its source.
    package let isActive: Bool

    static let holdersMax: Int32 = 10

    /// Those whose end passed first come first.
    ///
    /// - Parameters:
    ///   - source: only of this source; nil: of all.
    ///   - environment: only of this environment; nil: of all.
    package static func read(
        source: String? = nil, environment: String? = nil, after cursor: LookupCursor? = nil, limit: Int32,
        leeways: Leeways, from pool: Pool
    ) async throws(DatabaseError) -> LookupPage<OverduePurchase> {
        let place = cursor ?? .least
        let found = try await pool.withSession { session throws(DatabaseError) in
            try session.run(
                OverdueStatements.page,
                (place.number, place.identifier, source, environment, limit + 1, Self.holdersMax))
        }
        return LookupPage(found.map { OverduePurchase($0, leeways) }, limit: Int(limit)) {
            LookupCursor(number: $0.until.milliseconds, identifier: $0.id)
        }
    }

    private init(_ row: OverdueStatements.Row, _ leeways: Leeways) {
        let until = Timestamp(milliseconds: row.until)
        let access = TimedAccess(isGranted: true, until: until, store: row.store, leeway: leeways[row.source])
        id = row.id
        scope = Scope(source: row.source, app: row.app, environment: row.environment)
        purchase = row.key
        product = row.product
        store = row.store
        holders = row.holders
        transaction = ImportLine.shown(row.transaction)
        status = row.status
        self.until = until
        isActive = access.isActive(at: row.now)
    }
}

/// How many purchases of a source are overdue in an environment.
package struct OverdueFigures: Sendable, Hashable {
    package let source: String
    package let environment: String
    /// Access goes on, by the leeway of the source.
    package let active: Int
    /// Access has lapsed.
    package let lapsed: Int

    package init(source: String, environment: String, active: Int, lapsed: Int) {
        self.source = source
        self.environment = environment
        self.active = active
        self.lapsed = lapsed
    }

    /// Overdue purchases that are counted, those whose end passed last: purchases of a source that never says how they
    /// ended do not hide what is lost now.
    package static let countedMax: Int32 = 10_000
    /// Pages of as many ends that are looked at for them: where many purchases are renewed, most ends of the last hour
    /// are those of a period before, until upkeep deletes them.
    static let pagesMax = 10

    /// - Parameters:
    ///   - limit: no page is begun after that long; nil: all are.
    ///   - countedMax: another one only in tests.
    /// - Returns: those with any, by source and environment; nil: the ends of purchases from before an upgrade are not
    ///   all added yet, so that the figures would rise without a loss; or it took too long.
    package static func read(
        leeways: Leeways, from pool: Pool, within limit: Duration? = nil, countedMax: Int32 = OverdueFigures.countedMax
    ) async throws(DatabaseError) -> [OverdueFigures]? {
        let deadline = limit.map { ContinuousClock.now + $0 }
        return try await pool.withSession { session throws(DatabaseError) in
            if try session.run(OverdueStatements.isIncomplete, ()).first == true { return nil }
            var found: [OverdueFigures] = []
            var last = PurchaseEnds.Row(until: .max, purchase: Identifier(high: .max, low: .max))
            for _ in 0..<pagesMax {
                if let deadline, .now > deadline { return nil }
                let ends = try session.run(OverdueStatements.passed, (last.until, last.purchase, countedMax))
                let wanted = (leeways.names, leeways.milliseconds, ends.map(\.until), ends.map(\.purchase))
                found += try session.run(OverdueStatements.figures, wanted)
                guard let end = ends.last, ends.count == Int(countedMax),
                    found.reduce(0, { $0 + $1.active + $1.lapsed }) < countedMax
                else { break }
                last = end
            }
            return sums(found)
        }
    }

    /// By source and environment, in the order of their bytes.
    private static func sums(_ pages: [OverdueFigures]) -> [OverdueFigures] {
        var sums: [[[UInt8]]: OverdueFigures] = [:]
        for page in pages {
            let key = [Array(page.source.utf8), Array(page.environment.utf8)]
            sums[key] = OverdueFigures(
                source: page.source, environment: page.environment, active: page.active + (sums[key]?.active ?? 0),
                lapsed: page.lapsed + (sums[key]?.lapsed ?? 0))
        }
        return sums.sorted { left, right in
            left.key[0] == right.key[0]
                ? left.key[1].lexicographicallyPrecedes(right.key[1])
                : left.key[0].lexicographicallyPrecedes(right.key[0])
        }.map(\.value)
    }
}

enum OverdueStatements {
    struct Row: Sendable {
        let until: Int64
        let id: Identifier
        let source: String
        let app: String
        let environment: String
        let store: String
        let key: String
        let product: String?
        let transaction: String?
        let status: String?
        let holders: [String]
        let now: Timestamp
    }

    /// The purchase and its newest transaction of an end `e`, each found by itself.
    private static let joined: SQL = """
        CROSS JOIN LATERAL (SELECT * FROM purchases WHERE id = e.purchase LIMIT 1) AS p
        \(AccessEnd.newestTransaction(of: "e.purchase"))
        """

    private static let isOverdue: SQL = "\(AccessEnd.hasPassed) AND \(PurchaseEnds.isCurrent)"

    static let page = Statement<(Int64, Identifier, String?, String?, Int32, Int32), Row>(
        "overdue_page",
        """
        SELECT e.until_ms, p.id, p.source, p.app, p.environment, p.store, p.key, p.product, t.store_transaction_id,
               t.status,
               ARRAY (SELECT n.holder FROM entitlements n WHERE n.purchase = p.id AND \(PurchaseEnds.isOfSomebody)
                      ORDER BY n.holder LIMIT $6),
               \(AccessEnd.now)
        FROM purchase_ends e \(joined)
        WHERE (e.until_ms, e.purchase) > ($1, $2) AND e.until_ms <= \(AccessEnd.now) AND \(isOverdue)
          AND ($3 IS NULL OR p.source = $3) AND ($4 IS NULL OR p.environment = $4)
        ORDER BY e.until_ms, e.purchase LIMIT $5
        """, row: Row.init)

    static let isIncomplete = Statement<(), Bool>(
        "overdue_is_incomplete", "SELECT EXISTS (SELECT FROM purchase_ends_missing)")

    private static let goesOn = AccessEnd.goesOn(sources: "$1", leeways: "$2")

    /// Ends that have passed, before one of them ($1, $2), the newest first.
    static let passed = Statement<(Int64, Identifier, Int32), PurchaseEnds.Row>(
        "overdue_passed",
        """
        SELECT until_ms, purchase FROM purchase_ends
        WHERE (until_ms, purchase) < ($1, $2) AND until_ms <= \(AccessEnd.now)
        ORDER BY until_ms DESC, purchase DESC LIMIT $3
        """, row: PurchaseEnds.Row.init)

    static let figures = Statement<([String], [Int64?], [Int64], [Identifier]), OverdueFigures>(
        "overdue_figures",
        """
        SELECT p.source, p.environment, count(*) FILTER (WHERE \(goesOn)), count(*) FILTER (WHERE NOT \(goesOn))
        FROM unnest($3, $4) AS e (until_ms, purchase) \(joined)
        WHERE \(isOverdue)
        GROUP BY p.source, p.environment ORDER BY p.source, p.environment
        """, row: OverdueFigures.init)
}
