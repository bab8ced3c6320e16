package import Postgres

/// The forms in which the state of a purchase is stored (`PurchaseState.bytes`).
///
/// Versions of Posthouse run side by side during an upgrade, and an older daemon sets aside the webhooks of a purchase
/// that it cannot read. So the newest form is written only once every living daemon reads it. An older daemon that had
/// no lease then and registers again finds purchases that it cannot read: their webhooks wait in quarantine. One that
/// is started anew refuses the newer schema (`Migrator`).
package enum StateForm: Int32, Sendable {
    /// Without a checksum; knows no moves (`KeptMove`).
    case one = 1
    case two = 2

    package static let current = StateForm.two

    /// The newest form that every living daemon reads.
    package static func readByAll(on session: borrowing Session) throws(DatabaseError) -> StateForm {
        guard let oldest = try session.run(QueueStatements.stateForm, ()).first ?? nil else { return current }
        return StateForm(rawValue: min(oldest, current.rawValue)) ?? .one
    }
}
