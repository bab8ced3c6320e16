/// Says once that a disk gets full, and again only after there was clearly room meanwhile.
package struct DiskWatch: Sendable {
    private var isSaid = false

    package init() {}

    /// - Returns: whether to say that it is low.
    package mutating func look(_ space: DiskSpace) -> Bool {
        if space.isLow {
            defer { isSaid = true }
            return !isSaid
        }
        // A disk at the edge would be said to be low again and again.
        let lower = DiskSpace(sizeBytes: space.sizeBytes, availableBytes: space.availableBytes / 10 * 9)
        if !lower.isLow { isSaid = false }
        return false
    }
}
