package import Ledger
import Vocabulary

/// Judges what the database says of itself.
package enum DatabaseFindings {
    /// Milliseconds by which the clocks may differ before it is said, and before it is wrong.
    private static let differenceNoted: Int64 = 1_000
    private static let differenceWrong: Int64 = 30_000
    /// Privileges that one line names.
    private static let privilegesListed = 8
    package static let tablesShown = 5

    /// Where the database is, if it is the private cluster.
    package static func target(privateCluster directory: String) -> String { "the private cluster in \(directory)" }

    /// - Parameter target: where it is, without a password.
    package static func server(_ facts: ServerFacts, target: String) -> [DoctorFinding] {
        [
            DoctorFinding(
                .database, .fine,
                "\(target) answers: PostgreSQL \(facts.version), as the role \(facts.role), "
                    + "\(BytesText.write(facts.databaseBytes))")
        ]
    }

    /// A database that does not answer. Root that peer authentication does not let in (PostgreSQL, "Peer
    /// Authentication") knows nothing of it.
    /// - Parameters:
    ///   - reason: as libpq gives it.
    ///   - path: of the configuration file.
    ///   - privateCluster: the directory of the daemon's own; nil: `[database] url` leads there.
    package static func unreachable(
        target: String, reason: String, path: String, isRoot: Bool, privateCluster: String? = nil
    ) -> DoctorFinding {
        let isNotLetIn =
            isRoot && (reason.contains("Peer authentication failed") || reason.contains(/role "[^"]*" does not exist/))
        if isNotLetIn {
            return DoctorFinding(
                .database, .unknown, "\(target) does not let root in: \(reason)",
                do: "runuser -u posthouse -- posthouse doctor")
        }
        return DoctorFinding(
            .database, .wrong, "\(target) does not answer: \(reason)",
            do: privateCluster.map { remedy(privateCluster: $0) }
                ?? "see that PostgreSQL runs and that [database] url of \(path) is right")
    }

    /// What to do about a private cluster that does not answer.
    package static func remedy(privateCluster directory: String) -> String {
        "see the end of \(directory)/cluster.log, the free space there, and journalctl -u posthouse -p err"
    }

    /// - Parameters:
    ///   - name: of the configured schema; nil: as the role's search path has it.
    ///   - isDaemons: the daemon changes the schema by itself.
    package static func schema(
        _ schema: SchemaVersion, named name: String? = nil, unfinished: [String], isDaemons: Bool = true
    ) -> [DoctorFinding] {
        let byCommand = "posthouse migrate, where [database] direct_url names PostgreSQL itself"
        let place = name.map { " in the schema \($0)" } ?? ""
        guard let database = schema.database else {
            return [
                DoctorFinding(
                    .database, .wrong, "the database has no tables of Posthouse yet\(place)",
                    do: isDaemons ? "systemctl start posthouse, or posthouse migrate, makes it" : byCommand)
            ]
        }
        if database < schema.program {
            return [
                DoctorFinding(
                    .database, .wrong,
                    "the database is at migration \(database), this program at \(schema.program)",
                    do: isDaemons
                        ? "systemctl restart posthouse, or posthouse migrate, brings it up to date" : byCommand)
            ]
        }
        if database > schema.program {
            return [
                DoctorFinding(
                    .database, .wrong,
                    "the database is at migration \(database), this program supports only migration \(schema.program)",
                    do: "install the newer posthouse")
            ]
        }
        let text = "the schema is up to date\(place) (migration \(database))"
        guard !unfinished.isEmpty else { return [DoctorFinding(.database, .fine, text)] }
        return [
            DoctorFinding(
                .database, .note,
                "\(text); indexes that are still to be built or dropped: \(unfinished.joined(separator: ", "))",
                do: isDaemons
                    ? "wait: the daemon does it by itself, the last of it an hour after an upgrade"
                    : "\(byCommand), the last time an hour after an upgrade")
        ]
    }

    /// The difference by the middle of the round trip; half of that is how exact it is.
    package static func clock(_ reading: ClockReading) -> [DoctorFinding] {
        let middle = reading.before.milliseconds + (reading.after.milliseconds - reading.before.milliseconds) / 2
        let ahead = middle - reading.database.milliseconds
        let inexact = max(0, reading.after.milliseconds - reading.before.milliseconds) / 2
        let sure = max(0, Int64(clamping: ahead.magnitude) - inexact)
        guard sure > differenceNoted else {
            return [DoctorFinding(.clock, .fine, "this machine's clock and the database's agree")]
        }
        let text =
            "this machine's clock is \(PeriodText.write(milliseconds: Int64(clamping: ahead.magnitude))) "
            + "\(ahead > 0 ? "ahead of" : "behind") the database's"
        let advice = "let both machines keep time (timedatectl set-ntp true)"
        guard sure > differenceWrong else { return [DoctorFinding(.clock, .note, text, do: advice)] }
        return [
            DoctorFinding(
                .clock, .wrong, "\(text): signatures carry this machine's time, and fresh webhooks count as stale",
                do: advice)
        ]
    }

    package static func privileges(_ facts: ServerFacts, missing: [MissingPrivilege]) -> [DoctorFinding] {
        guard !facts.isSuperuser else {
            return [
                DoctorFinding(
                    .privileges, .note, "the role \(facts.role) is a superuser, which the daemon does not need",
                    do: "give it a role of its own: posthouse-operate(7), \"Security\"")
            ]
        }
        guard !missing.isEmpty else {
            return [DoctorFinding(.privileges, .fine, "the role \(facts.role) may do what the daemon does")]
        }
        let found = missing.prefix(privilegesListed).map { one in
            if one.privilege == "OWNER" {
                return DoctorFinding(
                    .privileges, .wrong,
                    "the role \(facts.role) does not own \(one.object): no partition can be made",
                    do: "ALTER \(one.object) OWNER TO \(facts.role)")
            }
            return DoctorFinding(
                .privileges, .wrong, "the role \(facts.role) has no \(one.privilege) on \(one.object)",
                do: "GRANT \(one.privilege) ON \(one.object) TO \(facts.role)")
        }
        let more = missing.count - found.count
        guard more > 0 else { return found }
        return found + [
            DoctorFinding(
                .privileges, .wrong, "the role \(facts.role) lacks \(counted(more, "more privilege"))",
                do: "posthouse-operate(7), \"Security\", lists what the role needs")
        ]
    }

    /// - Parameters:
    ///   - refusal: why a daemon would not use this server.
    ///   - isDeclared: the operator answers for the storage, so that `fsync` is not looked at.
    ///   - advice: settings that cost much; nil: the private cluster, which has its own.
    package static func settings(
        refusal: String?, isDeclared: Bool = false, advice: [String]?
    ) -> [DoctorFinding] {
        if let refusal { return [DoctorFinding(.settings, .wrong, refusal)] }
        var found = (advice ?? []).map { line in
            DoctorFinding(
                .settings, .note, "the database has \(line)", do: "posthouse-operate(7), \"PostgreSQL of your own\"")
        }
        if isDeclared {
            found.append(
                DoctorFinding(
                    .settings, .note,
                    "that the database keeps what it has committed is declared, not checked: fsync is not looked at",
                    do: "posthouse-operate(7), \"PostgreSQL of your own\""))
        }
        guard found.isEmpty else { return found }
        return [
            DoctorFinding(.settings, .fine, "the database keeps what it has committed, and is set up for Posthouse")
        ]
    }

    package static func tables(_ largest: [TableSize], databaseBytes: Int?) -> [DoctorFinding] {
        guard !largest.isEmpty else { return [] }
        let sizes = largest.map { "\($0.table) \(BytesText.write($0.bytes))" }.joined(separator: ", ")
        let whole = databaseBytes.map { "; the whole database \(BytesText.write($0))" } ?? ""
        return [DoctorFinding(.tables, .fine, "the largest: \(sizes)\(whole)")]
    }
}
