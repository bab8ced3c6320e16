import ArgumentParser
import Configuration
import Glibc
import Observing
import Systemd

/// `--config FILE`, as every command takes it.
struct ConfigurationOption: ParsableArguments {
    @Option(name: .customLong("config"), help: "The configuration file.")
    var path = "/etc/posthouse/posthouse.toml"

    /// The checked configuration; prints what is wrong and ends the program if it cannot be used.
    func load(_ purpose: Purpose) throws -> Configuration {
        let outcome = ConfigurationFile.load(path: path, purpose: purpose)
        if let configuration = outcome.configuration, outcome.errors.isEmpty { return configuration }
        Terminal.complain(outcome)
        throw Exit.configuration
    }
}

/// Where commands write to.
enum Terminal {
    /// NO_COLOR: no-color.org; an empty value counts as none.
    static let allowsColour = getenv("NO_COLOR").map { $0.pointee == 0 } ?? true
    static let errorIsColoured = isatty(STDERR_FILENO) == 1 && allowsColour
    /// As it is for what systemd runs.
    static let errorIsJournal = JournalStream.isJournal(descriptor: STDERR_FILENO)

    static func say(_ text: String) { put(text.hasSuffix("\n") ? text : text + "\n", STDOUT_FILENO) }

    /// Bytes as they are, no end of line added; a terminal gets them in lines, without what would move its cursor.
    static func say(_ bytes: [UInt8]) {
        guard isOutput else { return put(bytes, STDOUT_FILENO) }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        say(lines.map { PlainText.harmless(String($0)) }.joined(separator: "\n"))
    }

    static func complain(_ text: String) { put(text.hasSuffix("\n") ? text : text + "\n", STDERR_FILENO) }

    /// The same of a finding: in the journal each line gets its priority (sd-daemon(3)), so that
    /// `journalctl -p warning` shows it.
    static func complain(_ text: String, _ severity: Diagnostic.Severity) {
        guard errorIsJournal else { return complain(text) }
        let priority = severity == .error ? JournalEntry.Priority.error : .warning
        complain(text.split(separator: "\n").map { "<\(priority.rawValue)>\($0)" }.joined(separator: "\n"))
    }

    /// All that is wrong with a configuration, or worth a look.
    static func complain(_ outcome: LoadOutcome) {
        guard errorIsJournal else { return complain(outcome.render(coloured: errorIsColoured)) }
        for diagnostic in outcome.diagnostics { complain(diagnostic.render(), diagnostic.severity) }
    }

    /// Runs a command's body; a complaint is printed after the command's name, or told by `tell`, and becomes the
    /// command's exit code.
    static func reporting(
        by tell: (String) -> Void = { complain("posthouse: \($0)", .error) }, _ body: () async throws -> Void
    ) async throws {
        do {
            try await body()
        } catch let complaint as Complaint {
            tell("\(complaint)")
            throw complaint.code
        } catch let code as ExitCode {
            throw code
        } catch {
            tell("\(error)")
            throw ExitCode.failure
        }
    }

    private static func put(_ text: String, _ descriptor: Int32) { put(Array(text.utf8), descriptor) }

    private static func put(_ bytes: [UInt8], _ descriptor: Int32) {
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                written += count
                continue
            }
            let error = count < 0 ? errno : EIO
            switch error {
            case EINTR: continue
            case EAGAIN:
                var writable = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&writable, 1, -1)
            default:
                // Without standard error there is nobody to tell.
                guard descriptor == STDOUT_FILENO else { return }
                endWithoutOutput(error)
            }
        }
    }

    /// What was printed is lost, so the command must not end as if it had done its work. A reader who has gone away
    /// wants no more: that ends a command as it ends any other, by SIGPIPE.
    private static func endWithoutOutput(_ error: Int32) -> Never {
        if error == EPIPE {
            signal(SIGPIPE, SIG_DFL)
            raise(SIGPIPE)
        }
        complain("posthouse: standard output cannot be written: \(String(cString: strerror(error)))")
        _exit(ExitCode.failure.rawValue)
    }

    /// The same for what the parser prints, help and completions: buffered until the end.
    static func checkOutputAtExit() {
        atexit {
            guard fflush(nil) != 0 else { return }
            Terminal.endWithoutOutput(errno)
        }
    }
}
