extension PrivateCluster {
    /// How to reach the cluster that a daemon keeps in `directory`, for a command beside it; nil when none runs there
    /// or this user may not look into it.
    package static func connectionString(ofRunning directory: String) -> String? {
        let data = Ground(directory: directory).data
        guard Predecessor.postmaster(on: data) != nil, let sockets = PostmasterFile(in: data)?.socketDirectory else {
            return nil
        }
        return connectionString(socketDirectory: sockets)
    }

    /// Whether a cluster was ever made there.
    package static func exists(in directory: String) -> Bool {
        Files.status(Ground(directory: directory).data + "/PG_VERSION") != nil
    }

    static func connectionString(socketDirectory: String) -> String {
        "host=\(Settings.quotedConnectionValue(socketDirectory)) port=\(SocketDirectory.port) "
            + "user=\(Settings.role) dbname=\(Settings.database)"
    }
}
