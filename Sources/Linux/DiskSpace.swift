internal import Glibc

/// The space of the file system that a path lies on (statvfs(3)).
package struct DiskSpace: Sendable, Equatable {
    package let sizeBytes: Int
    /// What a user without privileges may still write.
    package let availableBytes: Int

    package init(sizeBytes: Int, availableBytes: Int) {
        self.sizeBytes = sizeBytes
        self.availableBytes = availableBytes
    }

    /// nil: the path is not there, or this user may not reach it.
    package static func of(path: String) -> DiskSpace? {
        var info = statvfs()
        guard statvfs(path, &info) == 0 else { return nil }
        return DiskSpace(
            sizeBytes: bytes(UInt64(info.f_blocks), UInt64(info.f_frsize)),
            availableBytes: bytes(UInt64(info.f_bavail), UInt64(info.f_frsize)))
    }

    private static func bytes(_ blocks: UInt64, _ blockBytes: UInt64) -> Int {
        let (product, isTooLarge) = blocks.multipliedReportingOverflow(by: blockBytes)
        return isTooLarge ? .max : Int(clamping: product)
    }

    /// Whether it is time to make room: below a tenth, and below 10 GiB.
    package var isLow: Bool { availableBytes < sizeBytes / 10 && availableBytes < 10 << 30 }
}
