internal import Glibc

/// The parts of the host environment that the cluster uses. Passed in, so that a test can replace them.
package struct HostEnvironment: Sendable {
    /// `$RUNTIME_DIRECTORY`: systemd's RuntimeDirectory=, the first of a colon-separated list.
    package var runtimeDirectory: String?
    /// `$XDG_RUNTIME_DIR` of an ordinary user's session.
    package var sessionDirectory: String?
    /// `$PATH`: where server binaries are looked for after `versionsDirectory`.
    package var path: String
    /// Where Debian keeps one directory for each major version.
    package var versionsDirectory: String
    /// Where short-lived files go when nothing better is there.
    package var temporaryDirectory: String

    package init(
        runtimeDirectory: String?, sessionDirectory: String?, path: String,
        versionsDirectory: String = "/usr/lib/postgresql", temporaryDirectory: String = "/tmp"
    ) {
        self.runtimeDirectory = runtimeDirectory
        self.sessionDirectory = sessionDirectory
        self.path = path
        self.versionsDirectory = versionsDirectory
        self.temporaryDirectory = temporaryDirectory
    }

    /// The host environment of this process.
    package static var current: HostEnvironment {
        HostEnvironment(
            runtimeDirectory: value("RUNTIME_DIRECTORY").flatMap { list in
                list.split(separator: ":").first.map(String.init)
            },
            sessionDirectory: value("XDG_RUNTIME_DIR"),
            path: value("PATH") ?? "/usr/local/bin:/usr/bin:/bin")
    }

    private static func value(_ name: String) -> String? {
        guard let raw = getenv(name) else { return nil }
        let text = String(cString: raw)
        return text.isEmpty ? nil : text
    }
}
