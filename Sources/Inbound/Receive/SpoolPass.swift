import Spool
import Vocabulary

/// Chooses what of the spool is tried in one pass, batch by batch, each file at most once: a value without files or
/// clocks.
///
/// A source of which nothing in a batch could be recorded rests until the next pass: its store's API may be away. Its
/// next pass begins after that batch, so what can never be recorded holds up nothing that came later.
struct SpoolPass {
    private var rest: ArraySlice<SpoolFile>
    private var skippedSources: Set<String> = []
    /// The last file that is passed over, by source.
    private var passedOver: [String: SpoolFile]
    /// After which file the next pass begins, by source; the others begin with their oldest.
    private(set) var resumesAfter: [String: SpoolFile] = [:]

    /// - Parameters:
    ///   - files: all that wait, in order.
    ///   - after: `resumesAfter` of the pass before.
    init(_ files: [SpoolFile], after: [String: SpoolFile]) {
        rest = files[...]
        passedOver = after
    }

    /// The next files to try, bounded by number and bytes; empty: the pass is over.
    /// - Parameter serves: whether a source is configured.
    mutating func next(serves: (_ source: String) -> Bool) -> [SpoolFile] {
        var (batch, bytes) = ([SpoolFile](), 0)
        while let file = rest.first, batch.count < Limits.spoolDrainWebhooksMax {
            if isTried(file, serves) {
                if !batch.isEmpty, bytes + file.sizeBytes > Limits.spoolDrainBytesMax { break }
                batch.append(file)
                bytes += file.sizeBytes
            }
            rest.removeFirst()
        }
        return batch
    }

    private mutating func isTried(_ file: SpoolFile, _ serves: (_ source: String) -> Bool) -> Bool {
        let source = file.name.source
        if let last = passedOver[source] {
            if last == file { passedOver[source] = nil }
            return false
        }
        return serves(source) && !skippedSources.contains(source)
    }

    /// A batch was tried.
    mutating func tried(_ batch: [SpoolFile], committed: [SpoolFile]) {
        let progressing = Set(committed.map(\.name.source))
        for file in batch where !progressing.contains(file.name.source) {
            skippedSources.insert(file.name.source)
            resumesAfter[file.name.source] = file
        }
    }
}
