internal import Glibc

/// The lock that a daemon holds while it keeps the cluster. The kernel drops it with the process, however that ends.
final class DirectoryLock: Sendable {
    private let descriptor: Int32

    /// Takes the lock without waiting. If another daemon has it, the error names that one.
    init(_ paths: ClusterPaths, account: Account) throws(ClusterError) {
        // Close-on-exec, or the server would hold the lock on after the daemon's death.
        let descriptor = open(paths.lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failed("open", paths.lock, errno) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            let holder = Files.text(paths.lock)?.split(whereSeparator: \.isNewline).first.map(String.init)
            close(descriptor)
            guard code == EWOULDBLOCK else { throw .failed("lock", paths.lock, code) }
            throw .inUse(directory: paths.data, holder: holder ?? "its process is unknown")
        }
        if account.switches { _ = fchown(descriptor, account.userID, account.groupID) }
        // For the error of a second owner alone: a failure here (a full disk) does not weaken the lock.
        let note = Array("process \(getpid())\n".utf8)
        if ftruncate(descriptor, 0) == 0 { _ = write(descriptor, note, note.count) }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }
}
