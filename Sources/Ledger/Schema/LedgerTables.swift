import Postgres

/// The tables and sequences of the ledger, as arrays of SQL: an app may have others in the same schema, of the same
/// owner. deploy/least-privileges.sql has the same names.
enum LedgerTables {
    /// Without partitions, which are their tables'.
    static let tables: SQL = """
        '{attempts, breakers, daemons, dead_letters, deliveries, discards, entitlements, erased_events, erasure_salt,
          events, holder_changes, holder_links, identities, install_identities, installs, integrations, messages, moves,
          periods, purchase_ends, purchase_ends_missing, purchase_tokens, purchases, quarantine, rate_slots,
          schema_migrations, source_names, transactions, transfers}'::name[]
        """
    /// Without those of identity columns.
    static let sequences: SQL = "'{access_versions, delivery_ids, event_ids, message_ids}'::name[]"
}
