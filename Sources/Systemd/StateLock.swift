internal import CSystemd
internal import Glibc

/// A file in the state directory that one process at a time holds locked, from its start to its end.
///
/// The kernel drops the lock (flock(2)) with the process, however that ends, and not before: a process that is stopped
/// or hangs holds it. No child has it, for the descriptor is closed on exec. Whoever has the lock therefore knows that
/// the process which left its mark in the file is dead.
///
/// The mark names the file (machine, device, inode) and the run (a token, new with each): the same file restored from a
/// backup, copied to another host or shared by several (NFS) bears other marks. Only a copy of a whole machine's disk,
/// its machine id included, taken while the process ran, has the mark of a process that may live; and that once, for
/// the copy writes a token of its own.
package final class StateLock: Sendable {
    package struct Mark: Hashable, Sendable {
        /// 16 bytes, made from the machine id for Posthouse alone.
        package let machine: [UInt8]
        package let device: UInt64
        package let inode: UInt64
        /// 32 hex digits.
        package let token: String
    }

    private static let tokenBytes = 32

    /// Of the process that had the file before, and is dead; nil: there was none, or it left no mark.
    package let former: Mark?
    /// Of this process.
    package let own: Mark
    /// Never closed: the lock is to last until the process has ended.
    private let descriptor: Int32

    /// Nil: another process has the lock, or the file cannot be made here, or the machine has no id. Does not wait.
    /// - Parameter directory: is not made where it is missing.
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

    /// Leaves the mark of this process in the file, in place of its predecessor's.
    /// - Returns: false: it could not be written (a full disk), and the next process will not know this one.
    @discardableResult
    package func leaveMark() -> Bool {
        let bytes = Array((own.token + "\n").utf8)
        return pwrite(descriptor, bytes, bytes.count, 0) == bytes.count
            && ftruncate(descriptor, off_t(bytes.count)) == 0
            && fsync(descriptor) == 0
    }

    /// As if the process had ended.
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

    /// Needs nothing but /etc/machine-id. Nil: there is none, as in most containers.
    private static func machineID() -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        return posthouse_machine_id(&bytes) >= 0 ? bytes : nil
    }
}
