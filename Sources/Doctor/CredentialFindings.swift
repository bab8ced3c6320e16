package import Configuration
package import Linux

/// Compares the credentials that the configuration names with those that the unit hands over, and looks at their files.
package enum CredentialFindings {
    /// Where the package's documentation puts the files.
    private static let directory = "/etc/posthouse/credentials"
    /// Where the daemon finds what is handed over; the key of a listener may be named by its path there.
    private static let handedOver = "/run/credentials/posthouse.service/"

    /// - Parameters:
    ///   - named: names in the configuration; nil: it could not be read.
    ///   - files: paths in the configuration; one may be a credential's.
    ///   - loaded: what the unit hands over.
    ///   - status: of the file of a credential, links followed.
    package static func of(
        named: [String]?, files: [String], loaded: [UnitCredential],
        status: (String) -> Result<FileStatus, FileStatus.Failure>
    ) -> [DoctorFinding] {
        let byPath = files.filter { $0.hasPrefix(handedOver) }.map { String($0.dropFirst(handedOver.count)) }
        let wanted = named.map { $0 + byPath.filter { !(named ?? []).contains($0) } }
        let missing = (wanted ?? []).filter { name in !loaded.contains { hands($0, name, status) } }
        let useless = loaded.filter { one in
            one.path != nil && wanted.map { names in !names.contains { hands(one, $0, status) } } ?? false
        }
        let faults =
            missing.map { notLoaded($0, status) } + loaded.flatMap { ofFile($0, status) } + useless.map(notNamed)
        guard faults.isEmpty else { return faults }
        guard let wanted, !wanted.isEmpty else { return [] }
        return [
            DoctorFinding(
                .credentials, .fine,
                "the unit hands over \(counted(wanted.count, "credential")): \(wanted.joined(separator: ", "))")
        ]
    }

    /// The names that no line of the unit hands over.
    package static func unloaded(
        _ named: [String], loaded: [UnitCredential], status: (String) -> Result<FileStatus, FileStatus.Failure>
    ) -> [String] {
        named.filter { name in !loaded.contains { hands($0, name, status) } }
    }

    /// systemd 252 hands credentials over with a reload, too (`Systemctl.reloadHandsOver`).
    private static let apply = "then systemctl reload posthouse (restart, where systemd is newer than 252)"

    /// The line of a drop-in that hands a credential over.
    package static func line(_ name: String) -> String { "LoadCredential=\(name):\(directory)/\(name)" }

    private static func hands(
        _ one: UnitCredential, _ name: String, _ status: (String) -> Result<FileStatus, FileStatus.Failure>
    ) -> Bool {
        one.hands(name) { path in
            guard case .success(let found) = status(path) else { return false }
            return found.kind == .directory
        }
    }

    private static func notLoaded(
        _ name: String, _ status: (String) -> Result<FileStatus, FileStatus.Failure>
    ) -> DoctorFinding {
        var option = ""
        if case .success = status("\(directory)/\(name)") { option = " --replace" }
        return DoctorFinding(
            .credentials, .wrong, "the configuration names the credential \(name), which the unit does not hand over",
            do: "posthouse secret add \(name)\(option) (or systemctl edit posthouse, below [Service]: \(line(name))); "
                + apply)
    }

    private static func notNamed(_ one: UnitCredential) -> DoctorFinding {
        DoctorFinding(
            .credentials, .note,
            "the unit hands over the credential \(one.name), which the configuration does not name",
            do: "take its line out of the drop-in (systemctl cat posthouse shows it), then systemctl daemon-reload")
    }

    private static func ofFile(
        _ one: UnitCredential, _ status: (String) -> Result<FileStatus, FileStatus.Failure>
    ) -> [DoctorFinding] {
        // One with a specifier of systemd's (systemd.unit(5)) is not the path of a file yet.
        guard let path = one.path, !path.contains("%") else { return [] }
        let subject = "the file \(path) of the credential \(one.name)"
        func finding(_ state: DoctorFinding.State, _ text: String, _ advice: String?) -> [DoctorFinding] {
            [DoctorFinding(.credentials, state, "\(subject) \(text)", do: advice)]
        }
        let isUsual = path == "\(directory)/\(one.name)"
        let write =
            (isUsual ? "posthouse secret add \(one.name) --replace" : "write the secret into it, with umask 077")
            + ", " + apply
        switch status(path) {
        case .failure(.missing): return finding(.wrong, "is not there", write)
        case .failure(.notPermitted): return finding(.unknown, "cannot be seen by this user", "run this as root")
        case .failure(let failure): return finding(.wrong, "cannot be read: \(failure.text)", nil)
        case .success(let file):
            switch file.kind {
            case .directory, .socket: return []
            case .other: return finding(.wrong, "is not a regular file", write)
            case .regular: break
            }
            if file.sizeBytes == 0 { return finding(.wrong, "is empty", write) }
            guard file.mode & 0o077 == 0 else {
                return finding(
                    .note, "has the permissions \(String(file.mode, radix: 8)): others than root may use it",
                    "chmod 600 \(path)")
            }
            return []
        }
    }
}
