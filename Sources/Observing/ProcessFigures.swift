internal import Glibc
internal import Linux

/// The process_* figures that Prometheus client libraries agree on, from /proc/self (proc(5)). What cannot be read is
/// left out. /proc/stat is not needed: the unit's ProcSubset=pid hides it.
struct ProcessFigures: Sendable {
    var residentBytes: Int?
    var virtualBytes: Int?
    var cpuSeconds: Double?
    /// Seconds since 1970, to about a clock tick.
    var startTimeSeconds: Double?
    var openDescriptors: Int?
    var maxDescriptors: Int?

    static func now() -> ProcessFigures {
        var wall = timespec()
        var sinceBoot = timespec()
        clock_gettime(CLOCK_REALTIME, &wall)
        clock_gettime(CLOCK_BOOTTIME, &sinceBoot)
        var figures = ProcessFigures(
            ProcessStat(of: "self"), ticksPerSecond: max(1, sysconf(Int32(_SC_CLK_TCK))),
            pageBytes: sysconf(Int32(_SC_PAGESIZE)), bootTimeSeconds: seconds(wall) - seconds(sinceBoot))
        figures.openDescriptors = entries(of: "/proc/self/fd")
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            figures.maxDescriptors = Int(clamping: limit.rlim_cur)
        }
        return figures
    }

    init(_ stat: ProcessStat?, ticksPerSecond: Int, pageBytes: Int, bootTimeSeconds: Double) {
        // utime is the 14th field of proc(5), stime the 15th, starttime the 22nd, and so on.
        func field(_ number: Int) -> Int? { stat?.number(number) }
        if let user = field(14), let system = field(15) { cpuSeconds = Double(user + system) / Double(ticksPerSecond) }
        if let start = field(22) { startTimeSeconds = bootTimeSeconds + Double(start) / Double(ticksPerSecond) }
        virtualBytes = field(23)
        residentBytes = field(24).map { $0 * pageBytes }
    }

    func write(to out: inout PrometheusText) {
        let whole = [
            ("process_resident_memory_bytes", "Resident memory in bytes.", residentBytes),
            ("process_virtual_memory_bytes", "Virtual memory in bytes.", virtualBytes),
            ("process_open_fds", "Open file descriptors.", openDescriptors),
            ("process_max_fds", "Most file descriptors that may be open.", maxDescriptors),
        ]
        for (name, help, value) in whole {
            guard let value else { continue }
            out.family(name, .gauge, help)
            out.sample(name, [], value)
        }
        if let cpuSeconds {
            out.family("process_cpu_seconds_total", .counter, "User and system CPU time in seconds.")
            out.sample("process_cpu_seconds_total", [], cpuSeconds)
        }
        if let startTimeSeconds {
            out.family("process_start_time_seconds", .gauge, "Start of the process, in seconds since 1970.")
            out.sample("process_start_time_seconds", [], startTimeSeconds)
        }
    }

    private static func seconds(_ time: timespec) -> Double { Double(time.tv_sec) + Double(time.tv_nsec) / 1e9 }

    /// Entries of a directory; the descriptor that reads it is not counted.
    private static func entries(of path: String) -> Int? {
        guard let directory = opendir(path) else { return nil }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Without `.`, `..` and our own.
        return max(0, count - 3)
    }
}
