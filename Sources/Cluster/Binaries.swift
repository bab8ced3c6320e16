internal import Glibc
internal import Linux

/// The server binaries of one major version.
struct Binaries: Sendable, Equatable {
    let directory: String
    let major: Int

    var initdb: String { directory + "/initdb" }
    var postgres: String { directory + "/postgres" }

    /// The binaries that fit a cluster of version `existing`, or the newest for a new one.
    static func find(
        for existing: Int?, clusterDirectory: String, in hostEnvironment: HostEnvironment
    ) async throws(ClusterError) -> Binaries {
        if let existing, existing < ClusterLimits.majorVersionMin {
            throw .versionTooOld(directory: clusterDirectory, version: existing)
        }
        var found = versioned(in: hostEnvironment.versionsDirectory)
        if let wanted = choose(from: found, existing: existing) { return wanted }
        let onPath = await onPath(hostEnvironment.path)
        found += onPath
        if let wanted = choose(from: found, existing: existing) { return wanted }
        if let existing, !found.isEmpty {
            throw .otherVersion(
                directory: clusterDirectory, version: existing, installed: Set(found.map(\.major)).sorted())
        }
        throw .binariesMissing(searched: [hostEnvironment.versionsDirectory + "/*/bin", "PATH"])
    }

    /// Chooses exactly the major version that made the cluster, or the newest for a new one. Pure.
    static func choose(from found: [Binaries], existing: Int?) -> Binaries? {
        let fitting = found.filter { $0.major >= ClusterLimits.majorVersionMin }
        guard let existing else { return fitting.max { $0.major < $1.major } }
        return fitting.first { $0.major == existing }
    }

    /// Debian's layout: the directory's name is the major version.
    private static func versioned(in directory: String) -> [Binaries] {
        (Files.entries(directory) ?? []).compactMap { name in
            Int(name).flatMap { checked(directory + "/" + name + "/bin", major: $0) }
        }
    }

    private static func onPath(_ path: String) async -> [Binaries] {
        for part in path.split(separator: ":") where part.hasPrefix("/") {
            // The server finds its share directory from its own path, so links are resolved.
            guard let server = FileStatus.realPath(part + "/postgres"), let slash = server.lastIndex(of: "/") else {
                continue
            }
            guard let output = try? await Tool.output(of: server, ["--version"]), let major = major(in: output) else {
                continue
            }
            if let found = checked(String(server[..<slash]), major: major) { return [found] }
        }
        return []
    }

    /// The major version in `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)`; nil for anything else.
    static func major(in output: String) -> Int? {
        let words = output.split(separator: " ")
        guard words.count >= 3, words[1] == "(PostgreSQL)" else { return nil }
        return Int(words[2].prefix { $0.isASCII && $0.isNumber })
    }

    private static func checked(_ directory: String, major: Int) -> Binaries? {
        let binaries = Binaries(directory: directory, major: major)
        guard access(binaries.initdb, X_OK) == 0, access(binaries.postgres, X_OK) == 0 else { return nil }
        return binaries
    }
}
