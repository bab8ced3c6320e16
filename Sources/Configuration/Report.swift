/// Collects findings, each with its line, and puts them in the order of the file.
struct Report {
    let file: String
    var source: SourceText
    private(set) var hasErrors = false
    private var found: [Diagnostic] = []
    private var isFull = false

    init(file: String, source: SourceText) {
        self.file = file
        self.source = source
    }

    mutating func error(_ message: String, at span: Span?, note: (message: String, span: Span)? = nil) {
        hasErrors = true
        add(.error, message, span, note)
    }

    mutating func warning(_ message: String, at span: Span?) { add(.warning, message, span, nil) }

    /// By line and column; findings on the whole file come first. At equal places the order of finding is kept.
    var diagnostics: [Diagnostic] {
        var sorted = found.enumerated().sorted { left, right in
            let a = left.element.span.map { ($0.line, $0.column) } ?? (0, 0)
            let b = right.element.span.map { ($0.line, $0.column) } ?? (0, 0)
            return a == b ? left.offset < right.offset : a < b
        }.map(\.element)
        if isFull {
            sorted.append(
                diagnostic(
                    hasErrors ? .error : .warning,
                    "more than \(ConfigurationLimits.diagnosticsMax) findings; the rest is not shown", nil, []))
        }
        return sorted
    }

    private mutating func add(
        _ severity: Diagnostic.Severity, _ message: String, _ span: Span?, _ note: (message: String, span: Span)?
    ) {
        guard found.count < ConfigurationLimits.diagnosticsMax else {
            isFull = true
            return
        }
        let notes = note.map { [diagnostic(.note, $0.message, $0.span, [])] } ?? []
        found.append(diagnostic(severity, message, span, notes))
    }

    private func diagnostic(
        _ severity: Diagnostic.Severity, _ message: String, _ span: Span?, _ notes: [Diagnostic]
    ) -> Diagnostic {
        Diagnostic(
            severity: severity, file: file, span: span, message: message,
            excerpt: span.flatMap { source.excerpt(at: $0) }, notes: notes)
    }
}
