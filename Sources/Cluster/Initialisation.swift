internal import Glibc

/// Makes a new cluster beside its final path, and renames it as the last step. If this is cut short, there is no
/// cluster, and the next start begins anew.
enum Initialisation {
    static func run(_ paths: ClusterPaths, _ account: Account, _ binaries: Binaries) async throws(ClusterError) {
        let unfinished = try makeUnfinished(paths, account)
        do throws(ClusterError) {
            try await fill(unfinished, paths, account, binaries)
            guard rename(unfinished, paths.data) == 0 else { throw .failed("rename", unfinished, errno) }
            try Files.sync(directory: paths.directory)
        } catch {
            await remove(unfinished, account)
            throw error
        }
    }

    /// Removes what earlier, killed initialisations left. An initdb that outlived its daemon and still writes into
    /// such a directory fails there; it can never reach the cluster.
    static func removeLeftovers(_ paths: ClusterPaths, _ account: Account) async {
        for name in Files.entries(paths.directory) ?? [] where name.hasPrefix(paths.unfinishedPrefix) {
            await remove(paths.directory + "/" + name, account)
        }
    }

    private static func makeUnfinished(_ paths: ClusterPaths, _ account: Account) throws(ClusterError) -> String {
        var template = Array((paths.directory + "/" + paths.unfinishedPrefix + "XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else { throw .failed("make a directory in", paths.directory, errno) }
        let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        guard !account.switches || lchown(path, account.userID, account.groupID) == 0 else {
            throw .failed("chown", path, errno)
        }
        return path
    }

    private static func fill(
        _ path: String, _ paths: ClusterPaths, _ account: Account, _ binaries: Binaries
    ) async throws(ClusterError) {
        do throws(Tool.Failure) {
            // Byte order (C) never changes with a library, so no index is ever invalid after an upgrade of libc.
            // Trust holds for the socket alone, which lies in a directory of 0700.
            try await Tool.output(
                of: binaries.initdb,
                [
                    "-D", path, "-U", Settings.superuser, "--encoding=UTF8", "--locale=C", "--auth-local=trust",
                    "--auth-host=reject", "--data-checksums",
                ], as: account)
            try await Roles.run(Roles.creation, in: path, database: "template1", account, binaries)
        } catch {
            if Task.isCancelled { throw .cancelled }
            if Tool.indicatesFullDisk(error.lines) { throw .diskFull(directory: paths.directory) }
            throw .initialisationFailed(directory: paths.data, lines: error.lines)
        }
        let conf = path + "/postgresql.conf"
        guard let text = Files.read(conf, limit: ClusterLimits.outputBytesMax) else {
            throw .failed("read", conf, errno)
        }
        try await Settings.write(in: path, account, binaries)
        try Files.replace(
            conf, with: Settings.withInclude(String(decoding: text, as: UTF8.self)), owner: account)
        try Roles.mark(path, owner: account)
    }

    /// Removes as the account itself, so that no link in there leads root astray. What cannot be removed stays and does
    /// no harm.
    private static func remove(_ path: String, _ account: Account) async {
        // In a task of its own: it also cleans up after a cancelled start.
        await Task.detached {
            for _ in 0..<ClusterLimits.removalAttempts {
                _ = try? await Tool.output(of: "/bin/rm", ["-rf", "--one-file-system", "--", path], as: account)
                // The directory above may not be the account's.
                if rmdir(path) == 0 || Files.status(path) == nil { return }
                // A server process of a killed initdb still writes there; it ends when it notices that its parent is
                // gone.
                try? await Task.sleep(for: ClusterLimits.removalGap)
            }
        }.value
    }
}
