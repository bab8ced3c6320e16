package import Linux
package import Vocabulary

/// What waits in the spool.
package struct SpoolFigures: Sendable, Hashable {
    package var webhooks = 0
    /// Of the disk: each file takes whole blocks of it.
    package var bytes = 0
    /// When the oldest was written; nil: none waits.
    package var oldestAt: Timestamp?

    package init(webhooks: Int = 0, bytes: Int = 0, oldestAt: Timestamp? = nil) {
        self.webhooks = webhooks
        self.bytes = bytes
        self.oldestAt = oldestAt
    }
}

/// Counts what waits and decides whether there is room for more: a value without files, locks or clocks.
struct SpoolTally: Sendable {
    let bytesMax: Int
    private(set) var figures = SpoolFigures()
    /// Of webhooks that are being written.
    private(set) var reservedBytes = 0
    /// Files that were added since the spool was opened.
    private(set) var added = SpoolFigures()
    /// Recorded since something began to wait.
    private(set) var recorded = 0
    /// As of the last look; nil: it could not be seen.
    var disk: DiskSpace?
    /// Why nothing could be written the last time; nil: it could.
    var failure: String?

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// What a file takes of the disk.
    static func blocks(of bytes: Int) -> Int {
        (bytes + Limits.spoolBlockBytes - 1) / Limits.spoolBlockBytes * Limits.spoolBlockBytes
    }

    /// Why there is no room for so many bytes; nil: there is.
    func problem(with bytes: Int) -> String? {
        if figures.bytes + reservedBytes + bytes > bytesMax {
            return "the spool is full: \(figures.webhooks) webhooks wait, and [spool] max allows \(bytesMax) bytes"
        }
        if let disk, disk.availableBytes - reservedBytes - bytes < Spool.headroom(of: disk) {
            return "its disk has \(disk.availableBytes) bytes left, of which \(Spool.headroom(of: disk)) stay free"
        }
        return nil
    }

    /// Why a webhook cannot wait to be written; nil: it can. One may always, however large it is.
    func backlog(before bytes: Int) -> String? {
        guard reservedBytes > 0, reservedBytes + bytes > Limits.spoolPendingBytesMax else { return nil }
        return "too many webhooks wait for its disk, which is slow: \(reservedBytes) bytes are being written"
    }

    /// Whether a webhook of any size would be taken.
    var hasRoom: Bool { failure == nil && problem(with: Self.blocks(of: Limits.requestBodyBytesMax)) == nil }

    mutating func reserve(_ bytes: Int) { reservedBytes += bytes }

    mutating func release(_ bytes: Int) { reservedBytes -= bytes }

    /// A file is there, reserved before or found.
    /// - Returns: whether it is the first.
    mutating func add(bytes: Int, at time: Timestamp) -> Bool {
        figures.webhooks += 1
        figures.bytes += bytes
        added.webhooks += 1
        added.bytes += bytes
        figures.oldestAt = min(figures.oldestAt ?? time, time)
        return figures.webhooks == 1
    }

    /// A file is gone: recorded, or set aside as damaged.
    /// - Returns: how many were recorded since the first, if it was the last; nil: others wait.
    mutating func remove(bytes: Int, isRecorded: Bool) -> Int? {
        figures.webhooks -= 1
        figures.bytes -= bytes
        if isRecorded { recorded += 1 }
        guard figures.webhooks == 0 else { return nil }
        figures.oldestAt = nil
        defer { recorded = 0 }
        return recorded
    }

    /// All files were listed, which says more than any count.
    /// - Parameter before: what had been added when the listing began; it has none of what came after.
    mutating func found(_ files: [SpoolFile], addedBefore before: SpoolFigures) {
        let isNewer = added.webhooks > before.webhooks
        figures.webhooks = files.count + added.webhooks - before.webhooks
        figures.bytes = files.reduce(added.bytes - before.bytes) { $0 + Self.blocks(of: $1.sizeBytes) }
        figures.oldestAt = files.lazy.map(\.writtenAt).min() ?? (isNewer ? figures.oldestAt : nil)
        if figures.webhooks == 0 { recorded = 0 }
    }
}

extension Spool {
    /// What of a disk stays free, in bytes.
    package static func headroom(of disk: DiskSpace) -> Int {
        min(Limits.spoolHeadroomBytes, disk.sizeBytes / Limits.spoolHeadroomPart)
    }
}
