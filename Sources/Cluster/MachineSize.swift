internal import Glibc

/// The parts of the machine that the private server shares with everything else, in bytes.
struct MachineSize: Sendable, Equatable {
    /// The memory of the machine, or of the control group if that has less.
    let memory: UInt64
    /// The file system with the data directory: its size, not its free space.
    let disk: UInt64

    /// Unknown sizes count as 0, which gives the smallest settings.
    static func of(directory: String) -> MachineSize {
        let physical = sysconf(Int32(_SC_PHYS_PAGES)) > 0 ? UInt64(sysconf(Int32(_SC_PHYS_PAGES))) : 0
        var volume = statvfs()
        let disk = statvfs(directory, &volume) == 0 ? UInt64(volume.f_blocks) * UInt64(volume.f_frsize) : 0
        return MachineSize(
            memory: min(physical * UInt64(sysconf(Int32(_SC_PAGESIZE))), memoryOfControlGroup() ?? .max), disk: disk)
    }

    /// The least `memory.max` of this process's control group, version 2, and of those above it (cgroups(7)); nil where
    /// there is no limit. In a container the limit is that of its root.
    private static func memoryOfControlGroup() -> UInt64? {
        let own = Files.text("/proc/self/cgroup")?.split(separator: "\n").first { $0.hasPrefix("0::") }
        return Files.ancestors(of: String(own?.dropFirst(3) ?? "/")).compactMap { group in
            Files.text("/sys/fs/cgroup\(group)/memory.max").flatMap { UInt64($0.prefix { $0.isASCII && $0.isNumber }) }
        }.min()
    }
}
