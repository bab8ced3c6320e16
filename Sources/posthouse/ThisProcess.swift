import Configuration
import Glibc
import Ledger
import Systemd
import Vocabulary

/// What Linux and systemd say of this process.
enum ThisProcess {
    /// This machine's wall clock.
    @Sendable static func now() -> Timestamp {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Timestamp(milliseconds: Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000)
    }

    /// The lock by which a daemon that is started again takes over from its own predecessor at once; nil: none, and
    /// leases run out. Of the unit's StateDirectory=, else of `[embedded] directory` where that is.
    static func stateLock(_ configuration: Configuration) -> StateLock? {
        let ofUnit = getenv("STATE_DIRECTORY").flatMap { String(cString: $0).split(separator: ":").first }
        return StateLock.take(in: ofUnit.map(String.init) ?? configuration.embedded.directory)
    }
}

extension StateLock.Mark {
    /// What the ledger knows a daemon by.
    var key: Identifier { Identity.daemon(machine: machine, device: device, inode: inode, token: token) }
}
