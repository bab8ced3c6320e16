internal import CLinux
internal import Glibc

/// renameat2(2).
enum Renaming {
    /// Renames a file, but never in place of another one.
    /// - Returns: 0, or errno: EEXIST where there is a file of that name, EINVAL where the file system cannot refuse
    ///   that by itself.
    static func rename(_ path: String, toUnused target: String) -> Int32 {
        renameat2(AT_FDCWD, path, AT_FDCWD, target, posthouse_rename_noreplace) == 0 ? 0 : errno
    }
}
