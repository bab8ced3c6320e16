import Linux
import Spool

/// Webhooks that wait in the spool of the daemon's last start, where the configuration names another one: they were
/// acknowledged, and no daemon of this configuration would look there.
struct FormerSpool {
    let directory: String
    /// The one that the configuration names.
    private let next: String
    /// Without those of which the other spool has a copy.
    let files: [SpoolFile]
    /// Folders that this user may not look into.
    private let unreadable: [String]

    /// - Returns: nil: both are the same, or nothing waits there.
    init?(_ former: String, insteadOf next: String) throws(DurableFile.Failure) {
        guard SecretStore.realPath(former) != SecretStore.realPath(next) else { return nil }
        let waiting = try SpoolFile.all(in: former)
        let copies = Set(((try? SpoolFile.all(in: next))?.files ?? []).map(\.relativePath))
        self.init(
            directory: former, next: next, files: waiting.files.filter { !copies.contains($0.relativePath) },
            unreadable: waiting.unreadable)
    }

    private init?(directory: String, next: String, files: [SpoolFile], unreadable: [String]) {
        if files.isEmpty, unreadable.isEmpty { return nil }
        self.directory = directory
        self.next = next
        self.files = files
        self.unreadable = unreadable
    }

    /// nil: all of it is in folders of daemons that run beside this one. They record it.
    var ofNoDaemon: FormerSpool? {
        let held = Set(files.map(\.folder)).filter { isHeld($0) }
        return FormerSpool(
            directory: directory, next: next, files: files.filter { !held.contains($0.folder) },
            unreadable: unreadable)
    }

    private func isHeld(_ folder: String) -> Bool {
        do throws(DurableFile.Failure) {
            return try FolderLock.take(in: directory + "/" + folder) == nil
        } catch {
            return false
        }
    }

    /// A line of a command.
    var remark: String {
        let what =
            switch files.count {
            case 0: "webhooks may wait, in folders that this user may not read,"
            case 1: "1 webhook waits"
            default: "\(files.count) webhooks wait"
            }
        return "\(what) in \(directory), the spool at the daemon's last start; [spool] directory names \(next)"
    }

    /// What moves all of it, as a shell takes it.
    var move: String {
        let isThere = (try? FileStatus.of(next)) != nil
        // Of a spool that is there already, `ledger` and `damaged` stay.
        return isThere ? "mv \(directory)/???????????????? \(next)/" : "mv \(directory) \(next)"
    }
}
