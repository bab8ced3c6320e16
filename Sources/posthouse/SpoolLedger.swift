import Ledger
import Linux
import Spool

/// Which ledger a spool is of: a file in its directory has the mark of the ledger of the last daemon that used it.
/// Recorded in another ledger, a webhook that was acknowledged would be missing where it belongs.
enum SpoolLedger {
    private static let bytesMax = 64

    private static func path(in directory: String) -> String { directory + "/ledger" }

    /// Whether a daemon has used this directory, with a ledger, as far as can be seen.
    static func isMarked(_ directory: String) -> Bool { (try? former(path(in: directory))) != nil }

    /// Makes the spool that of a ledger; refused while webhooks wait there that may be another's.
    static func claim(_ directory: String, for ledger: LedgerMark) throws {
        let path = path(in: directory)
        switch try former(path) {
        // Where it fails, for want of room, nothing is known of the ledger, as before the first.
        case nil: try? DurableFile.replace(path, with: Array(ledger.text.utf8))
        case ledger.text: break
        default:
            let waiting = try SpoolFile.all(in: directory)
            guard waiting.isNothing else { throw refusal(waiting.files.count, directory) }
            try DurableFile.remove(path)
            try? DurableFile.replace(path, with: Array(ledger.text.utf8))
        }
    }

    /// For a ledger that goes elsewhere as it is, where it has another mark.
    static func forget(_ directory: String) throws {
        let path = path(in: directory)
        guard try former(path) != nil else { return }
        try DurableFile.remove(path)
        try DurableFile.sync(folder: directory)
    }

    private static func former(_ path: String) throws -> String? {
        do throws(DurableFile.Failure) {
            return String(decoding: try DurableFile.read(path, bytesMax: bytesMax), as: UTF8.self)
        } catch {
            if error.isMissing { return nil }
            throw error
        }
    }

    private static func refusal(_ waiting: Int, _ directory: String) -> OperatorError {
        OperatorError(
            """
            \(waiting) webhooks wait in the spool in \(directory), which is that of another ledger than this one: let \
            [database] url or [embedded] directory lead to theirs; to have them recorded in this one, remove \
            \(path(in: directory)) and start again
            """, code: Exit.configuration)
    }
}
