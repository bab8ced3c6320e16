internal import Glibc

/// Locks a folder for one process at a time, by a file in it (flock(2)): whoever has the lock knows that nobody else
/// works in the folder. The kernel releases it when the process ends, however it ends; no child inherits it.
package final class FolderLock: Sendable {
    package static let fileName = "lock"

    private let descriptor: Int32

    /// Takes the lock without waiting; nil: another process has it, or the folder was removed meanwhile.
    package static func take(in folder: String) throws(DurableFile.Failure) -> FolderLock? {
        let path = folder + "/" + fileName
        let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw DurableFile.Failure(operation: "open", path: path, errorNumber: errno)
        }
        let lock = FolderLock(descriptor)
        var (held, named) = (stat(), stat())
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            if errno == EWOULDBLOCK { return nil }
            throw DurableFile.Failure(operation: "lock", path: path, errorNumber: errno)
        }
        // Who removes a folder has its lock: the file that was opened may be nobody's any more.
        guard fstat(descriptor, &held) == 0, stat(path, &named) == 0, held.st_ino == named.st_ino else { return nil }
        return lock
    }

    /// Whether another process has the lock; false, too, where that cannot be seen. It writes nothing, so that it sees
    /// one where nothing may be written.
    package static func isHeld(in folder: String) -> Bool {
        let descriptor = open(folder + "/" + fileName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
    }

    private init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }
}
