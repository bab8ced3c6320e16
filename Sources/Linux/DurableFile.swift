internal import Glibc

/// Files and folders that survive a crash of the machine. Every call blocks until the disk has answered.
package enum DurableFile {
    package struct Failure: Error, Sendable, Hashable, CustomStringConvertible {
        /// As after "cannot": `write`, `read`, `remove` …
        package let operation: String
        package let path: String
        package let errorNumber: Int32

        package var description: String {
            "cannot \(operation) \(path): \(String(cString: strerror(errorNumber)))"
        }

        /// Another process has it.
        package static func busy(_ path: String) -> Failure {
            Failure(operation: "lock", path: path, errorNumber: EWOULDBLOCK)
        }

        /// Its file system locks nothing.
        package var cannotLock: Bool { operation == "lock" && errorNumber != EWOULDBLOCK }

        package var isMissing: Bool { errorNumber == ENOENT }

        /// There is a file of that name.
        package var isTaken: Bool { errorNumber == EEXIST }

        /// Nothing may be written there: so is all that a unit of systemd does not name, with ProtectSystem=strict.
        package var isReadOnly: Bool { errorNumber == EROFS }

        /// The disk has lost it, or it is no file: it cannot be read another time either. Anything else may pass, as a
        /// want of descriptors or an error of a disk on the network does, or is for somebody to set right, as its owner
        /// is.
        package var isDamage: Bool { [EBADMSG, EUCLEAN, ELOOP, EISDIR].contains(errorNumber) }
    }

    /// A regular file of a folder.
    package struct Entry: Sendable, Hashable {
        package let name: String
        package let sizeBytes: Int
        /// Of its content, in milliseconds since 1970.
        package let writtenAtMilliseconds: Int64
    }

    /// Makes a folder of this user's alone, and those above it that are missing, which others may pass.
    /// - Returns: whether it was not there before.
    @discardableResult
    package static func makeFolder(_ path: String) throws(Failure) -> Bool { try makeFolder(path, mode: 0o700) }

    private static func makeFolder(_ path: String, mode: mode_t) throws(Failure) -> Bool {
        let parent = parent(of: path)
        if mkdir(path, mode) != 0 {
            var failure = errno
            // Once: there are file systems where nothing can be made, and that say the same of every folder (proc).
            if failure == ENOENT, let parent {
                _ = try makeFolder(parent, mode: 0o755)
                failure = mkdir(path, mode) == 0 ? 0 : errno
            }
            var status = stat()
            if failure == EEXIST, stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR { return false }
            guard failure == 0 else { throw Failure(operation: "make", path: path, errorNumber: failure) }
        }
        if let parent { try sync(folder: parent) }
        return true
    }

    /// Writes a new file that only this user may read, and waits until the disk has it. What failed leaves no file.
    package static func write(_ bytes: [UInt8], to path: String) throws(Failure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure(operation: "make", path: path, errorNumber: errno) }
        var failure: Int32 = 0
        if !writeAll(bytes, to: descriptor) || fsync(descriptor) != 0 { failure = errno }
        if close(descriptor) != 0, failure == 0 { failure = errno }
        guard failure != 0 else { return }
        unlink(path)
        throw Failure(operation: "write", path: path, errorNumber: failure)
    }

    /// Writes all of it to a file that is open.
    /// - Returns: false: it failed, and `errno` says why.
    package static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count == 0 { errno = EIO }
            guard count > 0 else { return false }
            written += count
        }
        return true
    }

    /// Writes a file in place of the one that may be there: who reads it finds one of the two, whole. It is durable
    /// when this returns. What failed may leave `PATH.new`, which the next call removes.
    package static func replace(_ path: String, with bytes: [UInt8]) throws(Failure) {
        let new = path + ".new"
        try remove(new)
        try write(bytes, to: new)
        try move(new, to: path)
        if let parent = parent(of: path) { try sync(folder: parent) }
    }

    /// - Parameter bytesMax: a larger file is read to one byte beyond it.
    package static func read(_ path: String, bytesMax: Int) throws(Failure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure(operation: "read", path: path, errorNumber: errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Failure(operation: "read", path: path, errorNumber: errno) }
        var bytes = [UInt8](repeating: 0, count: min(Int(status.st_size), bytesMax) + 1)
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { raw in
                Glibc.read(descriptor, raw.baseAddress?.advanced(by: filled), raw.count - filled)
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Failure(operation: "read", path: path, errorNumber: errno) }
            if count == 0 { break }
            filled += count
        }
        bytes.removeLast(bytes.count - filled)
        return bytes
    }

    /// Moves a file within a file system. It is durable once both folders are synced.
    package static func move(_ path: String, to target: String) throws(Failure) {
        guard rename(path, target) == 0 else { throw Failure(operation: "rename", path: path, errorNumber: errno) }
    }

    /// Like `move`, but never in place of another file: fails with `isTaken` then.
    package static func move(_ path: String, toUnused target: String) throws(Failure) {
        var failure = Renaming.rename(path, toUnused: target)
        if failure == 0 { return }
        // A file system that cannot refuse it by itself, as NFS: a name that is given between these two steps is lost.
        if failure == EINVAL {
            var status = stat()
            guard lstat(target, &status) == 0 else { return try move(path, to: target) }
            failure = EEXIST
        }
        throw Failure(operation: "rename", path: path, errorNumber: failure)
    }

    /// Removes a file; one that is not there is no failure. It is durable once the folder is synced.
    package static func remove(_ path: String) throws(Failure) {
        guard unlink(path) == 0 || errno == ENOENT else {
            throw Failure(operation: "remove", path: path, errorNumber: errno)
        }
    }

    /// Removes a folder that is empty.
    package static func removeFolder(_ path: String) throws(Failure) {
        guard rmdir(path) == 0 || errno == ENOENT else {
            throw Failure(operation: "remove", path: path, errorNumber: errno)
        }
    }

    /// Waits until the disk has the names in a folder (fsync(2)).
    package static func sync(folder path: String) throws(Failure) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure(operation: "open", path: path, errorNumber: errno) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw Failure(operation: "sync", path: path, errorNumber: errno) }
    }

    /// The regular files of a folder, in no order.
    package static func files(of path: String) throws(Failure) -> [Entry] {
        try entries(of: path).compactMap { name, status in
            guard status.st_mode & S_IFMT == S_IFREG else { return nil }
            return Entry(
                name: name, sizeBytes: Int(status.st_size),
                writtenAtMilliseconds: Int64(status.st_mtim.tv_sec) * 1_000 + Int64(status.st_mtim.tv_nsec) / 1_000_000)
        }
    }

    /// The names of the folders in a folder, in no order.
    package static func folders(of path: String) throws(Failure) -> [String] {
        try entries(of: path).filter { $0.status.st_mode & S_IFMT == S_IFDIR }.map(\.name)
    }

    private static func entries(of path: String) throws(Failure) -> [(name: String, status: stat)] {
        guard let folder = opendir(path) else { throw Failure(operation: "list", path: path, errorNumber: errno) }
        defer { closedir(folder) }
        var entries: [(name: String, status: stat)] = []
        while true {
            errno = 0
            guard let entry = readdir(folder) else {
                guard errno == 0 else { throw Failure(operation: "list", path: path, errorNumber: errno) }
                return entries
            }
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard name != ".", name != ".." else { continue }
            var status = stat()
            // Gone since the listing, or a name that is no UTF-8 and none of ours.
            guard fstatat(dirfd(folder), name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { continue }
            entries.append((name, status))
        }
    }

    /// nil: there is nothing above it.
    private static func parent(of path: String) -> String? {
        let trimmed = path.hasSuffix("/") ? path.dropLast() : path[...]
        guard let slash = trimmed.lastIndex(of: "/") else { return trimmed.isEmpty ? nil : "." }
        guard trimmed.index(after: slash) != trimmed.endIndex else { return nil }
        return slash == trimmed.startIndex ? "/" : String(trimmed[..<slash])
    }
}
