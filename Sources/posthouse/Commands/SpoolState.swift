import Configuration
import Spool
import Vocabulary

/// What of the spool can be seen from a command, by its files alone.
struct SpoolState {
    private let waiting: SpoolFile.Waiting?
    let damaged: [String]
    /// Where else something waits, as far as this user may look.
    let former: [FormerSpool]

    /// - Parameter file: the path of the configuration file.
    init(_ configuration: Configuration, of file: String) {
        let served = ThisProcess.stateDirectory(of: file).flatMap { try? ServingFile.read(in: $0) }
        former = (served?.spools(insteadOf: configuration.spool.directory) ?? []).filter { !$0.isNothing }
        waiting = try? SpoolFile.all(in: configuration.spool.directory)
        damaged = SpoolFile.damaged(in: configuration.spool.directory)
    }

    /// False: this user may not look.
    var isVisible: Bool { waiting != nil }
    /// In order.
    var files: [SpoolFile] { waiting?.files ?? [] }
    /// Folders that this user may not look into.
    var unreadable: [String] { waiting?.unreadable ?? [] }

    var oldestAt: Timestamp? { files.lazy.map(\.writtenAt).min() }

    /// How many wait for a source that is not configured, by its name.
    func withoutSource(_ configured: some Sequence<String>) -> [(source: String, count: Int)] {
        let known = Set(configured)
        let others = Dictionary(grouping: files.lazy.map(\.name.source).filter { !known.contains($0) }) { $0 }
        return others.map { (source: $0.key, count: $0.value.count) }.sorted { $0.source < $1.source }
    }

    static func unreadable(_ configuration: Configuration) -> OperatorError {
        OperatorError(
            "the spool in \(configuration.spool.directory) cannot be read by this user; run this as root or as the daemon's "
                + "user")
    }
}
