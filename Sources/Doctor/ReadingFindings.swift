package import Linux

/// Judges whether the daemon's user can read a file, by owner, group and permissions of everything on the way to it.
/// Access control lists (acl(5)) are not considered.
package enum ReadingFindings {
    /// How far the way to a file could be looked at.
    package typealias Way = Result<[FileStatus], FileStatus.Failure>

    /// - Parameters:
    ///   - paths: the configuration file, and the files that it names.
    ///   - user: whom the daemon runs as.
    ///   - unit: of the daemon; nil: there is none.
    ///   - way: what is passed on the way to a file, the file last.
    package static func of(
        _ paths: [String], user: SystemUser, unit: UnitFacts?, way: (String) -> Way
    ) -> [DoctorFinding] {
        let looked = paths.filter { !$0.hasPrefix("/run/credentials/") }
        var isMissing = false
        let faults = looked.compactMap { path in
            let way = way(path)
            if case .failure(.missing) = way { isMissing = true }
            return fault(path, user, unit, way)
        }
        guard faults.isEmpty, !looked.isEmpty, !isMissing else { return faults }
        return [
            DoctorFinding(
                .files, .fine,
                "the user \(user.name) can read the configuration"
                    + (looked.count > 1 ? " and \(counted(looked.count - 1, "file")) that it names" : "")
                    + unconsidered)
        ]
    }

    private static let unconsidered = " (access control lists are not considered)"

    private static func fault(_ path: String, _ user: SystemUser, _ unit: UnitFacts?, _ way: Way) -> DoctorFinding? {
        if let unit, let hiding = hidden(path, by: unit) {
            return DoctorFinding(
                .files, .wrong, "\(path) is hidden from the daemon by \(hiding)= of \(unit.id)",
                do: "move it to /etc/posthouse and name it there")
        }
        switch way {
        // The configuration's own errors name what is missing.
        case .failure(.missing): return nil
        case .failure(let failure):
            return DoctorFinding(
                .files, .unknown, "whether the user \(user.name) can read \(path) cannot be seen: \(failure.text)",
                do: failure == .notPermitted ? "run this as root" : nil)
        case .success(let passed):
            guard let barrier = barrier(passed, to: user) else { return nil }
            let verb = barrier.kind == .directory ? "pass" : "read"
            let what = barrier.path == path ? "" : ": it may not \(verb) \(barrier.path)"
            return DoctorFinding(
                .files, .wrong, "the user \(user.name) cannot read \(path)\(what)" + unconsidered,
                do: remedy(barrier, user))
        }
    }

    /// The first on the way that the user may not pass, or may not read if it is the file; nil: nothing bars the way.
    package static func barrier(_ way: [FileStatus], to user: SystemUser) -> FileStatus? {
        way.first { !isAllowed($0.kind == .directory ? 0o1 : 0o4, on: $0, to: user) }
    }

    /// The kernel looks at one of the three classes alone, the first that fits (path_resolution(7)).
    private static func isAllowed(_ bit: UInt32, on file: FileStatus, to user: SystemUser) -> Bool {
        if user.id == 0 { return true }
        if file.owner == user.id { return file.mode & (bit << 6) != 0 }
        if user.groups.contains(file.group) { return file.mode & (bit << 3) != 0 }
        return file.mode & bit != 0
    }

    /// The least that opens the way. A directory is opened to all for passing, not for looking into it.
    private static func remedy(_ barrier: FileStatus, _ user: SystemUser) -> String {
        let letter = barrier.kind == .directory ? "x" : "r"
        if barrier.owner == user.id { return "chmod u+\(letter) \(barrier.path)" }
        if user.groups.contains(barrier.group) { return "chmod g+\(letter) \(barrier.path)" }
        if barrier.kind == .directory { return "chmod o+x \(barrier.path)" }
        return "chgrp \(user.groupName) \(barrier.path) && chmod g+r \(barrier.path)"
    }

    private static func hidden(_ path: String, by unit: UnitFacts) -> String? {
        func lies(in directories: [String]) -> Bool { directories.contains { path.hasPrefix($0 + "/") } }
        if unit.hidesHome, lies(in: ["/home", "/root", "/run/user"]) { return "ProtectHome" }
        if unit.hasOwnTemporaryFiles, lies(in: ["/tmp", "/var/tmp"]) { return "PrivateTmp" }
        return nil
    }
}
