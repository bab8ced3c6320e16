internal import Glibc

/// Why there is no private cluster. Each error says what happened, where, and what to do.
package enum ClusterError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No server binaries of a version that fits.
    case binariesMissing(searched: [String])
    /// The cluster was made by a major version whose binaries are not here.
    case otherVersion(directory: String, version: Int, installed: [Int])
    /// The cluster was made by a version that Posthouse does not run on.
    case versionTooOld(directory: String, version: Int)
    /// Something that is not a cluster is where the cluster would be.
    case notACluster(directory: String)
    /// A link is where the cluster would be, made when its data was moved by hand.
    case isLink(path: String, target: String)
    /// The configured directory is itself a PostgreSQL data directory.
    case foreignDataDirectory(directory: String)
    /// As root, and there is no user to run the server as.
    case noAccount
    /// The cluster belongs to somebody else, and this process is not root.
    case foreignOwner(directory: String, owner: UInt32)
    /// The user that runs the server cannot pass through this directory.
    case unsearchable(directory: String, account: String)
    case pathTooLong(path: String, bytesMax: Int)
    /// No directory for the socket: each candidate and the reason against it.
    case noSocketDirectory(tried: [String])
    /// Another daemon keeps this cluster.
    case inUse(directory: String, holder: String)
    /// Processes of an earlier server that do not end, even killed.
    case orphans(directory: String, pids: [Int32])
    /// A lock file of PostgreSQL names a process that runs and may not be looked into: perhaps a server on the same
    /// data, started by hand or by a command.
    case hiddenProcess(lockFile: String, pid: Int32)
    case diskFull(directory: String)
    case initialisationFailed(directory: String, lines: [String])
    /// The superuser and the daemon's role of an older cluster could not be separated.
    case rolesFailed(directory: String, lines: [String])
    case startFailed(log: String, reason: String, lines: [String])
    case notReady(log: String, seconds: Int64, lines: [String])
    /// The start was given up because the daemon is stopping.
    case cancelled
    case system(action: String, path: String, code: Int32)

    package var description: String {
        switch self {
        case .binariesMissing(let searched):
            "no PostgreSQL server of version \(ClusterLimits.majorVersionMin) or later (looked in "
                + "\(searched.joined(separator: ", "))): apt install postgresql, or set [database] url"
        case .otherVersion(let directory, let version, let installed):
            "the private cluster in \(directory) was made by PostgreSQL \(version), and the versions here are "
                + "\(installed.map(String.init).joined(separator: ", ")): apt install postgresql-\(version), or bring "
                + "it to a newer version with pg_upgrade"
        case .versionTooOld(let directory, let version):
            "the private cluster in \(directory) is of PostgreSQL \(version); Posthouse needs "
                + "\(ClusterLimits.majorVersionMin) or later: bring it there with pg_upgrade"
        case .notACluster(let directory):
            "\(directory) exists and is not a PostgreSQL data directory (no readable PG_VERSION): move it away, or "
                + "name another [embedded] directory"
        case .isLink(let path, let target):
            "\(path) is a symbolic link to \(target): let [embedded] directory name the directory in which the data "
                + "itself lies, under the name cluster"
        case .foreignDataDirectory(let directory):
            "\(directory) is itself a PostgreSQL data directory: [embedded] directory is the directory in which "
                + "Posthouse makes its own; name another, or use that server by [database] url"
        case .noAccount:
            "PostgreSQL does not run as root, and there is neither a user posthouse nor a user postgres: "
                + "apt install postgresql makes the latter"
        case .foreignOwner(let directory, let owner):
            "\(directory) belongs to user id \(owner), not to the user of this process (\(geteuid())): run as its "
                + "owner or as root"
        case .unsearchable(let directory, let account):
            "user \(account), who runs PostgreSQL, may not pass through \(directory): chmod o+x \(directory), or name "
                + "another [embedded] directory"
        case .pathTooLong(let path, let bytesMax):
            "\(path) is \(path.utf8.count) bytes long, and PostgreSQL takes \(bytesMax): name a shorter [embedded] "
                + "directory"
        case .noSocketDirectory(let tried):
            "no directory for PostgreSQL's socket: \(tried.joined(separator: "; "))"
        case .inUse(let directory, let holder):
            "the private cluster in \(directory) is kept by another posthouse (\(holder)): stop it, name another "
                + "[embedded] directory, or share one database by [database] url"
        case .orphans(let directory, let pids):
            "processes \(pids.map(String.init).joined(separator: ", ")) of an earlier PostgreSQL on \(directory) do not "
                + "end, even killed: is its disk still there?"
        case .hiddenProcess(let lockFile, let pid):
            "\(lockFile) names process \(pid), which runs and cannot be looked into from here: see as root what it is "
                + "(ps -fp \(pid)); stop it if it is a PostgreSQL on the same data (kill -INT \(pid)), and remove the file "
                + "if it is anything else; then start again"
        case .diskFull(let directory):
            "no space left on the device of \(directory): free some (df -h \(directory)), then start again; nothing "
                + "acknowledged is lost"
        case .initialisationFailed(let directory, let lines):
            "could not make the private cluster in \(directory): correct what initdb reports and start again, or set "
                + "[database] url:\(Self.quoted(lines))"
        case .rolesFailed(let directory, let lines):
            "could not give the private cluster in \(directory) a role of its own for the daemon: correct what "
                + "PostgreSQL reports and start again:\(Self.quoted(lines))"
        case .startFailed(let log, let reason, let lines):
            "PostgreSQL did not start (\(reason)): correct what it reports and start again; the end of "
                + "\(log):\(Self.quoted(lines))"
        case .notReady(let log, let seconds, let lines):
            "PostgreSQL is not ready, and nothing has brought it nearer for \(seconds) s: it is frozen, its disk does not "
                + "answer, or it is a standby (remove standby.signal from its directory); start again; the end of "
                + "\(log):\(Self.quoted(lines))"
        case .cancelled:
            "the start of the private cluster was given up: the daemon is stopping"
        case .system(let action, let path, EROFS):
            "could not \(action) \(path): \(Self.text(of: EROFS)); the unit may write to its state directory alone: "
                + "ReadWritePaths= below [Service] adds [embedded] directory, once it is there and the daemon's user's own "
                + "(systemctl edit posthouse)"
        case .system(let action, let path, let code):
            "could not \(action) \(path): \(Self.text(of: code)); see whose it is and on which disk (ls -ld \(path); "
                + "df \(path))"
        }
    }

    private static func quoted(_ lines: [String]) -> String {
        lines.isEmpty ? " (empty)" : "\n  " + lines.joined(separator: "\n  ")
    }

    private static func text(of code: Int32) -> String {
        guard let text = strerror(code) else { return "error \(code)" }
        return String(cString: text)
    }

    /// An errno as an error; a full disk (ENOSPC, EDQUOT) is named as such wherever it occurs.
    static func failed(_ action: String, _ path: String, _ code: Int32) -> ClusterError {
        code == ENOSPC || code == EDQUOT ? .diskFull(directory: path) : .system(action: action, path: path, code: code)
    }
}
