internal import CLinux
internal import Glibc

/// File descriptors that this process may still open.
///
/// A process must not use its last one: libdispatch looks at its threads in /proc now and then, and ends the process if
/// it cannot open a file (`_dispatch_workq_count_runnable_workers` in its src/event/workqueue.c). So whoever opens
/// connections asks first.
package enum Descriptors {
    /// Raises this process's limit to what it may have at most, up to `wanted`: a container's may begin at 1,024.
    package static func raiseLimit(to wanted: Int) {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(resource, &limit) == 0 else { return }
        let raised = min(limit.rlim_max, rlim_t(wanted))
        guard raised > limit.rlim_cur else { return }
        limit.rlim_cur = raised
        _ = setrlimit(resource, &limit)
    }

    /// Whether fewer than `reserve` are left below this process's limit, or the machine has none.
    /// - Returns: nil: there are enough; else EMFILE or ENFILE, as open(2) has them.
    package static func shortage(reserve: Int) -> CInt? {
        // The kernel gives the lowest number that is free, so where numbers are low there is room above.
        let probe = open("/", posthouse_o_path | O_CLOEXEC)
        guard probe >= 0 else { return [EMFILE, ENFILE].contains(errno) ? errno : nil }
        close(probe)
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return Int(clamping: limit.rlim_cur) - Int(probe) > reserve ? nil : EMFILE
    }
}
