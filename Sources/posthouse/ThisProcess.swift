import Configuration
import Glibc
import Ledger
import Systemd
import Vocabulary

/// Facts about this process from Linux and systemd.
enum ThisProcess {
    /// This machine's wall clock.
    @Sendable static func now() -> Timestamp {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Timestamp(milliseconds: Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000)
    }

    /// The lock by which a restarted daemon takes over from its predecessor at once; nil: none, and leases run out. It
    /// lies in the unit's StateDirectory=, or else in `[embedded] directory` if that exists.
    static func stateLock(_ configuration: Configuration) -> StateLock? {
        StateLock.take(in: unitStateDirectory ?? configuration.embedded.directory)
    }

    /// The unit's StateDirectory=; nil: it was not started by a unit that has one.
    static var unitStateDirectory: String? {
        StateDirectory.ofUnit { name in getenv(name).map { String(cString: $0) } }
    }
}

extension StateLock.Mark {
    /// The id of a daemon in the ledger.
    var key: Identifier { KeyHash.daemon(machine: machine, device: device, inode: inode, token: token) }
}
