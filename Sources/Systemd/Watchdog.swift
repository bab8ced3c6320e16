internal import CSystemd

/// The unit's `WatchdogSec=`, passed in WATCHDOG_USEC and WATCHDOG_PID (sd_watchdog_enabled(3)).
package enum Watchdog {
    /// How long the service may stay silent before it is killed; nil: no watchdog, or not for this process.
    /// sd_watchdog_enabled(3) recommends to call `Notify.watchdog()` every half of it.
    package static func interval() -> Duration? {
        var microseconds: UInt64 = 0
        guard sd_watchdog_enabled(0, &microseconds) > 0, microseconds > 0, microseconds < UInt64(Int64.max) else {
            return nil
        }
        return .microseconds(Int64(microseconds))
    }
}
