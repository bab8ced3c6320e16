internal import CSystemd
internal import Subprocess
internal import SystemPackage

/// Asks the service manager by its own command, systemctl(1).
package enum Systemctl {
    package struct Failure: Error, Sendable, CustomStringConvertible {
        /// One line: what was run, and what it said.
        package let text: String

        package init(text: String) { self.text = text }

        package var description: String { text }
    }

    /// Of the output. A unit with its drop-ins has some kilobytes.
    private static let outputBytesMax = 1 << 20

    /// Fixed: messages in English for the errors that quote them, and nothing inherited.
    private static let environment: Subprocess.Environment = .custom([
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "SYSTEMD_COLORS": "0",
    ])

    /// Whether systemd is this machine's service manager (sd_booted(3)).
    package static var isManager: Bool { sd_booted() > 0 }

    /// The files of a unit, its drop-ins behind it, in the order in which they count.
    /// - Parameter unit: with its suffix. Throws for a unit that systemd does not know.
    package static func unitText(_ unit: String) async throws(Failure) -> String {
        try await output(of: ["cat", "--no-pager", "--", unit])
    }

    /// The properties of units as `systemctl show` prints them.
    package static func properties(_ names: String, of units: [String]) async throws(Failure) -> String {
        try await output(of: ["show", "--no-pager", "-p", names, "--"] + units)
    }

    /// `systemd 252 (252.39-1~deb12u2)`; throws where it is not installed.
    package static func version() async throws(Failure) -> String {
        let text = try await output(of: ["--version"])
        return text.split(whereSeparator: \.isNewline).first.map(String.init) ?? ""
    }

    /// Whether a reload of a service hands its credentials over anew. systemd 252 does that for each command of
    /// `ExecReload=` after the first; later versions do it at a start alone (github.com/systemd/systemd/issues/35227).
    /// - Parameter version: as `version` says it; nil and what cannot be read: taken for a systemd that does.
    package static func reloadHandsOver(_ version: String?) -> Bool {
        let words = (version ?? "").split(separator: " ")
        // "252", "255.4-1ubuntu8", "257~rc1"
        guard words.first == "systemd", let number = words.dropFirst().first.flatMap({ Int($0.prefix { $0.isNumber }) })
        else { return true }
        return number <= 252
    }

    /// Has systemd read all files of units again.
    package static func reloadUnits() async throws(Failure) { _ = try await output(of: ["daemon-reload"]) }

    /// What systemctl wrote to standard output; throws unless it exits with 0.
    private static func output(of arguments: [String]) async throws(Failure) -> String {
        let command = "systemctl \(arguments.joined(separator: " "))"
        let configuration = Subprocess.Configuration(
            executable: .path("/usr/bin/systemctl"), arguments: Arguments(arguments), environment: environment,
            workingDirectory: "/")
        let result: ExecutionResult<Void, StringOutput<UTF8>, StringOutput<UTF8>>
        do {
            result = try await run(
                configuration, output: .string(limit: outputBytesMax), error: .string(limit: outputBytesMax))
        } catch {
            throw Failure(text: "\(command): \(error)")
        }
        guard result.terminationStatus.isSuccess else {
            let lines = result.standardError.split(whereSeparator: \.isNewline).map(String.init)
            let reason = lines.isEmpty ? "\(result.terminationStatus)" : lines.joined(separator: "; ")
            throw Failure(text: "\(command): \(reason)")
        }
        return result.standardOutput
    }
}
