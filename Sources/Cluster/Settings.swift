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

    /// Rewritten at each start: a newer Posthouse brings its own defaults.
    static let defaults = """
        # Written by Posthouse at each start. Own settings belong into postgresql.conf, below its include of this file.
        # The pool, commands beside it, and whoever looks with psql.
        max_connections = 100
        shared_buffers = 128MB
        # Settling and pruning rewrite much: fewer, larger checkpoints, and a log that survives a burst without one.
        min_wal_size = 128MB
        max_wal_size = 1GB
        checkpoint_timeout = 10min
        wal_compression = on
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
            defaults.split(separator: "\n").compactMap { line in
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
