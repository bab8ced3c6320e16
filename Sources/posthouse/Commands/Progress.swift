import Glibc

/// A progress bar on standard error; shown only on a terminal.
struct Progress {
    private static let barWidth = 30
    private static let isShown = isatty(STDERR_FILENO) == 1

    let what: String
    let total: Int
    private var done = 0

    init(_ what: String, of total: Int) {
        self.what = what
        self.total = total
    }

    mutating func advance(by count: Int) { show(min(done + count, total)) }

    mutating func show(_ done: Int) {
        self.done = done
        guard Self.isShown, total > 0 else { return }
        let filled = done * Self.barWidth / total
        let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: Self.barWidth - filled)
        Terminal.put("\r\(what) [\(bar)] \(done) of \(total)", STDERR_FILENO)
    }

    /// Removes the bar.
    func finish() {
        if Self.isShown, total > 0 { Terminal.put("\r\u{1B}[K", STDERR_FILENO) }
    }
}

extension Terminal {
    /// Shows the current stage in one line that the next one replaces; nil removes it.
    static func showStage(_ text: String?) {
        guard isatty(STDERR_FILENO) == 1 else { return }
        put("\r\u{1B}[K" + (text ?? ""), STDERR_FILENO)
    }
}
