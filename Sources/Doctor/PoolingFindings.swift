package import Configuration

/// Judges how PostgreSQL is reached: through a pooler, and with a session of one's own.
package enum PoolingFindings {
    /// What was found of `[database] direct_url`.
    package enum Direct: Sendable, Hashable {
        case notNamed
        /// A secret that cannot be read here.
        case hidden
        /// It leads to the ledger of `url`, with a session of its own.
        case usable
        case unusable(reason: String)
    }

    package static func of(_ pooling: Configuration.Database.Pooling, direct: Direct) -> [DoctorFinding] {
        switch (pooling, direct) {
        case (.session, .notNamed): []
        case (.transaction, .notNamed):
            [
                DoctorFinding(
                    .database, .note,
                    "pooling = \"transaction\" without direct_url: what others leave to do is found by a poll, and the "
                        + "daemon cannot change the schema",
                    do: "let [database] direct_url name PostgreSQL itself: posthouse-operate(7), \"Poolers\"")
            ]
        case (_, .hidden):
            [
                DoctorFinding(
                    .database, .unknown, "the secret of [database] direct_url cannot be read here",
                    do: "runuser -u posthouse -- posthouse doctor")
            ]
        case (.session, .usable): [DoctorFinding(.database, .fine, "direct_url leads to the same ledger as url")]
        case (.transaction, .usable):
            [
                DoctorFinding(
                    .database, .fine,
                    "pooling = \"transaction\"; direct_url leads to the same ledger, for notifications and the schema")
            ]
        case (_, .unusable(let reason)):
            [
                DoctorFinding(
                    .database, .wrong, reason,
                    do: "let [database] direct_url name PostgreSQL itself, and the database of url")
            ]
        }
    }
}
