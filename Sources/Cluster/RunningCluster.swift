internal import Linux

extension PrivateCluster {
    /// The connection string of the cluster that a daemon keeps in `directory`, for a command beside it; nil when none
    /// runs there or this user may not look into it.
    package static func connectionString(ofRunning directory: String) -> String? {
        let data = ClusterPaths(directory: directory).data
        // Checks less than a daemon does before it takes a server over: beside a unit with PrivateUsers= even the
        // cluster's own user may not see the working directory of a process. If the pid has gone to another server,
        // nobody answers at the socket.
        guard let file = PostmasterFile(in: data), let sockets = file.socketDirectory,
            let status = ProcessStat(of: "\(file.pid)"), !status.isDead, status.name == "postgres"
        else { return nil }
        return connectionString(socketDirectory: sockets)
    }

    /// Whether a cluster was ever made there.
    package static func exists(in directory: String) -> Bool {
        Files.status(ClusterPaths(directory: directory).data + "/PG_VERSION") != nil
    }

    static func connectionString(socketDirectory: String) -> String {
        "host=\(Settings.quotedConnectionValue(socketDirectory)) port=\(SocketDirectory.port) "
            + "user=\(Settings.role) dbname=\(Settings.database)"
    }
}
