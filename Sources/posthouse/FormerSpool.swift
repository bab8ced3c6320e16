import JSONText
import Spool
import Vocabulary

/// The daemon's spool at an earlier start, where the configuration names another one: what waits there was
/// acknowledged, and no daemon of this configuration would look there.
struct FormerSpool {
    let directory: String
    /// The one that the configuration names.
    private let next: String
    /// Without those of which the other spool has a copy.
    let files: [SpoolFile]
    /// Something is there, and the other spool has a copy of all that can be read.
    private let isCopied: Bool
    /// False: more may wait, which this user, or the disk, does not let be read.
    private let isWhole: Bool

    /// - Returns: nil: both are the same.
    init?(_ directory: String, insteadOf next: String) {
        guard SecretStore.realPath(directory) != SecretStore.realPath(next) else { return nil }
        self.directory = directory
        self.next = next
        let waiting = try? SpoolFile.all(in: directory)
        let found = waiting?.files ?? []
        let others = found.isEmpty ? [] : (try? SpoolFile.all(in: next))?.files ?? []
        let sizes = Dictionary(firstOf: others.map { ($0.relativePath, $0.sizeBytes) })
        // A copy that was cut short is none.
        files = found.filter { sizes[$0.relativePath] != $0.sizeBytes }
        isCopied = !found.isEmpty && files.isEmpty
        isWhole = waiting?.unreadable.isEmpty ?? false
    }

    /// Whether nothing waits there, as far as can be seen: its disk may be away.
    var isNothing: Bool { files.isEmpty && isWhole }

    /// Whether nothing waits there any more. A disk that is away leaves no folder, or an empty one in its place.
    var isDone: Bool { isNothing && (isCopied || SpoolLedger.isMarked(directory)) }

    /// A line of a command.
    var remark: String {
        let what =
            switch files.count {
            case 0: "webhooks may wait, but not all can be read,"
            case 1: "1 webhook waits"
            default: "\(files.count) webhooks wait"
            }
        return "\(what) in \(directory), the daemon's spool at an earlier start; [spool] directory names \(next)"
    }
}

extension JSONWriter {
    mutating func member(_ formerSpools: [FormerSpool]) {
        member("former_spools", objects: formerSpools) { former, json in
            json.member("directory", former.directory)
            json.member("webhooks", former.files.count)
        }
    }
}
