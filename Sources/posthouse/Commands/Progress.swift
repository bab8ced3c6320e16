import Glibc

/// A bar on standard error while something long is under way; nothing where that is no terminal.
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
        Terminal.put("\r\(what) [\(bar)] \(done) of \(total)")
    }

    /// Takes the bar away.
    func finish() {
        if Self.isShown, total > 0 { Terminal.put("\r\u{1B}[K") }
    }
}

extension Terminal {
    /// What is under way, in one line that the next one replaces; nil takes it away.
    static func showStage(_ text: String?) {
        guard isatty(STDERR_FILENO) == 1 else { return }
        put("\r\u{1B}[K" + (text ?? ""))
    }

    /// To standard error, without an end of line.
    fileprivate static func put(_ text: String) {
        let bytes = Array(text.utf8)
        _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
