import Ledger
import Linux
import Spool

/// Which ledger the webhooks of a spool are of: a file in its directory has the mark of the last one that was reached.
/// Recorded in another one, a webhook that was acknowledged would be missing where it belongs.
enum SpoolLedger {
    private static let bytesMax = 64

    static func path(in directory: String) -> String { directory + "/ledger" }

    /// Makes the ledger that of the spool, unless webhooks of another one wait there.
    /// - Returns: why what waits must not be recorded; nil: it may.
    static func claim(_ directory: String, for ledger: LedgerMark) -> String? {
        let path = path(in: directory)
        let bytes = (try? DurableFile.read(path, bytesMax: bytesMax)) ?? []
        let former = String(decoding: bytes, as: UTF8.self)
        if former == ledger.text { return nil }
        let waiting = (try? SpoolFile.all(in: directory).files.count) ?? 0
        if !former.isEmpty, waiting > 0 {
            return """
                \(waiting) webhooks in the spool in \(directory) are of another ledger than [database] url leads to, and wait: \
                let it lead to theirs; to have them recorded here, remove \(path) and start again
                """
        }
        // A spool that cannot be written says so itself.
        let new = path + ".new"
        try? DurableFile.remove(new)
        guard (try? DurableFile.write(Array(ledger.text.utf8), to: new)) != nil else { return nil }
        try? DurableFile.move(new, to: path)
        return nil
    }

    /// The ledger goes elsewhere as it is, and the spool with it.
    static func forget(_ directory: String) { try? DurableFile.remove(path(in: directory)) }
}
