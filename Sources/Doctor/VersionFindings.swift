/// What runs here.
package enum VersionFindings {
    /// - Parameters:
    ///   - systemd: the first line of `systemctl --version`; nil: there is none.
    ///   - release: the text of os-release(5).
    package static func of(program: String, systemd: String?, release: String?) -> [DoctorFinding] {
        let parts = [
            "posthouse \(program)", systemd, release.flatMap { value("PRETTY_NAME", in: $0) },
        ].compactMap { $0 }
        return [DoctorFinding(.versions, .fine, parts.joined(separator: ", "))]
    }

    /// A value of os-release(5), without the quotes of a shell.
    static func value(_ key: String, in release: String) -> String? {
        for line in release.split(separator: "\n") where line.hasPrefix(key + "=") {
            let value = line.dropFirst(key.count + 1)
            for quote in ["\"", "'"] where value.count >= 2 && value.hasPrefix(quote) && value.hasSuffix(quote) {
                return String(value.dropFirst().dropLast())
            }
            return String(value)
        }
        return nil
    }
}
