import Glibc

/// This machine's wall clock, for `webhook-timestamp` alone: receivers compare it with theirs. Nothing stored and no
/// retry depends on it.
enum WallClock {
    static var unixSeconds: Int64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Int64(now.tv_sec)
    }
}
