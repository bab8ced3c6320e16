internal import Glibc

/// A file or directory with its owner and its permissions (stat(2)), links followed.
package struct FileStatus: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case regular, directory, socket, other
    }

    package enum Failure: Error, Sendable, Hashable {
        case missing
        /// This process may not look: nothing is known of the file.
        case notPermitted
        case failed(errno: Int32)

        package var text: String {
            switch self {
            case .missing: "no such file"
            case .notPermitted: "permission denied"
            case .failed(let code): String(cString: strerror(code))
            }
        }
    }

    package let path: String
    package let kind: Kind
    package let owner: UInt32
    package let group: UInt32
    /// The nine permission bits, as chmod(1) writes them in octal.
    package let mode: UInt32
    package let sizeBytes: Int

    package init(path: String, kind: Kind, owner: UInt32, group: UInt32, mode: UInt32, sizeBytes: Int) {
        self.path = path
        self.kind = kind
        self.owner = owner
        self.group = group
        self.mode = mode
        self.sizeBytes = sizeBytes
    }

    package static func of(_ path: String) throws(Failure) -> FileStatus {
        var info = stat()
        guard stat(path, &info) == 0 else { throw failure(errno) }
        let kind: Kind =
            switch info.st_mode & S_IFMT {
            case S_IFREG: .regular
            case S_IFDIR: .directory
            case S_IFSOCK: .socket
            default: .other
            }
        return FileStatus(
            path: path, kind: kind, owner: info.st_uid, group: info.st_gid, mode: UInt32(info.st_mode) & 0o777,
            sizeBytes: Int(info.st_size))
    }

    /// Everything that the kernel passes on its way to a file: its directories from the root on, and the file as the
    /// last. Where a link is on the way, the directories behind it as well.
    /// - Parameter path: absolute, or relative to the working directory.
    package static func way(to path: String) throws(Failure) -> [FileStatus] {
        guard let resolved = realPath(path) else { throw failure(errno) }
        var passed = path.hasPrefix("/") ? Array(ancestors(of: path).dropLast()) : []
        for ancestor in ancestors(of: resolved) where !passed.contains(ancestor) { passed.append(ancestor) }
        var way: [FileStatus] = []
        for path in passed { way.append(try of(path)) }
        return way
    }

    /// The path without links and dots (realpath(3)); nil, with `errno` set, where a part of it is missing or may not
    /// be searched.
    package static func realPath(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    /// `/`, `/etc` and `/etc/hosts` of `/etc/hosts`.
    private static func ancestors(of path: String) -> [String] {
        var found = ["/"]
        var directory = ""
        for name in path.split(separator: "/") {
            directory += "/" + String(name)
            found.append(directory)
        }
        return found
    }

    private static func failure(_ code: Int32) -> Failure {
        switch code {
        case ENOENT, ENOTDIR: .missing
        case EACCES, EPERM: .notPermitted
        default: .failed(errno: code)
        }
    }
}
