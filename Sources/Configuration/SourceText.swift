/// The file as a person sees it: its lines, and which of them must not be shown.
struct SourceText: Sendable {
    private let lines: [ArraySlice<UInt8>]
    private var withheld: Set<Int> = []
    /// Whether three quotes occur anywhere in it.
    let holdsMultilineText: Bool

    init(_ bytes: [UInt8]) {
        lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        holdsMultilineText =
            bytes.firstRange(of: "\"\"\"".utf8) != nil || bytes.firstRange(of: "'''".utf8) != nil
    }

    /// Withholds these lines from excerpts.
    mutating func withhold(_ numbers: ClosedRange<Int>) {
        for number in numbers where number <= lines.count { withheld.insert(number) }
    }

    /// The text of a line, from one; empty past the end.
    func text(_ line: Int) -> String {
        guard line >= 1, line <= lines.count else { return "" }
        var bytes = lines[line - 1]
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The part that a diagnostic shows of the line where `span` begins; of a long line a window around that place.
    func excerpt(at span: Span) -> Diagnostic.Excerpt? {
        guard span.line >= 1, span.line <= lines.count else { return nil }
        let line = text(span.line)
        if withheld.contains(span.line) || Self.looksSecret(line) { return .withheld }
        let scalars = Array(line.unicodeScalars)
        let column = min(max(0, span.column - 1), scalars.count)
        let room = ConfigurationLimits.excerptCharactersMax
        let start = scalars.count <= room ? 0 : max(0, min(column - room / 2, scalars.count - room))
        let end = min(scalars.count, start + room)
        var shown = String.UnicodeScalarView()
        shown.append(contentsOf: scalars[start..<end])
        let spanEnd = span.endLine == span.line ? span.endColumn - 1 : scalars.count
        let width = max(1, min(spanEnd, end) - column)
        return .line(text: Quote.printable(String(shown)), caret: column - start, width: width)
    }

    /// Whether it has the mark of a Standard Webhooks key (`whsec_`, `whsk_`) anywhere, comments included.
    static func looksSecret(_ text: String) -> Bool { text.contains("whsec_") || text.contains("whsk_") }
}
