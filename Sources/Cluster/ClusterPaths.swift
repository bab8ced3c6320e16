internal import Glibc
internal import Linux

/// The paths of one private cluster. `directory` is the configured one, without links and dots.
///
///     DIRECTORY/cluster.lock   held with flock(2) by the daemon that keeps the cluster
///     DIRECTORY/cluster        PostgreSQL's data directory: there whole, or not at all
///     DIRECTORY/cluster.new-*  one that initdb is still making
///     DIRECTORY/cluster.log    what the server writes
///     DIRECTORY/cluster.moved  says where its ledger went, if it did
///     DIRECTORY/cluster.empty  says that it was found without one, while another database was in use
struct ClusterPaths: Sendable {
    let directory: String
    var data: String { directory + "/cluster" }
    var lock: String { directory + "/cluster.lock" }
    var log: String { directory + "/cluster.log" }
    var moved: String { directory + "/cluster.moved" }
    var empty: String { directory + "/cluster.empty" }
    var unfinishedPrefix: String { "cluster.new-" }

    /// Makes the directory if it is missing, and checks that the account can reach it. The account depends on what is
    /// there already, so both are determined here.
    static func prepare(_ configured: String) async throws(ClusterError) -> (ClusterPaths, Account) {
        guard configured.hasPrefix("/") else {
            throw .system(action: "use as [embedded] directory a relative path:", path: configured, code: EINVAL)
        }
        // The account comes first: a missing user is the clearer error, and nothing was made yet.
        if let target = Files.linkTarget(configured + "/cluster") {
            throw .isLink(path: configured + "/cluster", target: target)
        }
        let owner = Files.status(configured + "/cluster").map(\.st_uid)
        let account = try Account.choose(clusterOwner: owner, directory: configured + "/cluster")
        try makeDirectories(configured, for: account)
        guard let directory = FileStatus.realPath(configured) else { throw unreachable(configured, errno, account) }
        let paths = ClusterPaths(directory: directory)
        guard paths.data.utf8.count <= ClusterLimits.dataPathBytesMax else {
            throw .pathTooLong(path: paths.data, bytesMax: ClusterLimits.dataPathBytesMax)
        }
        if Files.status(directory + "/PG_VERSION") != nil { throw .foreignDataDirectory(directory: directory) }
        try await paths.makeSearchable(for: account)
        return (paths, account)
    }

    private static func makeDirectories(_ path: String, for account: Account) throws(ClusterError) {
        for ancestor in Files.ancestors(of: path) {
            let isLast = ancestor == Files.ancestors(of: path).last
            let code = Files.makeDirectory(ancestor, mode: isLast ? 0o700 : 0o755)
            if code == 0 {
                if isLast, account.switches, lchown(ancestor, account.userID, account.groupID) != 0 {
                    throw .failed("chown", ancestor, errno)
                }
            } else {
                var info = stat()
                if stat(ancestor, &info) == 0 {
                    if !Files.isDirectory(info) { throw .failed("use as a directory", ancestor, ENOTDIR) }
                } else if errno == EACCES {
                    throw unreachable(ancestor, EACCES, account)
                } else {
                    throw .failed("make directory", ancestor, code)
                }
            }
        }
    }

    /// For EACCES the error names the first directory on the way that may not be passed through.
    private static func unreachable(_ path: String, _ code: Int32, _ account: Account) -> ClusterError {
        if code == EACCES, let closed = Files.ancestors(of: path).dropLast().first(where: { access($0, X_OK) != 0 }) {
            return .unsearchable(directory: closed, account: account.name)
        }
        return .failed("reach", path, code)
    }

    /// As root, chowns to the account a directory that holds only a cluster and what the daemon itself keeps there for
    /// its next start (`daemon.lock`, `serving`); the administrator must make any other searchable. Checked by running
    /// test(1) as that user, which respects ACLs and mounts too.
    private func makeSearchable(for account: Account) async throws(ClusterError) {
        guard account.switches else {
            guard access(directory, R_OK | W_OK | X_OK) == 0 else { throw .failed("write in", directory, errno) }
            return
        }
        if await Self.canSearch(directory, account) { return }
        for ancestor in Files.ancestors(of: directory).dropLast() where await !Self.canSearch(ancestor, account) {
            throw .unsearchable(directory: ancestor, account: account.name)
        }
        let isOurs = (Files.entries(directory) ?? [""]).allSatisfy { name in
            name.hasPrefix("cluster") || ["daemon.lock", "serving", "serving.new"].contains(name)
        }
        guard isOurs, lchown(directory, account.userID, account.groupID) == 0,
            await Self.canSearch(directory, account)
        else { throw .unsearchable(directory: directory, account: account.name) }
    }

    private static func canSearch(_ directory: String, _ account: Account) async -> Bool {
        (try? await Tool.output(of: "/usr/bin/test", ["-x", directory], as: account)) != nil
    }

    /// The major version of the cluster that is there, nil for none yet.
    func existingVersion() throws(ClusterError) -> Int? {
        guard let info = Files.status(data) else { return nil }
        guard Files.isDirectory(info), let text = Files.text(data + "/PG_VERSION"),
            let version = Int(text.prefix { $0.isASCII && $0.isNumber })
        else { throw .notACluster(directory: data) }
        return version
    }
}
