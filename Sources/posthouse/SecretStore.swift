import Configuration
import Glibc
import Linux
import Observing
import Vocabulary

/// The files of secrets, and the drop-in that names them. Every error says which path it is about.
enum SecretStore {
    /// Whether there is anything at the path, a dangling link included.
    static func exists(_ path: String) -> Bool {
        var info = stat()
        return lstat(path, &info) == 0
    }

    /// Whether a link is at the path, wherever it leads.
    static func isLink(_ path: String) -> Bool {
        var info = stat()
        return lstat(path, &info) == 0 && info.st_mode & S_IFMT == S_IFLNK
    }

    /// Whether a directory is root's, and nobody else may enter it.
    static func isOfRootAlone(_ directory: String) -> Bool {
        var info = stat()
        return stat(directory, &info) == 0 && info.st_uid == 0 && info.st_mode & 0o011 == 0
    }

    /// The age and the mode of what is at the path, links followed.
    static func look(_ path: String) -> ListedSecret.Look {
        var info = stat()
        guard stat(path, &info) == 0 else { return errno == ENOENT || errno == ENOTDIR ? .missing : .hidden }
        let modified = Int64(info.st_mtim.tv_sec) * 1_000
        let seconds = max(0, (ThisProcess.now().milliseconds - modified) / 1_000)
        let kind = info.st_mode & S_IFMT
        return .found(
            ListedSecret.Facts(
                ageSeconds: Int(seconds), mode: kind == S_IFREG ? info.st_mode & 0o7777 : nil,
                isDirectory: kind == S_IFDIR))
    }

    /// The path without links; of a file that is not there, or cannot be seen, that of its directory and its name.
    static func realPath(_ path: String) -> String {
        if let real = FileStatus.realPath(path) { return real }
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex,
            let real = FileStatus.realPath(String(path[..<slash]))
        else { return path }
        return (real == "/" ? "" : real) + path[slash...]
    }

