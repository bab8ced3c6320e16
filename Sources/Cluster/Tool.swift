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

    /// The program, run as `account`: by setpriv(1) of util-linux, which becomes the program without a fork.
    ///
    /// Not by Subprocess's userID, groupID and supplementaryGroups: its child calls setgroups(3) and setuid(3) after a
    /// raw clone3, and glibc's wait there forever for a thread that another one was just creating (nptl_setxid.c,
    /// setxid_mark_thread); seen with 1.0.2 under load.
    static func configuration(
        _ program: String, _ arguments: [String], as account: Account?
    ) -> Subprocess.Configuration {
        var options = PlatformOptions()
        options.createSession = true
        guard let account, account.switches else {
            return Subprocess.Configuration(
                executable: .path(FilePath(program)), arguments: Arguments(arguments), environment: environment,
                workingDirectory: "/", platformOptions: options)
        }
        let change = [
            "--reuid=\(account.userID)", "--regid=\(account.groupID)", "--clear-groups", "--no-new-privs", "--",
            program,
        ]
        return Subprocess.Configuration(
            executable: .path("/usr/bin/setpriv"), arguments: Arguments(change + arguments), environment: environment,
            workingDirectory: "/", platformOptions: options)
    }

    /// What the program wrote to standard output and standard error together; throws unless it exits with 0.
    @discardableResult
    static func output(
        of program: String, _ arguments: [String], input: String = "", as account: Account? = nil
    ) async throws(Failure) -> String {
        var configuration = configuration(program, arguments, as: account)
        // A daemon that is stopped meanwhile does not wait for the program.
        configuration.platformOptions.teardownSequence = [
            .send(signal: .terminate, allowedDurationToNextStep: .seconds(5))
        ]
        let result: ExecutionResult<Void, StringOutput<UTF8>, CombinedErrorOutput>
        do {
            result = try await run(
                configuration, input: .string(input),
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

    /// Whether an output or a log reports a full disk (strerror of ENOSPC and EDQUOT in the C locale).
    static func indicatesFullDisk(_ lines: [String]) -> Bool {
        lines.contains { $0.contains("No space left on device") || $0.contains("Disk quota exceeded") }
    }
}
