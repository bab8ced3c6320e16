internal import Glibc
internal import Subprocess
internal import SystemPackage

/// Runs the programs of PostgreSQL: with an environment of their own (the daemon's may hold secrets, and systemd's
/// NOTIFY_SOCKET is not for them), as the account that runs the server, in a session of their own.
enum Tool {
    struct Failure: Error {
        let lines: [String]
    }

    /// Fixed: messages in English for the errors that quote them, and nothing inherited.
    static let environment: Subprocess.Environment = .custom([
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC",
    ])

    static func options(for account: Account?) -> PlatformOptions {
        var options = PlatformOptions()
        options.createSession = true
        if let account, account.switches {
            options.userID = account.userID
            options.groupID = account.groupID
            options.supplementaryGroups = []
        }
        return options
    }

    /// What the program wrote to standard output and standard error together; throws unless it exits with 0.
    @discardableResult
    static func output(
        of program: String, _ arguments: [String], input: String = "", as account: Account? = nil
    ) async throws(Failure) -> String {
        var options = options(for: account)
        // A daemon that is told to stop meanwhile does not wait for the program.
        options.teardownSequence = [.send(signal: .terminate, allowedDurationToNextStep: .seconds(5))]
        let result: ExecutionResult<Void, StringOutput<UTF8>, CombinedErrorOutput>
        do {
            result = try await run(
                .path(FilePath(program)), arguments: Arguments(arguments), environment: environment,
                workingDirectory: "/", platformOptions: options, input: .string(input),
                output: .string(limit: ClusterLimits.outputBytesMax), error: .combinedWithOutput)
        } catch {
            throw Failure(lines: ["\(program): \(error)"])
        }
        guard result.terminationStatus.isSuccess else {
            throw Failure(lines: lastLines(of: result.standardOutput) + ["\(program): \(result.terminationStatus)"])
        }
        return result.standardOutput
    }

    /// The end of an output or a log as an error quotes it.
    static func lastLines(of text: String) -> [String] {
        text.split(whereSeparator: \.isNewline).suffix(ClusterLimits.logTailLinesMax).map(String.init)
    }

    /// Whether an output or a log tells of a full disk (strerror of ENOSPC and EDQUOT in the C locale).
    static func tellsFullDisk(_ lines: [String]) -> Bool {
        lines.contains { $0.contains("No space left on device") || $0.contains("Disk quota exceeded") }
    }
}
