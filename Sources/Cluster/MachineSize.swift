internal import Glibc

/// The parts of the machine that the private server shares with everything else, in bytes.
struct MachineSize: Sendable, Equatable {
    /// The memory of the machine, or of the control group if that has less.
    let memory: UInt64
    /// The file system with the data directory: its size, not its free space, which changes from start to start.
    let disk: UInt64

    /// Unknown sizes count as 0, which gives the smallest settings.
    static func of(directory: String) -> MachineSize {
        let physical = sysconf(Int32(_SC_PHYS_PAGES)) > 0 ? UInt64(sysconf(Int32(_SC_PHYS_PAGES))) : 0
        var volume = statvfs()
        let disk = statvfs(directory, &volume) == 0 ? UInt64(volume.f_blocks) * UInt64(volume.f_frsize) : 0
        return MachineSize(
            memory: min(physical * UInt64(sysconf(Int32(_SC_PAGESIZE))), memoryOfControlGroup() ?? .max), disk: disk)
    }

    /// `memory.max` of this process's control group, version 2 (cgroups(7)); nil where there is no limit. A limit of a
    /// group further up is not looked for: systemd writes `MemoryMax=` into the unit's own.
    private static func memoryOfControlGroup() -> UInt64? {
        guard let line = Files.text("/proc/self/cgroup")?.split(separator: "\n").first(where: { $0.hasPrefix("0::") })
        else { return nil }
        return Files.text("/sys/fs/cgroup" + line.dropFirst(3) + "/memory.max")
            .flatMap { UInt64($0.prefix { $0.isASCII && $0.isNumber }) }
    }
}
