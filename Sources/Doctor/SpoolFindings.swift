package import Linux

/// What of a machine's spool can be seen by its files.
package struct SpoolFacts: Sendable {
    package let directory: String
    /// `[spool] max`.
    package let bytesMax: Int
    /// Names of the sources that spool.
    package let sources: [String]
    /// False: this user may not look into it.
    package let isVisible: Bool
    /// False: the settings of the unit keep the daemon from writing there.
    package let isWritable: Bool
    package let webhooks: Int
    /// Folders of daemons that this user may not look into.
    package let unreadable: Int
    /// Age of the oldest; nil: none waits.
    package let oldestMilliseconds: Int64?
    /// Of webhooks that wait, those that the configuration does not have.
    package let unconfigured: [String]
    /// Files that could not be read.
    package let damaged: Int
    /// nil: it could not be seen, or the directory is not there yet.
    package let disk: DiskSpace?
    /// What of the disk stays free, in bytes.
    package let headroomBytes: Int
    /// What waits in other spools of the daemon's earlier starts, a text for each.
    package let former: [String]

    package init(
        directory: String, bytesMax: Int, sources: [String], isVisible: Bool, isWritable: Bool = true, webhooks: Int,
        unreadable: Int, oldestMilliseconds: Int64?, unconfigured: [String], damaged: Int, disk: DiskSpace?,
        headroomBytes: Int, former: [String] = []
    ) {
        self.directory = directory
        self.bytesMax = bytesMax
        self.sources = sources
        self.isVisible = isVisible
        self.isWritable = isWritable
        self.webhooks = webhooks
        self.unreadable = unreadable
        self.oldestMilliseconds = oldestMilliseconds
        self.unconfigured = unconfigured
        self.damaged = damaged
        self.disk = disk
        self.headroomBytes = headroomBytes
        self.former = former
    }
}

/// Judges what waits in the spool, and whether it could take more.
package enum SpoolFindings {
    /// What waits longer than this is kept by more than a restart of the database.
    private static let longMilliseconds: Int64 = 300_000

    /// Nothing where no source spools and nothing waits.
    package static func of(_ spool: SpoolFacts) -> [DoctorFinding] { ofFormer(spool) + ofCurrent(spool) }

    private static func ofFormer(_ spool: SpoolFacts) -> [DoctorFinding] {
        spool.former.map { former in
            DoctorFinding(
                .spool, .wrong, former,
                do: "keep that disk; before the next start let it be recorded, or, with every daemon that "
                    + "uses it stopped, move it; if it is lost for good, remove its line (former_spool) from the file serving "
                    + "in the state directory (posthouse-operate(7), \"Service\")")
        }
    }

    private static func ofCurrent(_ spool: SpoolFacts) -> [DoctorFinding] {
        if spool.sources.isEmpty, spool.webhooks == 0, spool.damaged == 0, spool.unreadable == 0 { return [] }
        guard spool.isVisible else {
            return [
                DoctorFinding(
                    .spool, .unknown, "\(spool.directory) cannot be read by this user", do: "run this as root")
            ]
        }
        var found: [DoctorFinding] = []
        if !spool.sources.isEmpty, !spool.isWritable {
            found.append(
                DoctorFinding(
                    .spool, .wrong,
                    "the unit may not write to \(spool.directory): no webhook of "
                        + "\(spool.sources.joined(separator: ", ")) would be kept",
                    do: "let ReadWritePaths= below [Service] name it (systemctl edit posthouse); "
                        + "systemctl restart posthouse"))
        }
        if spool.unreadable > 0 {
            found.append(
                DoctorFinding(
                    .spool, .wrong,
                    "\(counted(spool.unreadable, "folder")) of \(spool.directory) cannot be read by this user: what "
                        + "waits there is not known",
                    do: "run this as the daemon's user; what that cannot read either, the daemon does not record: "
                        + "give it to that user"))
        }
        if let age = spool.oldestMilliseconds {
            let text =
                "\(counted(spool.webhooks, "webhook")) wait, answered and not recorded, the oldest for "
                + PeriodText.write(milliseconds: age)
            found.append(
                DoctorFinding(
                    .spool, age < longMilliseconds ? .note : .wrong, text,
                    do: "see that the database answers and the daemon runs; keep this disk until they are recorded"))
        }
        for source in spool.unconfigured {
            found.append(
                DoctorFinding(
                    .spool, .wrong, "webhooks of \(source) wait, which is not in the configuration",
                    do: "restore that name; then they are recorded"))
        }
        if spool.damaged > 0 {
            found.append(
                DoctorFinding(
                    .spool, .wrong, "\(counted(spool.damaged, "file")) could not be read and are not recorded",
                    do: "posthouse spool lists them; check the disk"))
        }
        if !spool.sources.isEmpty, let disk = spool.disk, disk.availableBytes < spool.headroomBytes {
            found.append(
                DoctorFinding(
                    .spool, .wrong,
                    "\(BytesText.write(disk.availableBytes)) are left for \(spool.directory), and "
                        + "\(BytesText.write(spool.headroomBytes)) stay free: it would take no webhook",
                    do: "make room, or let [spool] directory name another disk and move what waits "
                        + "(posthouse-operate(7), \"Service\")"))
        }
        guard found.isEmpty else { return found }
        return [
            DoctorFinding(
                .spool, .fine,
                "nothing waits in \(spool.directory); up to \(BytesText.write(spool.bytesMax)) of "
                    + "\(spool.sources.joined(separator: ", ")) would")
        ]
    }
}
