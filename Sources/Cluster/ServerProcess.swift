internal import Glibc
internal import Linux
internal import Vocabulary

/// One process, distinguished from a later one with the same pid by its start time.
struct ServerProcess: Sendable, Equatable {
    let pid: pid_t
    /// Field 22 of /proc/PID/stat, in clock ticks since boot.
    let startTicks: UInt64

    init(pid: pid_t, startTicks: UInt64) {
        self.pid = pid
        self.startTicks = startTicks
    }

    /// The process that has this pid now; nil for none and for a zombie, for which kill(pid, 0) would still succeed.
    init?(running pid: pid_t) {
        guard let status = ProcessStat(of: "\(pid)"), !status.isDead, let start: UInt64 = status.number(22) else {
            return nil
        }
        self.init(pid: pid, startTicks: start)
    }

    var isAlive: Bool { ServerProcess(running: pid) == self }

    func signal(_ number: Int32) {
        if isAlive { _ = kill(pid, number) }
    }
}

/// The processes of one data directory. Each process of a server has it as its working directory.
enum ServerProcesses {
    /// What /proc shows of a pid.
    enum Look: Sendable, Equatable {
        /// A live server process on the data directory.
        case server
        /// Another process, a dead one, or none.
        case other
        /// A process that this one may signal and may not look into: perhaps a server on the data directory. The unit
        /// (PrivateUsers=, ProtectProc=) hides every process of its user that was started outside of it.
        case hidden
    }

    /// Whether this pid is a live server process on `data`.
    static func isServer(_ pid: pid_t, on data: String) -> Bool { look(at: pid, on: data) == .server }

    static func look(at pid: pid_t, on data: String) -> Look {
        let status = ProcessStat(of: "\(pid)")
        // The signal last: a process that ends meanwhile is not a hidden one.
        return look(
            status: status, isOnData: status?.name == "postgres" ? isWorking(pid, in: data) : false,
            takesSignals: kill(pid, 0) == 0)
    }

    /// - Parameters:
    ///   - status: nil: there is no such process, or it may not be seen.
    ///   - isOnData: whether its working directory is the data directory; nil: that may not be seen.
    ///   - takesSignals: whether it is a process of this user, or of any as root. PostgreSQL runs on a data directory
    ///     as its owner alone, so another user's process is no server on it.
    static func look(status: ProcessStat?, isOnData: Bool?, takesSignals: Bool) -> Look {
        guard let status else { return takesSignals ? .hidden : .other }
        guard !status.isDead, status.name == "postgres" else { return .other }
        guard let isOnData else { return takesSignals ? .hidden : .other }
        return isOnData ? .server : .other
    }

    /// Whether the working directory of a process is `data`; nil: it may not be seen.
    private static func isWorking(_ pid: pid_t, in data: String) -> Bool? {
        var own = stat()
        var theirs = stat()
        guard stat(data, &own) == 0 else { return false }
        guard stat("/proc/\(pid)/cwd", &theirs) == 0 else { return errno == EACCES ? nil : false }
        return own.st_dev == theirs.st_dev && own.st_ino == theirs.st_ino
    }

    /// The processor time of each in clock ticks: fields 14 (user) and 15 (system) of /proc/PID/stat.
    static func work(on data: String) -> [pid_t: UInt64] {
        Dictionary(
            firstOf: all(on: data).compactMap { process in
                ProcessStat(of: "\(process.pid)").map {
                    (process.pid, ($0.number(14) as UInt64? ?? 0) &+ ($0.number(15) as UInt64? ?? 0))
                }
            })
    }

    static func all(on data: String) -> [ServerProcess] {
        (Files.entries("/proc") ?? []).compactMap { pid_t($0) }
            .filter { isServer($0, on: data) }
            .compactMap(ServerProcess.init(running:))
    }
}
