package import Postgres

/// The forms in which the ledger is written.
///
/// Versions of Posthouse run side by side during an upgrade. An older daemon sets aside the webhooks of a purchase
/// whose state it cannot read, and cannot claim a message that lacks what it expects. So the newest form is written
/// only once every living daemon reads it. An older daemon that had no lease then and registers again fails at what it
/// cannot read, and loses nothing by it. One that is started anew refuses the newer schema (`Migrator`).
package enum LedgerForm: Int32, Comparable, Sendable {
    /// The state of a purchase has no checksum, and no moves (`KeptMove`).
    case plain = 1
    /// The state of a purchase has both.
    case checksum = 2
    /// A message that passes an event on has no key of its own (`messages.key`), and events are found without the
    /// indexes that `IndexMigration` drops.
    case keylessMessages = 3
    /// Event keys and the ids of purchases begin with a time, so that what comes at one time is written to the same
    /// pages of their indexes. Older ones stay as they are, and are looked for beside them. Once `FormSwitch` has
    /// switched to this form, versions before cannot record any more. (What two events of one moment state of their
    /// transaction: the greater key wins. Across the switch that is mostly the one that came first.)
    case timedKeys = 4

    /// Events and messages lie in periods (`PeriodSwitch`). No row looks different, but versions before name a unique
    /// index over messages that is gone then.
    case periods = 5
    /// An entitlement row is written where its `active` changes; the rest is stored with the purchase (`KnownAccess`).
    /// A version before would say that access is as old as the row, and name the event of that time; so does an older
    /// daemon that registers again, until the purchase's next webhook. It needs no switch of its own, but those before.
    case sparseEntitlements = 6
    /// The state of a purchase has whom its store said (`HolderName.Kind.said`). Before, those that count are gains,
    /// and nothing says what the store said last. It needs no switch of its own, but those before.
    case saidNames = 7

    package static let current = LedgerForm.saidNames

    /// The migration that came with `current`, and the form before: as long as a ledger has not the one, a daemon of a
    /// version that reads the other may be started.
    static let migration: Int32 = 21
    private static let former = LedgerForm.sparseEntitlements

    package static func < (left: LedgerForm, right: LedgerForm) -> Bool { left.rawValue < right.rawValue }

    /// The form to write in: the newest that every living daemon reads.
    package static func readByAll(on session: borrowing Session) throws(DatabaseError) -> LedgerForm {
        guard let switched = LedgerForm(rawValue: try session.run(switched, ()).first ?? 0) else {
            return min(try oldest(on: session), .keylessMessages)
        }
        if switched < .periods { return switched }
        return max(switched, try oldest(on: session))
    }

    /// The oldest of the newest forms that the living daemons read, and any that may still be started.
    static func oldest(on session: borrowing Session) throws(DatabaseError) -> LedgerForm {
        guard let oldest = try session.run(QueueStatements.ledgerForm, ()).first ?? nil else {
            return try session.run(isMigrated, migration).first == true ? current : former
        }
        return LedgerForm(rawValue: min(oldest, current.rawValue)) ?? .plain
    }

    static let isMigrated = Statement<Int32, Bool>(
        "form_is_migrated", "SELECT EXISTS (SELECT FROM schema_migrations WHERE version = $1)")

    /// The form that the ledger was switched to; 0: to none. Without the two unique indexes nothing may be written in
    /// `timedKeys`, whoever dropped them.
    static let switched = Statement<(), Int32>(
        "form_switched",
        """
        SELECT CASE
            WHEN count(*) FILTER (WHERE relname IN ('identities_key', 'purchases_hash') AND indisvalid) <> 2
              OR count(*) FILTER (WHERE indrelid = 'identities'::regclass AND indpred IS NULL) > 0 THEN 0
            WHEN (SELECT bool_and(relkind = 'p') FROM pg_class
                  WHERE oid IN ('events'::regclass, 'messages'::regclass)) THEN 5
            ELSE 4 END
        FROM pg_index JOIN pg_class c ON c.oid = indexrelid
        WHERE indrelid IN ('identities'::regclass, 'purchases'::regclass) AND indisunique
        """)
}
