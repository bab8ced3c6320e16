internal import CSystemd
internal import Glibc

/// Notifies the service manager (sd_notify(3)); each message is one datagram to `NOTIFY_SOCKET`.
///
/// Without systemd the variable is absent and nothing is sent. A failure is returned, not logged: the caller decides.
package enum Notify {
    /// The result of sending a message.
    package enum Delivery: Equatable, Sendable {
        case sent
        /// `NOTIFY_SOCKET` is not set: not started by a service manager.
        case notSupervised
        /// The errno of the failed send.
        case failed(Int32)
    }

    /// Reports that the start, or after `reloading()` the reload, is complete. `systemctl status` shows `status`.
    package static func ready(status: String) -> Delivery {
        send("READY=1\nSTATUS=\(singleLine(status))")
    }

    /// Sets the line that `systemctl status` shows.
    package static func status(_ text: String) -> Delivery {
        send("STATUS=\(singleLine(text))")
    }

    /// Extends the time-out of the start or the stop: it may take `time` from now, whatever the unit says. To be
    /// repeated before `time` is over.
    package static func extendTimeout(by time: Duration) -> Delivery {
        let (seconds, attoseconds) = time.components
        return send("EXTEND_TIMEOUT_USEC=\(seconds * 1_000_000 + attoseconds / 1_000_000_000_000)")
    }

    /// Reports that the configuration is being read again; `ready(status:)` ends the reload.
    ///
    /// `Type=notify-reload` (systemd 253 and later) requires MONOTONIC_USEC; systemd 252 ignores it.
    package static func reloading() -> Delivery {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let microseconds = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1_000
        return send("RELOADING=1\nMONOTONIC_USEC=\(microseconds)")
    }

    /// Reports that the service drains and then ends.
    package static func stopping(status: String) -> Delivery {
        send("STOPPING=1\nSTATUS=\(singleLine(status))")
    }

    /// Resets the watchdog. Call it only once the caller's own threads have answered.
    package static func watchdog() -> Delivery {
        send("WATCHDOG=1")
    }

    private static func send(_ state: String) -> Delivery {
        // The environment stays set: every later message needs it.
        let result = sd_notify(0, state)
        if result > 0 { return .sent }
        return result == 0 ? .notSupervised : .failed(-result)
    }

    /// Replaces control characters by blanks: a newline in text from outside would begin another assignment.
    static func singleLine(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? " " : $0 }))
    }
}
