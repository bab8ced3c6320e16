internal import CSystemd
internal import Glibc

/// Locks a file in the state directory for one process at a time, from its start to its end.
///
/// The kernel releases the lock (flock(2)) when the process ends, however it ends, and not before: a process that is
/// stopped or hangs still holds it. No child holds it, because the descriptor is closed on exec. So whoever gets the
/// lock knows that the process whose mark is in the file is dead.
///
/// The mark identifies the file (machine, device, inode) and the run (a new token each time). So the same file restored
/// from a backup, copied to another host or shared by several hosts (NFS) has other marks. The exception is a copy of a
/// whole machine's disk with its machine id, taken while the process ran: it has the mark of a process that may be
/// alive, but only once, because the copy then writes a token of its own.
package final class StateLock: Sendable {
    package struct Mark: Hashable, Sendable {
        /// 16 bytes, derived from the machine id for Posthouse alone.
        package let machine: [UInt8]
        package let device: UInt64
        package let inode: UInt64
        /// 32 hex digits.
        package let token: String
    }

    private static let tokenBytes = 32

    /// The mark of the previous process, which is dead; nil: there was none, or it left no mark.
    package let former: Mark?
    /// The mark of this process.
    package let own: Mark
    /// Stays open, because the lock must last until the process has ended.
    private let descriptor: Int32

    /// Takes the lock without waiting. Nil: another process has it, the file cannot be created or is not a regular file
    /// with one link, or the machine has no id.
    /// - Parameter directory: must exist; it is not created.
    package static func take(in directory: String) -> StateLock? {
        guard let machine = machineID() else { return nil }
        let descriptor = open(directory + "/daemon.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        var status = stat()
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0, fstat(descriptor, &status) == 0,
            status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1
        else {
            close(descriptor)
            return nil
        }
        return StateLock(descriptor, machine, status)
    }

    private init(_ descriptor: Int32, _ machine: [UInt8], _ status: stat) {
        func mark(_ token: String) -> Mark {
            Mark(machine: machine, device: UInt64(status.st_dev), inode: UInt64(status.st_ino), token: token)
        }
        former = Self.token(in: descriptor).map(mark)
        var generator = SystemRandomNumberGenerator()
        own = mark(Self.hex(generator.next()) + Self.hex(generator.next()))
        self.descriptor = descriptor
    }

    /// Writes the mark of this process into the file, in place of its predecessor's.
    /// - Returns: false: it could not be written (a full disk), and the next process will not find this one's mark.
    @discardableResult
    package func leaveMark() -> Bool {
        let bytes = Array((own.token + "\n").utf8)
        return pwrite(descriptor, bytes, bytes.count, 0) == bytes.count
            && ftruncate(descriptor, off_t(bytes.count)) == 0
            && fsync(descriptor) == 0
    }

    /// Releases the lock as if the process had ended, for tests.
    func end() { close(descriptor) }

    private static func token(in descriptor: Int32) -> String? {
        var bytes = [UInt8](repeating: 0, count: tokenBytes)
        guard pread(descriptor, &bytes, tokenBytes, 0) == tokenBytes else { return nil }
        let token = String(decoding: bytes, as: UTF8.self)
        return token.allSatisfy { $0.isASCII && $0.isHexDigit } ? token : nil
    }

    private static func hex(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    /// Reads nothing but /etc/machine-id. Nil: there is none, as in most containers.
    private static func machineID() -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        return posthouse_machine_id(&bytes) >= 0 ? bytes : nil
    }
}
