package import Postgres
package import Vocabulary

/// Why a ledger was not moved. Unless a case says otherwise, the rows of both databases are unchanged.
package enum MoveFailure: Error, CustomStringConvertible {
    case source(DatabaseError)
    /// `.commitUnknown`: it may have been moved.
    case target(DatabaseError)
    /// The target's PostgreSQL is set up in a way that could lose what is acknowledged.
    case unfit(Durability.Refusal)
    /// A daemon would not find there what is moved.
    case elsewhere
    case schema(MigrationError)
    /// Somebody else holds locks on the target's tables.
    case locked
    /// Daemons use the target.
    case inUse(daemons: Int)
    /// The target holds a ledger.
    case occupied(tables: [String])
    /// The target holds this same ledger, and one of the two has changed since.
    case diverged(table: String, at: Timestamp)
    /// The target lacks a table of the source, so it is not one of Posthouse's.
    case unknownTable(String)
    /// The rows counted in the target are not those that were read.
    case miscounted(table: String, source: Int, target: Int)
    case notMarked(reason: String)
    case givenUp

    package var description: String {
        switch self {
        case .source(let error): "the private cluster: \(error)"
        case .target(.commitUnknown(let reason)):
            "the target was cut off as it committed (\(reason)): run this again, it finds out and goes on"
        case .target(let error): "the target: \(error)"
        case .unfit(let refusal): "the target: \(refusal)"
        case .elsewhere:
            "[database] direct_url leads to another database than url, where the daemon would not find what is moved: "
                + "let both lead to one"
        case .schema(let error): "the target: \(error)"
        case .locked:
            "something else works on the tables of the target (a call of this command that still ends, a backup, a "
                + "daemon that starts): try it again when that is done"
        case .inUse(let daemons):
            "\(daemons == 1 ? "a daemon works" : "\(daemons) daemons work") on the target: stop every daemon that uses "
                + "it (systemctl stop posthouse.socket posthouse); the lease of a killed one runs out in "
                + "\(Limits.leaseDuration.wholeMilliseconds / 1_000) s"
        case .occupied(let tables):
            "the target holds a ledger already (rows in \(tables.joined(separator: ", "))): two cannot become one; name "
                + "an empty database"
        case .diverged(let table, let time):
            "the target holds the ledger of this cluster as it was moved at \(time.iso8601), and one of the two has "
                + "changed since (\(table)); if that is how it should be there is nothing left to move"
        case .unknownTable(let name):
            "the table \(name) of the private cluster is not one of Posthouse's: move it by hand (pg_dump -t), then "
                + "drop it there"
        case .miscounted(let table, let source, let target):
            "of \(source) rows of \(table) the target counts \(target): it does not keep what it is given; has it "
                + "triggers or rules of its own?"
        case .notMarked(let reason): "the private cluster could not be marked as moved: \(reason)"
        case .givenUp: "given up"
        }
    }

    /// Whether it proves that the ledger is not in the target, whatever an earlier call did.
    package var provesAbsence: Bool {
        switch self {
        case .schema, .occupied, .unknownTable, .miscounted, .notMarked, .givenUp: true
        case .source, .target, .unfit, .elsewhere, .locked, .inUse, .diverged: false
        }
    }
}
