import CLibpq

/// Messages of the server beside the results of the running command.
///
/// A COMMIT whose wait for a synchronous standby is cut short succeeds with a WARNING (PostgreSQL,
/// src/backend/replication/syncrep.c, SyncRepWaitForLSN): it is committed here and may be lost in a failover.
final class Notices {
    struct Warning {
        let sqlState: String
        let message: String
    }

    /// Limit of warnings kept; further ones add nothing.
    private static let warningsMax = 16
    /// Files of PostgreSQL's source whose warnings are never of a commit, and are not kept. Near the end of the
    /// transaction ids each new id (varsup.c) and each new multixact (multixact.c) brings a warning, and a trigger may
    /// raise one (pl_exec.c), with the SQLSTATE of syncrep.c's. The text is in the server's language. The place is no
    /// proof: libpq takes a warning behind the answer from its buffer before that answer is read.
    private static let filesOfStatements: Set = ["varsup.c", "multixact.c", "pl_exec.c"]

    private(set) var warnings: [Warning] = []
    /// The FATAL or PANIC message of a server that closes the connection.
    private(set) var fatal: String?

    func clear() { warnings.removeAll(keepingCapacity: true) }

    /// Makes `connection` report here. This object must outlive it.
    func listen(to connection: OpaquePointer) {
        _ = PQsetNoticeReceiver(
            connection,
            { argument, result in
                guard let argument, let result else { return }
                Unmanaged<Notices>.fromOpaque(argument).takeUnretainedValue().take(result)
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private func take(_ result: OpaquePointer) {
        func field(_ code: Int32) -> String { PQresultErrorField(result, code).map { String(cString: $0) } ?? "" }
        let state = field(posthouse_diag_sqlstate)
        let message = field(posthouse_diag_message_primary)
        switch field(posthouse_diag_severity) {
        case "WARNING" where Self.filesOfStatements.contains(field(posthouse_diag_source_file)): break
        case "WARNING" where warnings.count < Self.warningsMax:
            warnings.append(Warning(sqlState: state, message: message))
        case "FATAL", "PANIC": fatal = "\(state) \(message)"
        default: break
        }
    }

    /// Why a transaction that the server calls committed is not confirmed; nil if it is.
    /// - Parameter commitAlone: the command was COMMIT, so that any warning is about it. For other commands only the
    ///   SQLSTATEs that syncrep.c warns with count.
    func doubtAboutCommit(commitAlone: Bool) -> String? {
        warnings.first { commitAlone || ["01000", "57P01"].contains($0.sqlState) }?.message
    }
}
