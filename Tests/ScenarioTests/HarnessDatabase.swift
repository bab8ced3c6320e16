import Foundation
import TestSupport

/// What the ledger says, asked through libpq, which is not ours.
struct Database: Sendable {
    let connectionString: String

    init(connectionString: String) { self.connectionString = connectionString }

    /// The private cluster of a daemon that runs, by what its postmaster.pid says (PostgreSQL's miscadmin.h: line 5 is
    /// the directory of the socket).
    init(privateClusterIn directory: String) throws {
        let lines = try String(contentsOfFile: directory + "/postmaster.pid", encoding: .utf8)
            .split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count > 4 else { throw HarnessFailure("\(directory)/postmaster.pid is not complete") }
        connectionString = "host=\(lines[4]) user=posthouse dbname=posthouse"
    }

    /// The rows that `sql` gives, each column as PostgreSQL writes it; null is "". A daemon that analyses a table takes
    /// the locks of its partitions in another order than a change of the table does: what a deadlock ended is done
    /// again.
    @discardableResult
    func rows(_ sql: String) throws -> [[String]] {
        var left = 5
        while true {
            do {
                return try Query.rows(sql, on: connectionString)
            } catch {
                left -= 1
                if left == 0 || !error.description.contains("deadlock detected") { throw error }
            }
        }
    }

    /// The first column of the first row.
    func value(_ sql: String) throws -> String { try rows(sql).first?.first ?? "" }

    func count(_ table: String, where condition: String = "true") throws -> Int {
        Int(try value("SELECT count(*) FROM \(table) WHERE \(condition)")) ?? -1
    }

    /// Waits until no delivery is left to do.
    func drained(within seconds: Double = 180) throws -> Bool {
        try eventually(within: seconds) { try count("deliveries") == 0 }
    }

    /// Who has access: storage keys of holders by the vendor's key of the purchase.
    func access() throws -> [String: [String: Bool]] {
        var access: [String: [String: Bool]] = [:]
        let sql = "SELECT p.key, e.holder, e.active FROM entitlements e JOIN purchases p ON p.id = e.purchase"
        for row in try rows(sql) { access[row[0], default: [:]][row[1]] = row[2] == "t" }
        return access
    }
}
