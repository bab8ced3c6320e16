package import Postgres

/// The forms in which the ledger is written.
///
/// Versions of Posthouse run side by side during an upgrade. An older daemon sets aside the webhooks of a purchase
/// whose state it cannot read, and cannot claim a message that lacks what it expects. So the newest form is written
/// only once every living daemon reads it. An older daemon that had no lease then and registers again fails at what it
/// cannot read, and loses nothing by it. One that is started anew refuses the newer schema (`Migrator`).
package enum LedgerForm: Int32, Sendable {
    /// The state of a purchase has no checksum, and no moves (`KeptMove`).
    case one = 1
    case two = 2
    /// A message that passes an event on has no key of its own (`messages.key`), and events are found without the
    /// indexes that `IndexMigration` drops.
    case three = 3

    package static let current = LedgerForm.three

    /// The newest form that every living daemon reads.
    package static func readByAll(on session: borrowing Session) throws(DatabaseError) -> LedgerForm {
        guard let oldest = try session.run(QueueStatements.ledgerForm, ()).first ?? nil else { return current }
        return LedgerForm(rawValue: min(oldest, current.rawValue)) ?? .one
    }
}
