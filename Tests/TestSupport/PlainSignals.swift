package import Foundation

/// Passes the attributes by which a program is started with no signal blocked or ignored. A thread of the concurrency
/// runtime blocks them all, and what a shell starts in the background ignores SIGINT: children would inherit that, and
/// never be terminated.
/// - Parameter flags: further POSIX_SPAWN_ flags.
package func withPlainSignals<Value>(
    _ flags: Int32 = 0, _ body: (inout posix_spawnattr_t) throws -> Value
) rethrows -> Value {
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var (none, all) = (sigset_t(), sigset_t())
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | flags))
    return try body(&attributes)
}
