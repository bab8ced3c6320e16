internal import Vocabulary

extension Configuration {
    /// Keys that differ from the start of the process and need a restart, because sockets and the database are opened
    /// once. The comparison is with the start, so that each reload names what is still due.
    package func dueAtRestart(since started: Configuration) -> [String] {
        var keys: [String] = []
        if server.listen != started.server.listen { keys.append("[server] listen") }
        if server.apiListen != started.server.apiListen { keys.append("[server] api_listen") }
        // A reload reads the files of a TLS listener again; switching TLS on or off needs another listener.
        if (server.tls == nil) != (started.server.tls == nil) { keys.append("[server] tls") }
        // Another url of the same ledger is taken over; another ledger is refused (`Reloader`).
        if database.usesPrivateCluster != started.database.usesPrivateCluster { keys.append("[database] url") }
        if database.poolConnections != started.database.poolConnections { keys.append("[database] pool") }
        if database.statementTimeout != started.database.statementTimeout {
            keys.append("[database] statement_timeout")
        }
        if database.schema != started.database.schema { keys.append("[database] schema") }
        if database.durability != started.database.durability { keys.append("[database] durability") }
        if database.pooling != started.database.pooling { keys.append("[database] pooling") }
        if database.usesPrivateCluster, embedded != started.embedded { keys.append("[embedded] directory") }
        if spool != started.spool { keys.append("[spool]") }
        if journal.format != started.journal.format { keys.append("[journal] format") }
        return keys
    }
}
