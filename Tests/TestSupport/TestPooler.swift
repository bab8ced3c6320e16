import Foundation

/// Debian's PgBouncer before a cluster, on a unix socket beside the cluster's. It ends with the last reference, or with
/// the test process.
package final class TestPooler: Sendable {
    private let port: UInt16
    /// `host` of a connection string.
    private let directory: String
    /// Held open for as long as the pooler is to live: its end is the guardian's signal.
    private let lifeline: FileHandle

    /// - Parameters:
    ///   - mode: `pool_mode`.
    ///   - connections: server connections for each database and role.
    ///   - port: where it listens on loopback, too; nil: nowhere.
    ///   - roles: who may log in, without a password.
    ///   - settings: further lines of `[pgbouncer]`; of two equal keys the last one counts.
    package init(
        before cluster: TestCluster, mode: String, connections: Int, port: UInt16? = nil,
        roles: [String] = ["postgres"], settings: String = ""
    ) throws {
        self.port = port ?? 6432
        // A socket's path holds 107 bytes.
        directory = cluster.directory + "/" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        let (file, users) = (directory + "/pgbouncer.ini", directory + "/users")
        try roles.map { "\"\($0)\" \"\"\n" }.joined().write(toFile: users, atomically: false, encoding: .utf8)
        try """
        [databases]
        * = host=\(cluster.directory)
        [pgbouncer]
        listen_addr = \(port == nil ? "" : "127.0.0.1")
        unix_socket_dir = \(directory)
        unix_socket_mode = 0777
        listen_port = \(self.port)
        auth_type = trust
        auth_file = \(users)
        pool_mode = \(mode)
        default_pool_size = \(connections)
        \(settings)
        """.write(toFile: file, atomically: false, encoding: .utf8)
        var program = "/usr/sbin/pgbouncer -q"
        if getuid() == 0 {
            guard let owner = getpwnam("postgres") else {
                throw TestCluster.Failure(description: "there is no user postgres")
            }
            chown(directory, owner.pointee.pw_uid, owner.pointee.pw_gid)
            // It refuses to run as root.
            program += " -u postgres"
        }
        // The background job of a shell has no standard input of its own.
        lifeline = try TestCluster.guardian(
            "\(program) '\(file)' 2>'\(directory)/log' & read line; kill $!; wait; rm -rf '\(directory)'")
        let socket = directory + "/.s.PGSQL.\(self.port)"
        let deadline = Date(timeIntervalSinceNow: 300)
        while !FileManager.default.fileExists(atPath: socket) {
            guard Date() < deadline else {
                let log = try? String(contentsOfFile: directory + "/log", encoding: .utf8)
                throw TestCluster.Failure(description: "PgBouncer did not start: \(log ?? "no log")")
            }
            usleep(20_000)
        }
    }

    /// Runs SQL as another client, by psql through the pooler; what it prints, unaligned and without headings.
    /// - Parameter direct: a connection string of the cluster.
    @discardableResult
    package func psql(_ sql: String, _ direct: String) throws -> String {
        try TestCluster.run([
            TestCluster.psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", connectionString(for: direct),
            "-c", sql,
        ])
    }

    /// The same connection string through the pooler.
    /// - Parameter direct: one of the cluster.
    package func connectionString(for direct: String) -> String {
        direct.replacing(#/host=\S+/#, with: "host=\(directory) port=\(port)")
    }
}
