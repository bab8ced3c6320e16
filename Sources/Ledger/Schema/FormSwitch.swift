import Postgres

/// The switch to `LedgerForm.timedKeys`: from then on event keys and purchase ids begin with a time.
///
/// A version before does not know such keys. If it came back after the switch (it was cut off, and its lease had
/// ended), it would record anew what is stored. So the switch takes from it what its INSERT into `identities` names, ON
/// CONFLICT (key): no unique index is over the key alone any more, because the new one is partial. The statement fails
/// (42P10), and the source repeats the webhook. Nothing else of that version is kept out.
enum FormSwitch {
    /// The form is in force once it is gone, and the unique indexes of `IndexMigration` are there.
    static let constraint = "identities_pkey"
    /// Logical replication knows a row by its primary key, or by all of it.
    static let statement = "ALTER TABLE identities DROP CONSTRAINT \(constraint), REPLICA IDENTITY FULL"

    /// Once the new indexes are there. On a connection of its own: it changes the session's time-outs.
    /// - Returns: whether it was done; if not, a later run tries again.
    static func run(on session: borrowing Session) throws(DatabaseError) -> Bool {
        guard try LedgerForm.oldest(on: session) >= .timedKeys,
            try SwitchGate.isOpen(after: 9, tables: ["identities"], on: session)
        else { return false }
        try session.script(SwitchGate.lockTimeout)
        do throws(DatabaseError) {
            try session.script(statement)
            return true
        } catch {
            if error.isLockTimeout { return false }
            throw error
        }
    }
}
