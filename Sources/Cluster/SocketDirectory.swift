internal import Glibc

/// The directory of the server's unix socket. Its permissions (0700, owned by the account) keep others out, because the
/// server trusts whoever reaches the socket.
enum SocketDirectory {
    /// The one port number of private clusters: each has a socket directory of its own.
    static let port = 5432

    /// A directory for this cluster alone, made where it is missing; the same one at each start.
    static func make(
        for paths: ClusterPaths, account: Account, in hostEnvironment: HostEnvironment
    ) throws(ClusterError) -> String {
        var tried = [String]()
        for candidate in candidates(for: paths, account: account, in: hostEnvironment) {
            if let problem = use(candidate, account) { tried.append(problem) } else { return candidate }
        }
        throw .noSocketDirectory(tried: tried)
    }

    /// The candidates, the best first. The hash of the data directory keeps two clusters of one machine apart and the
    /// path short.
    static func candidates(for paths: ClusterPaths, account: Account, in hostEnvironment: HostEnvironment) -> [String] {
        let name = hash(of: paths.data)
        var out = [String]()
        if let runtime = hostEnvironment.runtimeDirectory { out.append(runtime + "/" + name) }
        if account.switches {
            out.append("/run/posthouse/" + name)
        } else if let session = hostEnvironment.sessionDirectory {
            out.append(session + "/posthouse-" + name)
        }
        out.append(hostEnvironment.temporaryDirectory + "/posthouse-\(account.userID)-" + name)
        return out
    }

    /// FNV-1a, 64 bits: stable over runs, which Swift's Hasher is not; nothing depends on its strength.
    static func hash(of text: String) -> String {
        var value: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in text.utf8 { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    /// Prepares the directory; nil when it is ours and ready, else the reason against it. In /tmp anybody may have made
    /// the name first: a link, a foreign or an open directory is not used.
    static func use(_ directory: String, _ account: Account) -> String? {
        let socket = directory + "/.s.PGSQL.\(port)"
        guard socket.utf8.count <= ClusterLimits.socketPathBytesMax else {
            return "\(directory): its socket's path of \(socket.utf8.count) bytes is longer than "
                + "\(ClusterLimits.socketPathBytesMax)"
        }
        if account.switches, let slash = directory.lastIndex(of: "/") {
            // /run/posthouse itself is root's; only the directory below it is the server's.
            _ = Files.makeDirectory(String(directory[..<slash]), mode: 0o755)
        }
        if mkdir(directory, 0o700) == 0 {
            if account.switches, lchown(directory, account.userID, account.groupID) != 0 {
                return "\(directory): \(String(cString: strerror(errno)))"
            }
        } else if errno != EEXIST {
            return "\(directory): \(String(cString: strerror(errno)))"
        }
        guard let info = Files.status(directory), Files.isDirectory(info), info.st_uid == account.userID else {
            return "\(directory): not a directory of user \(account.name)"
        }
        guard info.st_mode & 0o077 == 0 else { return "\(directory): open to other users" }
        return nil
    }
}
