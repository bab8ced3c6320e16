import Configuration
import Glibc

/// Reads a secret from standard input: of a terminal one line that is not shown, of anything else all there is.
enum SecretInput {
    /// A line of a terminal holds so many bytes; the rest is lost without a word (termios(3), "Canonical and
    /// noncanonical mode").
    private static let lineBytesMax = 4_095
    /// Signals that end the command while the terminal shows nothing.
    private static let ending = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

    /// - Parameter name: for the prompt.
    static func read(_ name: String) throws -> [UInt8] {
        guard isatty(STDIN_FILENO) == 1 else {
            return try bytes(upTo: ConfigurationLimits.secretBytesMax + 1, endsWithLine: false)
        }
        return try hiddenLine(prompt: "\(name), which is not shown: ")
    }

    private static func hiddenLine(prompt: String) throws -> [UInt8] {
        var shown = termios()
        guard tcgetattr(STDIN_FILENO, &shown) == 0 else { throw failure("the terminal cannot be asked not to show it") }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO | ECHONL)
        hidden.c_lflag |= tcflag_t(ICANON | ISIG)
        let kept = UnsafeMutablePointer<termios>.allocate(capacity: 1)
        kept.initialize(to: shown)
        terminalBefore = kept
        for number in ending { handle(number) }
        // A command that is stopped (Ctrl-Z) would leave a terminal behind that shows nothing.
        signal(SIGTSTP, SIG_IGN)
        defer {
            tcsetattr(STDIN_FILENO, TCSADRAIN, &shown)
            for number in ending + [SIGTSTP] { signal(number, SIG_DFL) }
            // The line break that the terminal did not show.
            Terminal.put("\n", STDERR_FILENO)
        }
        // What was typed before was shown, so it is thrown away.
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0 else {
            throw failure("the terminal cannot be asked not to show it")
        }
        Terminal.put(prompt, STDERR_FILENO)
        let line = try bytes(upTo: lineBytesMax + 1, endsWithLine: true)
        guard line.count <= lineBytesMax else {
            throw Complaint(
                "a line of a terminal holds \(lineBytesMax) bytes, and this one may be cut: nothing was stored; hand "
                    + "the secret over by standard input: … <FILE")
        }
        return line
    }

    /// Puts the terminal right and ends by the signal, as without this.
    private static func handle(_ number: Int32) {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { number in
            // Both may be called in a handler (signal-safety(7)).
            if let terminalBefore { tcsetattr(STDIN_FILENO, TCSANOW, terminalBefore) }
            signal(number, SIG_DFL)
            raise(number)
        }
        sigaction(number, &action, nil)
    }

    private static func bytes(upTo limit: Int, endsWithLine: Bool) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while bytes.count < limit {
            let count = Glibc.read(STDIN_FILENO, &buffer, min(buffer.count, limit - bytes.count))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("standard input cannot be read") }
            if count == 0 { break }
            bytes += buffer[..<count]
            if endsWithLine, bytes.last == UInt8(ascii: "\n") { break }
        }
        return bytes
    }

    private static func failure(_ what: String) -> Complaint {
        Complaint("\(what): \(String(cString: strerror(errno))); hand the secret over by standard input: … <FILE")
    }
}

/// The terminal as it was. Unsafe only in name: it is written once, by `hiddenLine`, before the handlers that read it
/// are installed, and never freed.
private nonisolated(unsafe) var terminalBefore: UnsafeMutablePointer<termios>?
