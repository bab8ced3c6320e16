import Postgres
import Vocabulary

/// The tables about holders that recording fills, each column with its value.
enum HolderTables {
    /// Changes of holders that events state.
    static let changes = Table<HolderKnowledge.NewChange>(
        "holder_changes",
        [
            Column("source", \.row.scope.source), Column("app", \.row.scope.app),
            Column("environment", \.row.scope.environment), Column("subject", \.row.subject),
            Column("kind", \.row.kind.rawValue), Column("target", \.row.target.storageKey),
            Column("second_target", \.row.secondTarget?.storageKey), Column("at_ms", \.row.at.milliseconds),
            Column("event", \.event), Column("applied_through", \.appliedThrough),
        ])

    /// The first install of each identity. The next one takes the place of one that was erased (`ErasedID.isStandIn`),
    /// without an event: a repair would take that event for one that shared what the install had.
    static let identities = Table<HolderKnowledge.NewIdentity>(
        "install_identities",
        [
            Column("identity", \.key.identity.id), Column("source", \.key.scope.source),
            Column("app", \.key.scope.app), Column("environment", \.key.scope.environment),
            Column("install", \.install), Column("event", \.event),
        ],
        onConflict: """
            ON CONFLICT (identity, source, app, environment) DO UPDATE
            SET install = excluded.install, linked_at = excluded.linked_at, event = 0
            WHERE install_identities.install ~ '^erased-[0-9a-f]{16}$'
            """)

    /// The user of each anonymous id; the newer statement counts.
    static let links = Table<HolderKnowledge.NewLink>(
        "holder_links",
        [
            Column("anonymous_user_id", \.key.holder.id), Column("source", \.key.scope.source),
            Column("app", \.key.scope.app), Column("environment", \.key.scope.environment),
            Column("user_id", \.link.userID), Column("until_ms", \.link.until?.milliseconds),
            Column("as_of_ms", \.link.asOf.milliseconds),
        ],
        onConflict: """
            ON CONFLICT (anonymous_user_id, source, app, environment) DO UPDATE
            SET user_id = excluded.user_id, until_ms = excluded.until_ms, as_of_ms = excluded.as_of_ms
            WHERE holder_links.as_of_ms <= excluded.as_of_ms
            """)
}
