import Foundation

/// A short temporary directory that goes away with everything that was started in it, however the test ends.
final class ScratchDirectory: Sendable {
    let path: String

    init() throws {
        // Socket paths hold 107 bytes: short on purpose. Searchable, for a private cluster has a user of its own.
        var template = Array("/tmp/phsXXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw HarnessFailure(call: "mkdtemp") }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        chmod(path, 0o755)
        Guardian.shared.watch(path)
    }

    deinit { remove() }

    /// - Returns: the file's path.
    @discardableResult
    func write(_ name: String, _ text: String, mode: mode_t = 0o600) throws -> String {
        let file = path + "/" + name
        try Data(text.utf8).write(to: URL(fileURLWithPath: file))
        chmod(file, mode)
        return file
    }

    /// Ends what still runs on the directory (a private cluster outlives its killed daemon by design), removes it.
    func remove() {
        for process in Self.processes(mentioning: path) { kill(process, SIGKILL) }
        try? FileManager.default.removeItem(atPath: path)
    }

    /// Processes whose command line names the directory, which is ours alone.
    private static func processes(mentioning path: String) -> [pid_t] {
        let entries = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return entries.compactMap { pid_t($0) }.filter { process in
            let line = FileManager.default.contents(atPath: "/proc/\(process)/cmdline") ?? Data()
            return process != getpid() && line.range(of: Data(path.utf8)) != nil
        }
    }
}

/// A small shell outside this process's group that waits for its end and then cleans up after it: a test that crashes
/// or is killed leaves neither daemons nor clusters behind.
final class Guardian: Sendable {
    static let shared = Guardian()

    /// Held open for as long as this process lives: its end is the signal.
    private let lifeline: Int32

    private init() {
        var ends: [Int32] = [-1, -1]
        guard ChildProcess.streamPair(&ends) else { preconditionFailure("socketpair: errno \(errno)") }
        lifeline = ends[1]
        let script = """
            directories=
            while read -r directory; do directories="$directories $directory"; done
            for directory in $directories; do
              [ -e "$directory" ] || continue
              for process in /proc/[0-9]*; do
                if grep -qsF "$directory" "$process/cmdline"; then kill -9 "${process#/proc/}"; fi
              done
              rm -rf "$directory"
            done
            """
        _ = try? ChildProcess.spawn(
            ["setsid", "sh", "-c", script], environment: nil, input: ends[0], output: nil, errors: nil)
        close(ends[0])
    }

    func watch(_ path: String) {
        let line = Array((path + "\n").utf8)
        _ = write(lifeline, line, line.count)
    }
}
