internal import Glibc
internal import Linux

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
    /// Whether this pid is a live server process on `data`.
    static func isServer(_ pid: pid_t, on data: String) -> Bool {
        guard let status = ProcessStat(of: "\(pid)"), !status.isDead, status.name == "postgres" else { return false }
        var own = stat()
        var theirs = stat()
        // Following the link of another user's process needs root; then it is not ours either.
        guard stat(data, &own) == 0, stat("/proc/\(pid)/cwd", &theirs) == 0 else { return false }
        return own.st_dev == theirs.st_dev && own.st_ino == theirs.st_ino
    }

    static func all(on data: String) -> [ServerProcess] {
        (Files.entries("/proc") ?? []).compactMap { pid_t($0) }
            .filter { isServer($0, on: data) }
            .compactMap(ServerProcess.init(running:))
    }
}
