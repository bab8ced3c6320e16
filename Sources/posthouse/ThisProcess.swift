import Glibc
import Ledger
import Vocabulary

/// What Linux says of processes: who we are, and whether a neighbour still runs.
enum ThisProcess {
    /// Boot id and process namespace, process id, start in clock ticks since boot.
    static func identity() -> ProcessIdentity {
        let boot = text("/proc/sys/kernel/random/boot_id")?.split(separator: "\n").first.map(String.init) ?? "unknown"
        let id = getpid()
        return ProcessIdentity(
            place: boot + " " + (link("/proc/self/ns/pid") ?? ""), processID: id,
            startedTicks: startedTicks(of: id) ?? 0)
    }

    /// Whether the process that started at that tick still runs; a zombie does not.
    @Sendable static func isAlive(processID: Int32, startedTicks ticks: Int64) -> Bool {
        startedTicks(of: processID) == ticks
    }

    /// Field 22 of /proc/PID/stat, nil for no process or a zombie. The command's name (field 2) may hold blanks and
    /// brackets: fields are counted from its last bracket (proc(5)).
    private static func startedTicks(of processID: Int32) -> Int64? {
        guard let stat = text("/proc/\(processID)/stat"), let bracket = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[stat.index(after: bracket)...].split(separator: " ")
        guard fields.count > 19, fields[0] != "Z", fields[0] != "X" else { return nil }
        return Int64(fields[19])
    }

    private static func text(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    private static func link(_ path: String) -> String? {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = bytes.withUnsafeMutableBytes { buffer in
            buffer.withMemoryRebound(to: CChar.self) { chars in
                chars.baseAddress.map { readlink(path, $0, chars.count) } ?? -1
            }
        }
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    /// This machine's wall clock.
    @Sendable static func now() -> Timestamp {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Timestamp(milliseconds: Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000)
    }
}
