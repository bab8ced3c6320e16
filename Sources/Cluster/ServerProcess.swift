internal import Glibc

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
        guard let status = ProcessStatus(of: pid), !status.isDead else { return nil }
        self.init(pid: pid, startTicks: status.startTicks)
    }

    var isAlive: Bool { ServerProcess(running: pid) == self }

    func signal(_ number: Int32) {
        if isAlive { _ = kill(pid, number) }
    }
}

/// The fields that are read from /proc/PID/stat (proc(5)).
struct ProcessStatus: Equatable {
    let name: String
    let state: Character
    let startTicks: UInt64

    /// Zombie or dead: it holds nothing any more, and only waits for its parent to reap it.
    var isDead: Bool { state == "Z" || state == "X" || state == "x" }

    init?(of pid: pid_t) {
        guard let text = Files.text("/proc/\(pid)/stat") else { return nil }
        self.init(parsing: text)
    }

    /// The name is in parentheses and may hold any character: the last one closes it.
    init?(parsing text: String) {
        guard let open = text.firstIndex(of: "("), let close = text.lastIndex(of: ")"), open < close else { return nil }
        let fields = text[text.index(after: close)...].split(separator: " ")
        // The state is field 3, the start time field 22.
        guard fields.count > 19, let state = fields[0].first, let start = UInt64(fields[19]) else { return nil }
        name = String(text[text.index(after: open)..<close])
        self.state = state
        startTicks = start
    }
}

/// The processes of one data directory. Each process of a server has it as its working directory.
enum ServerProcesses {
    /// Whether this pid is a live server process on `data`.
    static func isServer(_ pid: pid_t, on data: String) -> Bool {
        guard let status = ProcessStatus(of: pid), !status.isDead, status.name == "postgres" else { return false }
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
