internal import Glibc
internal import Linux

/// The few file operations that the cluster needs, with errors that name the path. As root some of the directories
/// belong to the less trusted user who runs the server: nothing here follows a symbolic link in the last component.
enum Files {
    /// At most `limit` bytes from the start, or nil where there is no readable file.
    static func read(_ path: String, limit: Int = ClusterLimits.smallFileBytesMax) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return read(descriptor, from: nil, limit: limit)
    }

    /// The text of a small file, without validation of its encoding.
    static func text(_ path: String) -> String? { read(path).map { String(decoding: $0, as: UTF8.self) } }

    /// The bytes from `offset` on, at most `limit`, the last ones if there are more.
    static func tail(_ path: String, from offset: Int, limit: Int) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        let size = Int(lseek(descriptor, 0, SEEK_END))
        // The log may have started over meanwhile: then all of it is new.
        let begin = max(size < offset ? 0 : offset, size - limit)
        return read(descriptor, from: begin, limit: limit) ?? []
    }

    private static func read(_ descriptor: Int32, from offset: Int?, limit: Int) -> [UInt8]? {
        if let offset { lseek(descriptor, off_t(offset), SEEK_SET) }
        var out = [UInt8]()
        var buffer = [UInt8](repeating: 0, count: min(limit, 16 << 10))
        while out.count < limit {
            let count = Glibc.read(descriptor, &buffer, min(buffer.count, limit - out.count))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { break }
            out += buffer[..<count]
        }
        return out
    }

    /// The status of a file, without following a link in the last component; nil where there is nothing.
    static func status(_ path: String) -> stat? {
        var info = stat()
        return lstat(path, &info) == 0 ? info : nil
    }

    /// Where a symbolic link leads; nil: it is none.
    static func linkTarget(_ path: String) -> String? {
        var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &bytes, bytes.count)
        return count < 0 ? nil : String(decoding: bytes.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    static func isDirectory(_ info: stat) -> Bool { info.st_mode & S_IFMT == S_IFDIR }

    /// Names in a directory, without `.` and `..`; nil where it cannot be read.
    static func entries(_ path: String) -> [String]? {
        guard let directory = opendir(path) else { return nil }
        defer { closedir(directory) }
        var names = [String]()
        while let entry = Glibc.readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// Makes a directory of this mode, whatever the umask takes away.
    /// - Returns: 0, or the errno: EEXIST where there is something already, which stays as it is.
    static func makeDirectory(_ path: String, mode: mode_t) -> Int32 {
        guard mkdir(path, mode) == 0 else { return errno }
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        return fchmod(descriptor, mode) == 0 ? 0 : errno
    }

    /// Replaces the file with `text`, whole or not at all. Does nothing if it holds exactly that already, so that a
    /// full disk does not hinder a start.
    static func replace(_ path: String, with text: String, owner: Account) throws(ClusterError) {
        let bytes = Array(text.utf8)
        if read(path) == bytes { return }
        let temporary = path + ".new"
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failed("write", temporary, errno) }
        defer { close(descriptor) }
        guard DurableFile.writeAll(bytes, to: descriptor) else { throw .failed("write", temporary, errno) }
        if owner.switches, fchown(descriptor, owner.userID, owner.groupID) != 0 {
            throw .failed("chown", temporary, errno)
        }
        guard fsync(descriptor) == 0 else { throw .failed("write", temporary, errno) }
        guard rename(temporary, path) == 0 else { throw .failed("rename", temporary, errno) }
    }

    /// Makes a rename inside `directory` durable.
    static func sync(directory: String) throws(ClusterError) {
        do throws(DurableFile.Failure) {
            try DurableFile.sync(folder: directory)
        } catch {
            throw .failed(error.operation, error.path, error.errorNumber)
        }
    }

    /// `path` and each directory above it, the root first.
    static func ancestors(of path: String) -> [String] {
        var out = ["/"]
        var current = ""
        for part in path.split(separator: "/") {
            current += "/" + part
            out.append(current)
        }
        return out
    }
}
