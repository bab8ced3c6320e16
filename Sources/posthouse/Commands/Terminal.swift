import ArgumentParser
import Configuration
import Glibc
import Observing
import Postgres
import Systemd

/// The standard output and standard error of commands.
enum Terminal {
    /// NO_COLOR: no-color.org; an empty value counts as none.
    static let allowsColour = getenv("NO_COLOR").map { $0.pointee == 0 } ?? true
    static let errorIsColoured = isatty(STDERR_FILENO) == 1 && allowsColour
    /// Standard error leads to the journal, as it does under systemd.
    static let errorIsJournal = JournalStream.isJournal(descriptor: STDERR_FILENO)

    static func print(_ text: String) { put(text.hasSuffix("\n") ? text : text + "\n", STDOUT_FILENO) }

    /// Prints bytes unchanged, without adding an end of line. A terminal gets them as lines, without characters that
    /// would move its cursor.
    static func print(_ bytes: [UInt8]) {
        guard isOutput else { return put(bytes, STDOUT_FILENO) }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        print(lines.map { PlainText.harmless(String($0)) }.joined(separator: "\n"))
    }

    static func printToStandardError(_ text: String) { put(text.hasSuffix("\n") ? text : text + "\n", STDERR_FILENO) }

    /// Prints a finding. In the journal each line gets its priority (sd-daemon(3)), so that `journalctl -p warning`
    /// shows it.
    static func printToStandardError(_ text: String, _ severity: Diagnostic.Severity) {
        guard errorIsJournal else { return printToStandardError(text) }
        let priority = severity == .error ? JournalEntry.Priority.error : .warning
        printToStandardError(text.split(separator: "\n").map { "<\(priority.rawValue)>\($0)" }.joined(separator: "\n"))
    }

    /// Prints all errors and warnings of a configuration, warnings that were found elsewhere, and how many they are.
    static func printToStandardError(_ outcome: LoadOutcome, and others: [String] = []) {
        guard errorIsJournal else { return put(outcome.render(coloured: errorIsColoured, and: others), STDERR_FILENO) }
        for diagnostic in outcome.diagnostics { printToStandardError(diagnostic.render(), diagnostic.severity) }
        for warning in others { printToStandardError(warning, .warning) }
    }

    /// Shows the current stage in one line that the next one replaces, on a terminal only; nil removes it.
    static func showStage(_ text: String?) {
        guard isatty(STDERR_FILENO) == 1 else { return }
        put("\r\u{1B}[K" + (text ?? ""), STDERR_FILENO)
    }

    /// Shows how much of it is done; nothing where that is not known.
    static func showStage(_ what: String, _ done: Int, of total: Int) {
        if total > 0 { showStage("\(what): \(min(done, total)) of \(total)") }
    }

    /// Runs a command's body. An error goes to `report`, which by default prints it after the program's name, and
    /// becomes the command's exit code.
    static func reporting(
        by report: (String) -> Void = { printToStandardError("posthouse: \($0)", .error) },
        _ body: () async throws -> Void
    ) async throws {
        do {
            try await body()
        } catch let error as OperatorError {
            report("\(error)")
            throw error.code
        } catch let code as ExitCode {
            throw code
        } catch let error as ConnectionStringError {
            report("\(error); posthouse check names its line")
            throw Exit.configuration
        } catch {
            report("\(error)")
            throw ExitCode.failure
        }
    }

    /// Prints a text without adding an end of line.
    static func put(_ text: String, _ descriptor: Int32) { put(Array(text.utf8), descriptor) }

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
                // An error of standard error cannot be printed.
                guard descriptor == STDOUT_FILENO else { return }
                endWithoutOutput(error)
            }
        }
    }

    /// Ends the command as failed, because what it printed is lost. A reader that has closed the pipe needs no more:
    /// that ends a command by SIGPIPE, like any other.
    private static func endWithoutOutput(_ error: Int32) -> Never {
        if error == EPIPE {
            signal(SIGPIPE, SIG_DFL)
            raise(SIGPIPE)
        }
        printToStandardError("posthouse: standard output cannot be written: \(String(cString: strerror(error)))")
        _exit(ExitCode.failure.rawValue)
    }

    /// Checks at exit the output of the parser (help and completions), which is buffered until then.
    static func checkOutputAtExit() {
        atexit {
            guard fflush(nil) != 0 else { return }
            Terminal.endWithoutOutput(errno)
        }
    }
}
