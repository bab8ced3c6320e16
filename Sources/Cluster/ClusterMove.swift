internal import Glibc

/// The record that a private cluster was moved into another database: one line in DIRECTORY/cluster.moved, beside the
/// cluster, which itself stays unchanged.
package struct ClusterMove: Sendable, Equatable {
    package enum Stage: String, Sendable {
        /// The other database was about to commit: it may hold the ledger now, or not.
        case moving
        case moved
    }

    package let stage: Stage
    /// ISO 8601.
    package let at: String
    /// The other database, without a password.
    package let target: String

    package init(_ stage: Stage, at: String, to target: String) {
        self.stage = stage
        self.at = at
        self.target = target
    }

    package static func path(in directory: String) -> String { ClusterPaths(directory: directory).moved }

    /// nil: the cluster was never moved. A line in any other form counts as an unfinished move.
    package static func read(in directory: String) -> ClusterMove? {
        guard Files.status(path(in: directory)) != nil else { return nil }
        let line = Files.text(path(in: directory))?.split(separator: "\n").first ?? ""
        let parts = line.split(separator: " ", maxSplits: 2).map(String.init)
        guard parts.count == 3, let stage = Stage(rawValue: parts[0]) else {
            return ClusterMove(.moving, at: "an unknown time", to: "an unknown database")
        }
        return ClusterMove(stage, at: parts[1], to: parts[2])
    }

    /// Writes the record; it is durable when this returns.
    package func write(in directory: String) throws(ClusterError) {
        let owner = try Account.choose(
            clusterOwner: Files.status(ClusterPaths(directory: directory).data).map(\.st_uid), directory: directory)
        try Files.replace(
            Self.path(in: directory), with: "\(stage.rawValue) \(at) \(target)\n", owner: owner)
        try Files.sync(directory: directory)
    }

    /// Removes the record of a move that failed.
    package static func remove(in directory: String) throws(ClusterError) {
        guard unlink(path(in: directory)) == 0 || errno == ENOENT else {
            throw .failed("remove", path(in: directory), errno)
        }
        try Files.sync(directory: directory)
    }
}
