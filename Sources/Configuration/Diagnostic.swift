/// One thing that is wrong, or worth a look, in a configuration.
package struct Diagnostic: Sendable, Hashable {
    package enum Severity: String, Sendable {
        case error
        case warning
        case note
    }

    /// The line that it is about.
    package enum Excerpt: Sendable, Hashable {
        /// `caret` is where in `text` the place begins, from zero; `width` how many characters it covers, at least one.
        case line(text: String, caret: Int, width: Int)
        /// The line may hold a secret in clear text.
        case withheld
    }

    package let severity: Severity
    package let file: String
    /// Nil where it concerns the file as a whole.
    package let span: Span?
    package let message: String
    package let excerpt: Excerpt?
    /// Other places that belong to it.
    package let notes: [Diagnostic]

    /// `file:line:column: error: message`, on one line.
    package var headline: String {
        "\(Quote.printable(file))\(span.map { ":\($0.line):\($0.column)" } ?? ""): \(severity.rawValue): \(message)"
    }

    /// `file:line:column: error: message`, then the line and a caret under it. No newline at the end.
    package func render(coloured: Bool = false) -> String {
        let paint = Paint(isOn: coloured)
        var place = Quote.printable(file)
        if let span { place += ":\(span.line):\(span.column)" }
        var out = paint.bold(place + ": ") + paint.severity(severity) + paint.bold(message)
        if let span, let excerpt {
            let number = String(span.line)
            let margin = String(repeating: " ", count: max(5, number.count))
            let left = String(repeating: " ", count: margin.count - number.count) + number
            switch excerpt {
            case .withheld:
                out += "\n\(left) | (not shown: this line may hold a secret)"
            case .line(let text, let caret, let width):
                // Tabs stay tabs, so that the caret is under its character whatever a tab's width is.
                let indent = text.unicodeScalars.prefix(caret).map { $0 == "\t" ? "\t" : " " }.joined()
                let mark = "^" + String(repeating: "~", count: max(0, width - 1))
                out += "\n\(left) | \(text)\n\(margin) | \(indent)\(paint.caret(mark))"
            }
        }
        for note in notes { out += "\n" + note.render(coloured: coloured) }
        return out
    }
}

/// ANSI colours, or none.
private struct Paint {
    let isOn: Bool

    func bold(_ text: String) -> String { wrap(text, "1") }
    func caret(_ text: String) -> String { wrap(text, "1;32") }
    func severity(_ severity: Diagnostic.Severity) -> String {
        let code =
            switch severity {
            case .error: "1;31"
            case .warning: "1;35"
            case .note: "1;36"
            }
        return wrap(severity.rawValue + ": ", code)
    }

    private func wrap(_ text: String, _ code: String) -> String { isOn ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text }
}

/// Makes text from a file fit for a terminal and for one line of a message.
enum Quote {
    /// In the place of what looks like a secret.
    static let withheld = "(not shown)"

    /// In backticks, shortened, without control characters. What looks like a secret is not quoted.
    static func value(_ text: String) -> String {
        if SourceText.looksSecret(text) { return withheld }
        let shown = text.unicodeScalars.prefix(ConfigurationLimits.quoteCharactersMax)
        let isCut = shown.endIndex != text.unicodeScalars.endIndex
        return "`" + printable(String(String.UnicodeScalarView(shown))) + (isCut ? "…" : "") + "`"
    }

    /// Control and format characters become U+FFFD: a file cannot steer the terminal of whoever checks it.
    static func printable(_ text: String) -> String {
        var out = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate:
                out.append(scalar == "\t" ? scalar : "\u{FFFD}")
            default: out.append(scalar)
            }
        }
        return String(out)
    }
}