    /// The names of the files in a directory but for hidden ones; none where there is no such directory.
    static func names(in directory: String) throws -> [String] {
        guard let stream = opendir(directory) else {
            if errno == ENOENT { return [] }
            throw failure("cannot be read", directory)
        }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard !name.hasPrefix(".") else { continue }
            switch look("\(directory)/\(name)") {
            case .found(let facts): if facts.mode != nil { names.append(name) }
            case .hidden: names.append(name)
            case .missing: break
            }
        }
        return names
    }

    /// The bytes of a small file; nil where there is none. Throws for a link: what is there is another's to write.
    static func read(_ path: String) throws -> [UInt8]? {
        if isLink(path) {
            throw OperatorError(
                "\(shown(path)) is a link, and is left as it is; add the line to the file that it leads to")
        }
        switch SecretReader.system.readFile(path, ConfigurationLimits.secretBytesMax) {
        case .success(let file): return file.bytes
        case .failure(.notFound): return nil
        case .failure(let reason): throw OperatorError("\(shown(path)) cannot be read: \(reason.text)")
        }
    }

    /// Makes a directory and those above it that are missing.
    /// - Parameter mode: of the last one; those above get 0755.
    static func makeDirectory(_ path: String, mode: mode_t) throws {
        guard !exists(path) else { return }
        let parts = path.split(separator: "/")
        for count in 1...max(1, parts.count) {
            let part = "/" + parts.prefix(count).joined(separator: "/")
            guard !exists(part) else { continue }
            let wanted = count == parts.count ? mode : 0o755
            guard mkdir(part, wanted) == 0 else {
                // Another command has just made it.
                if errno == EEXIST { continue }
                throw failure("cannot be made", part)
            }
            // The umask may have taken bits away.
            guard chmod(part, wanted) == 0 else { throw failure("cannot get its mode", part) }
        }
    }

    /// Waits until no other `secret add` writes to this directory.
    /// - Returns: a descriptor; to close it ends the lock.
    static func lock(_ directory: String) throws -> Int32 {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("cannot be opened", directory) }
        for _ in 0..<lockTriesMax {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
            guard errno == EWOULDBLOCK || errno == EINTR else { break }
            usleep(lockPauseMicroseconds)
        }
        defer { close(descriptor) }
        throw failure("cannot be locked, nothing was stored", directory)
    }

    /// Together 10 s.
    private static let lockTriesMax = 200
    private static let lockPauseMicroseconds: UInt32 = 50_000

    /// What a file replaces.
    enum Replacement {
        /// Nothing: a file that is there already is an error, and stays.
        case nothing
        /// What is there, in one step; nobody ever sees half a file.
        case whatIsThere
        /// The same. The new file keeps the owner, the group and the mode of the old one, up to 0640, so that a daemon
        /// that reads it still may.
        case keepingOwner
    }

    /// Writes a file whole or not at all, durably: a temporary file beside it, then link(2) or rename(2).
    static func write(_ bytes: [UInt8], to path: String, mode: mode_t, replacing: Replacement) throws {
        if replacing != .nothing { try refuseLink(path) }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        let directory = "/" + parts.dropLast().filter { !$0.isEmpty }.joined(separator: "/")
        let mark = String(UInt64.random(in: .min ... .max), radix: 36)
        let temporary = "\(directory)/.\(parts.last ?? "").\(mark)"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("cannot be written", path) }
        defer {
            close(descriptor)
            unlink(temporary)
        }
        guard DurableFile.writeAll(bytes, to: descriptor) else { throw failure("cannot be written", path) }
        var old = stat()
        var mode = mode
        if case .keepingOwner = replacing, lstat(path, &old) == 0, old.st_mode & S_IFMT == S_IFREG {
            mode = old.st_mode & 0o640
            if old.st_uid != geteuid() || old.st_gid != getegid() {
                guard fchown(descriptor, old.st_uid, old.st_gid) == 0 else {
                    throw failure("cannot keep its owner", path)
                }
            }
        }
        guard fchmod(descriptor, mode) == 0, fsync(descriptor) == 0 else { throw failure("cannot be written", path) }
        switch replacing {
        case .nothing:
            // Unlike rename(2), link(2) never replaces a file that somebody has just made.
            guard link(temporary, path) == 0 else {
                if errno == EEXIST { throw OperatorError(existsText(path)) }
                throw failure("cannot be written", path)
            }
        case .whatIsThere, .keepingOwner:
            guard rename(temporary, path) == 0 else { throw failure("cannot be written", path) }
        }
        try sync(directory)
    }

    /// What a link leads to is another's to write, and the link may be there for a reason.
    static func refuseLink(_ path: String) throws {
        guard isLink(path) else { return }
        throw OperatorError(
            "\(shown(path)) is a symbolic link and stays: nothing was stored; write the file that it leads to, or "
                + "remove the link")
    }

    static func remove(_ path: String) { unlink(path) }

    static func existsText(_ path: String) -> String {
        "\(shown(path)) is there already and stays; --replace replaces it. \(withoutGap)"
    }

    /// How a secret is changed while others use it. Only `[[source]]` and `[[integration]]` have a key for several.
    static let withoutGap = """
        To change a secret of a source or an integration without a gap, store the new one under another name, and name \
        both in secrets = [ … ] until the other side has changed. For an API token add a second [[api_token]] with the \
        new one, and remove the first once nothing uses it. All others (url, direct_url, headers, api, tls) are one \
        secret each: --replace is right for those
        """

    /// Makes what was renamed or linked in a directory durable.
    private static func sync(_ directory: String) throws {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("cannot be opened", directory) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("cannot be made durable", directory) }
    }

    private static func failure(_ what: String, _ path: String) -> OperatorError {
        let reason = String(cString: strerror(errno))
        return OperatorError("\(shown(path)) \(what): \(reason)")
    }

    private static func shown(_ path: String) -> String { PlainText.harmless(path) }
}
