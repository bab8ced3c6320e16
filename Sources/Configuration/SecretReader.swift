internal import Glibc

/// The only access of the configuration to anything outside its text. Tests pass their own.
package struct SecretReader: Sendable {
    package struct File: Sendable {
        package let bytes: [UInt8]
        /// Whether anyone on the machine may read it (mode & 0004).
        package var isReadableByOthers = false
    }

    package enum Failure: Error, Sendable, Hashable {
        case notFound
        case notPermitted
        case notARegularFile
        case larger(thanBytes: Int)
        case failed(errno: Int32)

        /// After "cannot be read: ".
        package var text: String {
            switch self {
            case .notFound: "no such file"
            case .notPermitted: "permission denied"
            case .notARegularFile: "not a regular file"
            case .larger(let limit): "larger than \(SizeText.write(limit))"
            case .failed(let code): String(cString: strerror(code))
            }
        }
    }

    package let environment: @Sendable (_ name: String) -> String?
    package let readFile: @Sendable (_ path: String, _ bytesMax: Int) -> Result<File, Failure>
    /// Whether the path is there and belongs to the user of this process.
    package var owns: @Sendable (_ path: String) -> Bool = { _ in false }
    /// The first directory on the way to a path that this process may not enter; nil where none is in the way.
    package var barrier: @Sendable (_ path: String) -> String? = { _ in nil }
    /// The name, or else the number, of the user that this process runs as.
    package var userName: @Sendable () -> String = { "\(geteuid())" }

    /// The credentials of the daemon that runs by a configuration file, for commands beside it; nil: this process may
    /// not look, there are none, or the daemon runs by another file.
    package var daemonsCredentials: @Sendable (_ file: String) -> String? = { _ in nil }

    /// The process's own environment and the file system.
    package static let system = SecretReader(
        environment: { name in getenv(name).map { String(cString: $0) } },
        readFile: { path, bytesMax in
            do throws(Failure) {
                return .success(try readRegularFile(path, bytesMax: bytesMax))
            } catch {
                return .failure(error)
            }
        },
        owns: { path in
            var status = stat()
            return lstat(path, &status) == 0 && status.st_uid == geteuid()
        },
        barrier: { path in
            path.indices.dropFirst().filter { path[$0] == "/" }.map { String(path[..<$0]) }
                .first { faccessat(AT_FDCWD, $0, X_OK, AT_EACCESS) != 0 && errno == EACCES }
        },
        userName: {
            guard let entry = getpwuid(geteuid()), let name = entry.pointee.pw_name else { return "\(geteuid())" }
            return String(cString: name)
        },
        daemonsCredentials: { file in
            // As systemd lays them out for the unit of the package (systemd.exec(5)). A unit that runs by another file
            // has others: by these a command would reach the database of this one.
            let directory = "/run/credentials/posthouse.service"
            guard isSame(file, ConfigurationFile.standardPath), access(directory, R_OK | X_OK) == 0 else { return nil }
            return directory
        })

    /// Whether two paths lead to one file.
    private static func isSame(_ one: String, _ other: String) -> Bool {
        var (first, second) = (stat(), stat())
        guard stat(one, &first) == 0, stat(other, &second) == 0 else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    /// Reads regular files only, opened without blocking: a FIFO in the place of a secret must not hold up a start.
    private static func readRegularFile(_ path: String, bytesMax: Int) throws(Failure) -> File {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure(errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notARegularFile }
        var bytes = [UInt8](repeating: 0, count: bytesMax + 1)
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { raw in
                read(descriptor, raw.baseAddress?.advanced(by: filled), raw.count - filled)
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(errno) }
            if count == 0 { break }
            filled += count
        }
        guard filled <= bytesMax else { throw .larger(thanBytes: bytesMax) }
        return File(bytes: Array(bytes[..<filled]), isReadableByOthers: status.st_mode & S_IROTH != 0)
    }

    private static func failure(_ code: Int32) -> Failure {
        switch code {
        case ENOENT, ENOTDIR: .notFound
        case EACCES, EPERM: .notPermitted
        default: .failed(errno: code)
        }
    }
}

/// The directory of the daemon's state, unless `[embedded] directory` says otherwise.
package enum StateDirectory {
    /// The directory of the package's unit (StateDirectory=posthouse), and of a daemon that runs as root.
    private static let system = "/var/lib/posthouse"

    /// `$STATE_DIRECTORY` (systemd; the first of several, systemd.exec(5)); nil: no unit that has one has started this
    /// process.
    package static func ofUnit(environment: (_ name: String) -> String?) -> String? {
        environment("STATE_DIRECTORY")?.split(separator: ":").first.map(String.init)
    }

    /// That of the unit; else /var/lib/posthouse, as root and as the user to whom it or the cluster in it belongs, for
    /// commands beside the daemon; else `$XDG_STATE_HOME/posthouse` (ignored unless absolute, XDG Base Directory 0.8)
    /// or `~/.local/state/posthouse`.
    /// - Parameter owns: whether a path is there and this user's own.
    package static func resolve(
        environment: (_ name: String) -> String?, isRoot: Bool, owns: (_ path: String) -> Bool
    ) -> String {
        if let ofUnit = ofUnit(environment: environment) { return ofUnit }
        if isRoot || owns(system) || owns(system + "/cluster") { return system }
        if let state = environment("XDG_STATE_HOME"), state.hasPrefix("/") { return state + "/posthouse" }
        if let home = environment("HOME"), home.hasPrefix("/") { return home + "/.local/state/posthouse" }
        return system
    }
}
