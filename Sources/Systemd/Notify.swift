internal import CSystemd
internal import Glibc

/// What the service manager is told (sd_notify(3)): each message is one datagram to `NOTIFY_SOCKET`.
///
/// Off systemd the variable is absent and nothing is sent. A failure is returned, not logged: the caller decides.
package enum Notify {
    /// What became of a message.
    package enum Delivery: Equatable, Sendable {
        case sent
        /// `NOTIFY_SOCKET` is not set: not started by a service manager.
        case notSupervised
        /// The errno of the failed send.
        case failed(Int32)
    }

    /// The start is complete; after `reloading()`, so is the reload. `status` is what `systemctl status` shows.
    @discardableResult
    package static func ready(status: String) -> Delivery {
        send("READY=1\nSTATUS=\(singleLine(status))")
    }

    /// One line for `systemctl status`.
    @discardableResult
    package static func status(_ text: String) -> Delivery {
        send("STATUS=\(singleLine(text))")
    }

    /// The start (or the stop) goes on and may take so much longer than the unit's time-out says; to be repeated before
    /// `time` is over.
    @discardableResult
    package static func extendTimeout(by time: Duration) -> Delivery {
        let (seconds, attoseconds) = time.components
        return send("EXTEND_TIMEOUT_USEC=\(seconds * 1_000_000 + attoseconds / 1_000_000_000_000)")
    }

    /// The configuration is being read again; `ready(status:)` ends it.
    ///
    /// MONOTONIC_USEC is what a `Type=notify-reload` unit (systemd 253 and later) asks for; 252 ignores it.
    @discardableResult
    package static func reloading() -> Delivery {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let microseconds = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1_000
        return send("RELOADING=1\nMONOTONIC_USEC=\(microseconds)")
    }

    /// The service drains and then ends.
    @discardableResult
    package static func stopping(status: String) -> Delivery {
        send("STOPPING=1\nSTATUS=\(singleLine(status))")
    }

    /// Feeds the watchdog. Only to be called once the caller's own threads have answered.
    @discardableResult
    package static func watchdog() -> Delivery {
        send("WATCHDOG=1")
    }

    private static func send(_ state: String) -> Delivery {
        // The environment stays set: every later message needs it.
        let result = sd_notify(0, state)
        if result > 0 { return .sent }
        return result == 0 ? .notSupervised : .failed(-result)
    }

    /// A newline would begin another assignment: text from outside must not become one.
    static func singleLine(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? " " : $0 }))
    }
}
