import Doctor
import Glibc
import Subprocess
import SystemPackage

/// Asks the service manager by systemctl(1).
enum Systemctl {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private static let program = "/usr/bin/systemctl"
    private static let outputBytesMax = 256 << 10
    /// Lines of a failed command's output that its error quotes.
    private static let linesQuoted = 2
    private static let environment: Subprocess.Environment = .custom([
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "",
    ])

    /// Whether systemd is this machine's process 1, as sd_booted(3) finds out.
    static var isBooted: Bool { access("/run/systemd/system", F_OK) == 0 }

    /// The service and its socket; nil: no systemd runs here.
    static func units() async throws(Failure) -> [UnitFacts]? {
        guard isBooted else { return nil }
        return UnitFacts.read(
            try await output(["show", UnitFindings.service, UnitFindings.socket, "-p", UnitFacts.properties]))
    }

    /// What the service is handed over, by the files that systemd has of it.
    static func credentials() async throws(Failure) -> [UnitCredential] {
        UnitCredential.read(try await output(["cat", UnitFindings.service]))
    }

    /// `systemd 252 (252.39-1~deb12u2)`; nil: it is not installed.
    static func version() async -> String? {
        guard access(program, X_OK) == 0, let text = try? await output(["--version"]) else { return nil }
        return text.split(separator: "\n").first.map(String.init)
    }

    private static func output(_ arguments: [String]) async throws(Failure) -> String {
        let task = Task { await perform(arguments) }
        guard let result = await Patience.value(of: task, within: Examination.limit) else {
            // Ends the program, too.
            task.cancel()
            throw Failure(description: "systemctl did not answer within \(Examination.limit.components.seconds) s")
        }
        return try result.get()
    }

    private static func perform(_ arguments: [String]) async -> Result<String, Failure> {
        let configuration = Subprocess.Configuration(
            executable: .path(FilePath(program)), arguments: Arguments(arguments), environment: environment,
            workingDirectory: "/", platformOptions: PlatformOptions())
        let result: ExecutionResult<Void, StringOutput<UTF8>, CombinedErrorOutput>
        do {
            result = try await run(
                configuration, input: .none, output: .string(limit: outputBytesMax), error: .combinedWithOutput)
        } catch {
            return .failure(Failure(description: "\(program) cannot be run: \(error)"))
        }
        guard result.terminationStatus.isSuccess else {
            let lines = result.standardOutput.split(separator: "\n").suffix(linesQuoted).joined(separator: "; ")
            return .failure(Failure(description: "systemctl failed (\(result.terminationStatus)): \(lines)"))
        }
        return .success(result.standardOutput)
    }
}
