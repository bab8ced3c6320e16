internal import Glibc
internal import Vocabulary

/// The record that a private cluster was found without a ledger, so that nobody starts its server again only to see
/// that: DIRECTORY/cluster.empty, beside the cluster.
///
/// It holds the control file of the stopped server, as Base64. PostgreSQL writes that file at each start, so the record
/// holds until the cluster is used again, whoever uses it.
package enum EmptyCluster {
    package static func isRecorded(in directory: String) -> Bool {
        let paths = ClusterPaths(directory: directory)
        guard let state = state(of: paths) else { return false }
        return Files.text(paths.empty) == state
    }

    /// Without a record, which a full disk may prevent, the next start looks again.
    package static func record(in directory: String) {
        let paths = ClusterPaths(directory: directory)
        guard let state = state(of: paths),
            let owner = try? Account.choose(
                clusterOwner: Files.status(paths.data).map(\.st_uid), directory: directory)
        else { return }
        try? Files.replace(paths.empty, with: state, owner: owner)
    }

    /// nil: a server runs, or was cut off, so that its control file does not show what it has written.
    private static func state(of paths: ClusterPaths) -> String? {
        guard Files.status(paths.data + "/postmaster.pid") == nil,
            let control = Files.read(paths.data + "/global/pg_control")
        else { return nil }
        return Base64.encode(control) + "\n"
    }
}
