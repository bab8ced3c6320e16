internal import Glibc

/// The user who runs the server: PostgreSQL refuses to run as root.
struct Account: Sendable, Equatable {
    let name: String
    let userID: uid_t
    let groupID: gid_t
    /// Whether this process must switch to the account, and chown to it what it makes.
    let switches: Bool

    /// An ordinary user runs the server as itself. Root takes the owner of a cluster that is there already, else user
    /// `posthouse`, else `postgres`.
    static func choose(clusterOwner: uid_t?, directory: String) throws(ClusterError) -> Account {
        let own = geteuid()
        guard own == 0 else {
            if let clusterOwner, clusterOwner != own {
                throw .foreignOwner(directory: directory, owner: clusterOwner)
            }
            return Account(name: name(of: own) ?? String(own), userID: own, groupID: getegid(), switches: false)
        }
        if let clusterOwner, clusterOwner != 0, let found = lookUp(userID: clusterOwner) { return found }
        for name in ["posthouse", "postgres"] {
            if let found = lookUp(name: name), found.userID != 0 { return found }
        }
        throw .noAccount
    }

    private static func lookUp(name: String) -> Account? {
        withEntry { entry, buffer, result in getpwnam_r(name, entry, buffer, entryBytesMax, result) }
    }

    private static func lookUp(userID: uid_t) -> Account? {
        withEntry { entry, buffer, result in getpwuid_r(userID, entry, buffer, entryBytesMax, result) }
    }

    private static func name(of userID: uid_t) -> String? { lookUp(userID: userID)?.name }

    private typealias Lookup = (
        UnsafeMutablePointer<passwd>, UnsafeMutablePointer<CChar>,
        UnsafeMutablePointer<UnsafeMutablePointer<passwd>?>
    ) -> Int32

    /// Bytes of the strings of one entry of the user database.
    private static let entryBytesMax = 16 << 10

    private static func withEntry(_ look: Lookup) -> Account? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: entryBytesMax) { strings in
            guard let buffer = strings.baseAddress else { return nil }
            var entry = passwd()
            var result: UnsafeMutablePointer<passwd>?
            guard look(&entry, buffer, &result) == 0, result != nil else { return nil }
            return Account(
                name: String(cString: entry.pw_name), userID: entry.pw_uid, groupID: entry.pw_gid, switches: true)
        }
    }
}
