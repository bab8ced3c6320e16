package import Postgres
import Vocabulary

/// What an upgrade to the first version that ends access by the clock changes in the answers about a ledger.
package enum TimedAccessUpgrade {
    /// Holders of a source in an environment that a version before answers as active, and this one does not.
    package struct Change: Sendable, Hashable {
        package let source: String
        package let environment: String
        package let holders: Int
    }

    /// The migration by which an upgraded ledger is known.
    private static let migration: Int32 = 15

    static let statement = Statement<([String], [Int64?]), Change>(
        "ends_upgrade",
        """
        SELECT p.source, p.environment, count(DISTINCT n.holder)
        FROM entitlements n JOIN purchases p ON p.id = n.purchase \(AccessEnd.newestTransaction(of: "p.id"))
        WHERE n.active AND p.store <> 'MANUAL' AND NOT \(AccessEnd.goesOn(sources: "$1", leeways: "$2"))
        GROUP BY p.source, p.environment ORDER BY p.source, p.environment
        """, row: Change.init)

    /// Reads the whole ledger, so only before the upgrade.
    ///
    /// - Returns: by source and environment, those with any; empty if the ledger is upgraded already, or has no schema.
    package static func changes(leeways: Leeways, in pool: Pool) async throws -> [Change] {
        try await pool.withSession { session throws(DatabaseError) in
            guard try session.run(Migrator.exists, ()).first == true,
                let last = try session.run(Migrator.applied, ()).last?.0, last < migration
            else { return [] }
            return try session.run(statement, (leeways.names, leeways.milliseconds))
        }
    }
}
