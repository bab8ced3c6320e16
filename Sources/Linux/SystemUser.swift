internal import Glibc

/// A user of this machine, with the groups by which the kernel decides what it may read.
package struct SystemUser: Sendable, Hashable {
    package let name: String
    package let id: UInt32
    /// The name of its own group.
    package let groupName: String
    /// Its own group, and those that it is a member of.
    package let groups: Set<UInt32>

    package init(name: String, id: UInt32, groupName: String, groups: Set<UInt32>) {
        self.name = name
        self.id = id
        self.groupName = groupName
        self.groups = groups
    }

    /// nil: there is no such user.
    /// - Parameter name: or a number, as in `User=` of a unit.
    package static func named(_ name: String) -> SystemUser? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: entryBytesMax) { strings in
            guard let buffer = strings.baseAddress else { return nil }
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            var code = getpwnam_r(name, &entry, buffer, entryBytesMax, &found)
            if found == nil, let id = UInt32(name) { code = getpwuid_r(id, &entry, buffer, entryBytesMax, &found) }
            guard code == 0, found != nil else { return nil }
            let own = String(cString: entry.pw_name)
            return SystemUser(
                name: own, id: entry.pw_uid, groupName: groupName(entry.pw_gid) ?? String(entry.pw_gid),
                groups: groups(of: own, entry.pw_gid))
        }
    }

    /// This user in more groups; one that the machine does not have is left out.
    /// - Parameter names: or numbers.
    package func joining(_ names: [String]) -> SystemUser {
        SystemUser(
            name: name, id: id, groupName: groupName, groups: groups.union(names.compactMap(Self.groupNamed)))
    }

    private static func groupNamed(_ name: String) -> UInt32? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: entryBytesMax) { strings in
            guard let buffer = strings.baseAddress else { return nil }
            var entry = group()
            var found: UnsafeMutablePointer<group>?
            guard getgrnam_r(name, &entry, buffer, entryBytesMax, &found) == 0, found != nil else {
                return UInt32(name)
            }
            return entry.gr_gid
        }
    }

    /// Bytes of the strings of one entry of the user or group database.
    private static let entryBytesMax = 64 << 10
    /// As many as Linux lets a user have (NGROUPS_MAX).
    private static let groupsMax = 65_536

    private static func groupName(_ id: UInt32) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: entryBytesMax) { strings in
            guard let buffer = strings.baseAddress else { return nil }
            var entry = group()
            var found: UnsafeMutablePointer<group>?
            guard getgrgid_r(id, &entry, buffer, entryBytesMax, &found) == 0, found != nil else { return nil }
            return String(cString: entry.gr_name)
        }
    }

    private static func groups(of name: String, _ own: UInt32) -> Set<UInt32> {
        var groups = [gid_t](repeating: own, count: groupsMax)
        var count = Int32(groupsMax)
        guard getgrouplist(name, own, &groups, &count) >= 0 else { return [own] }
        return Set(groups.prefix(Int(count)))
    }
}
