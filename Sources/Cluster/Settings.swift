/// The settings of the private server. Those that durability needs go on its command line, which neither
/// postgresql.conf nor ALTER SYSTEM can override. Mere defaults go into posthouse.conf, which postgresql.conf includes
/// at its top, so that an administrator's own lines come later and win.
enum Settings {
    /// The role that Posthouse logs in as, an ordinary one, and its database.
    static let role = "posthouse"
    /// The role that initdb makes.
    static let superuser = "postgres"
    static let database = "posthouse"

    static func arguments(data: String, socketDirectory: String) -> [String] {
        let promised = [
            // Unix socket only, behind a directory of 0700.
            "listen_addresses=",
            "port=\(SocketDirectory.port)",
            "unix_socket_directories=\(quotedListItem(socketDirectory))",
            "unix_socket_permissions=0700",
            // What is acknowledged is on disk.
            "fsync=on",
            "synchronous_commit=on",
            "full_page_writes=on",
            // To standard error, which is cluster.log: the end of it explains a failed start.
            "logging_collector=off",
            "log_destination=stderr",
        ]
        return ["-D", data] + promised.flatMap { ["-c", $0] }
    }

    static let includeFile = "posthouse.conf"

    /// Writes posthouse.conf. Done at each start: a newer Posthouse has other defaults, a larger machine other sizes.
    /// - Parameters:
    ///   - data: a data directory with a postgresql.conf.
    ///   - pool: connections of the daemon that uses it; 0: none does yet.
    static func write(
        in data: String, pool: Int = 0, _ account: Account, _ binaries: Binaries
    ) async throws(ClusterError) {
        // A server without LZ4 refuses to start with it, so it is asked first; -C prints a setting and ends.
        let lz4 = try? await Tool.output(
            of: binaries.postgres, ["-D", data, "-c", "wal_compression=lz4", "-C", "wal_compression"], as: account)
        if Task.isCancelled { throw .cancelled }
        let path = data + "/" + includeFile
        do throws(ClusterError) {
            try Files.replace(
                path, with: defaults(for: .of(directory: data), hasLZ4: lz4 != nil, pool: pool), owner: account)
        } catch {
            // A full disk must not hinder a start: the file of the last one is as good.
            if Files.status(path) == nil { throw error }
        }
    }

    /// The text of posthouse.conf. Pure.
    static func defaults(for machine: MachineSize, hasLZ4: Bool, pool: Int = 0) -> String {
        """
        # Written by Posthouse at each start. Own settings belong into postgresql.conf, below its include of this file.
        # The pool, commands beside it, and whoever looks with psql.
        max_connections = \(max(ClusterLimits.connectionsMin, pool + ClusterLimits.connectionsBeside))
        # A look-up over all periods locks each of their tables and indexes.
        max_locks_per_transaction = 256
        # A quarter of the memory, within \(ClusterLimits.sharedBuffers.lowerBound >> 20) MB and \
        \(ClusterLimits.sharedBuffers.upperBound >> 20) MB.
        shared_buffers = \(megabytes(machine.memory / 4, within: ClusterLimits.sharedBuffers))MB
        # The first change of a page after a checkpoint writes the whole page into the log: few checkpoints, and such
        # pages compressed (LZ4 where the server has it). Recovery after a crash replays at most max_wal_size, which is
        # a 32nd of the disk, within \(ClusterLimits.walBytes.lowerBound >> 20) MB and \
        \(ClusterLimits.walBytes.upperBound >> 20) MB.
        min_wal_size = 128MB
        max_wal_size = \(megabytes(machine.disk / 32, within: ClusterLimits.walBytes))MB
        checkpoint_timeout = 30min
        wal_compression = \(hasLZ4 ? "lz4" : "on")
        # The queue's tables live by dead rows: cleaned up early and without pauses.
        autovacuum = on
        autovacuum_naptime = 15s
        autovacuum_vacuum_scale_factor = 0.05
        autovacuum_vacuum_cost_delay = 1ms
        # Short statements only; and its machine code would need writable and executable memory, which the unit forbids.
        jit = off
        # No statement, no value of a row in the log: they hold personal data.
        log_min_messages = warning
        log_min_error_statement = panic
        log_error_verbosity = terse
        log_checkpoints = off
        log_line_prefix = '%m [%p] '
        timezone = UTC
        log_timezone = UTC
        lc_messages = 'C'

        """
    }

    private static func megabytes(_ bytes: UInt64, within bounds: ClosedRange<UInt64>) -> UInt64 {
        min(max(bytes, bounds.lowerBound), bounds.upperBound) >> 20
    }

    /// What initdb wrote, with our include before it.
    static func withInclude(_ postgresqlConf: String) -> String {
        """
        # Posthouse's defaults; any line below wins over them.
        include = '\(includeFile)'


        """ + withoutInitdbChoices(postgresqlConf)
    }

    /// initdb writes some of these settings itself, uncommented; those would win over the included file.
    private static func withoutInitdbChoices(_ text: String) -> String {
        let ours = Set(
            defaults(for: MachineSize(memory: 0, disk: 0), hasLZ4: false).split(separator: "\n").compactMap { line in
                line.hasPrefix("#") ? nil : line.split(separator: " ").first
            })
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let name = line.prefix { $0.isLetter || $0 == "_" }
            return ours.contains(name) ? "#" + line : String(line)
        }.joined(separator: "\n")
    }

    /// Quotes a name as PostgreSQL reads lists of names: in double quotes, those inside doubled.
    static func quotedListItem(_ text: String) -> String {
        "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }

    /// Quotes a value as libpq reads a connection string: in single quotes, with a backslash before quotes and
    /// backslashes.
    static func quotedConnectionValue(_ text: String) -> String {
        var out = "'"
        for character in text {
            if character == "'" || character == "\\" { out.append("\\") }
            out.append(character)
        }
        return out + "'"
    }
}
