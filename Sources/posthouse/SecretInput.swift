import Configuration
import Glibc

/// Reads a secret from standard input: of a terminal one line that is not shown, of anything else all there is.
enum SecretInput {
    /// A line of a terminal holds so many bytes; the rest is lost without a word (termios(3), "Canonical and
    /// noncanonical mode").
    private static let lineBytesMax = 4_095
    /// Signals that end the command while the terminal shows nothing.
    private static let ending = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

    /// For what was pasted together with the line, in milliseconds; then until the rest of it has come.
    private static let firstWait: Int32 = 50
    private static let restWait: Int32 = 200
    /// Looks at what else comes, so that a key that is held down does not hold up the end.
    private static let looksMax = 50

    /// - Parameter name: for the prompt and for the way out.
    static func read(_ name: String) throws -> [UInt8] {
        guard isatty(STDIN_FILENO) == 1 else {
            return try bytes(upTo: ConfigurationLimits.secretBytesMax + 1, endsWithLine: false, name)
        }
        return try hiddenLine(name)
    }

    private static func hiddenLine(_ name: String) throws -> [UInt8] {
        let unable = "the terminal cannot be asked not to show it"
        var shown = termios()
        guard tcgetattr(STDIN_FILENO, &shown) == 0 else { throw failure(unable, name) }
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
            // What was typed or pasted behind the line must not become a command of the shell.
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
            for number in ending + [SIGTSTP] { signal(number, SIG_DFL) }
            // The line break that the terminal did not show.
            Terminal.put("\n", STDERR_FILENO)
        }
        // What was typed before was shown, so it is thrown away.
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0 else { throw failure(unable, name) }
        Terminal.put("\(name), which is not shown: ", STDERR_FILENO)
        let line = try bytes(upTo: lineBytesMax + 1, endsWithLine: true, name)
        let hasMore = discardRest(&hidden)
        guard line.count <= lineBytesMax else {
            throw OperatorError(
                "a line of a terminal holds \(lineBytesMax) bytes, and this one may be cut: nothing was stored; "
                    + wayOut(name))
        }
        guard !SecretText.beginsPEM(line) else {
            throw OperatorError("this begins a PEM file, which has many lines: nothing was stored; \(wayOut(name))")
        }
        guard !hasMore else {
            throw OperatorError("the terminal takes one line, and more came: nothing was stored; \(wayOut(name))")
        }
        return line
    }

    /// Throws away what comes behind the line, a part of a line included.
    /// - Returns: whether there was any.
    private static func discardRest(_ hidden: inout termios) -> Bool {
        // Else poll(2) reports whole lines alone (termios(3), "Canonical and noncanonical mode").
        hidden.c_lflag &= ~tcflag_t(ICANON)
        withUnsafeMutableBytes(of: &hidden.c_cc) { controls in
            controls[Int(VMIN)] = 1
            controls[Int(VTIME)] = 0
        }
        tcsetattr(STDIN_FILENO, TCSANOW, &hidden)
        var looks = 0
        while looks < looksMax {
            var waiting = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, looks == 0 ? firstWait : restWait) > 0, waiting.revents & Int16(POLLIN) != 0 else {
                break
            }
            tcflush(STDIN_FILENO, TCIFLUSH)
            looks += 1
        }
        return looks > 0
    }

    /// Puts the terminal right and ends by the signal, as without this.
    private static func handle(_ number: Int32) {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { number in
            // All of these may be called in a handler (signal-safety(7)).
            tcflush(STDIN_FILENO, TCIFLUSH)
            if let terminalBefore { tcsetattr(STDIN_FILENO, TCSANOW, terminalBefore) }
            signal(number, SIG_DFL)
            raise(number)
        }
        sigaction(number, &action, nil)
    }

    private static func bytes(upTo limit: Int, endsWithLine: Bool, _ name: String) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while bytes.count < limit {
            let count = Glibc.read(STDIN_FILENO, &buffer, min(buffer.count, limit - bytes.count))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("standard input cannot be read", name) }
            if count == 0 { break }
            bytes += buffer[..<count]
            if endsWithLine, bytes.last == UInt8(ascii: "\n") { break }
        }
        return bytes
    }

    private static func failure(_ what: String, _ name: String) -> OperatorError {
        OperatorError("\(what): \(String(cString: strerror(errno))); \(wayOut(name))")
    }

    private static func wayOut(_ name: String) -> String {
        "hand the secret over by standard input: posthouse secret add \(name) <FILE"
    }
}

/// The terminal as it was. Unsafe only in name: it is written once, by `hiddenLine`, before the handlers that read it
/// are installed, and never freed.
private nonisolated(unsafe) var terminalBefore: UnsafeMutablePointer<termios>?
