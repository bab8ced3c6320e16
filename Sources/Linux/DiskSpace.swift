internal import Glibc

/// The space of a file system, in bytes (statvfs(3)).
package struct DiskSpace: Sendable, Equatable {
    package let sizeBytes: Int
    /// Left for users without privileges.
    package let availableBytes: Int

    package init(sizeBytes: Int, availableBytes: Int) {
        self.sizeBytes = sizeBytes
        self.availableBytes = availableBytes
    }

    /// nil: there is no such path, or this user may not look.
    package static func of(path: String) -> DiskSpace? {
        var figures = statvfs()
        guard statvfs(path, &figures) == 0 else { return nil }
        let block = Int(figures.f_frsize)
        return DiskSpace(
            sizeBytes: Int(clamping: figures.f_blocks) * block, availableBytes: Int(clamping: figures.f_bavail) * block)
    }

    /// Whether it is time to make room: below a tenth, and below 10 GiB.
    package var isLow: Bool { availableBytes < sizeBytes / 10 && availableBytes < 10 << 30 }
}
