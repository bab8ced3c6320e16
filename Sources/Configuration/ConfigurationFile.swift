internal import Glibc

/// The outcome of reading a configuration.
package struct LoadOutcome: Sendable {
    /// Nil exactly where there is an error.
    package let configuration: Configuration?
    /// In the order of the file; notes are part of their finding.
    package let diagnostics: [Diagnostic]
    /// Empty where the file is no TOML.
    package var outside = OutsideReferences()

    package var errors: [Diagnostic] { diagnostics.filter { $0.severity == .error } }
    package var warnings: [Diagnostic] { diagnostics.filter { $0.severity == .warning } }

    /// Errors that one line names.
    private static let errorsListed = 5

    /// The errors in one line, for an entry of the journal; `posthouse check` shows all, with their lines.
    package var errorLine: String {
        let more = errors.count - Self.errorsListed
        let listed = errors.prefix(Self.errorsListed).map(\.headline).joined(separator: "; ")
        return more > 0 ? "\(listed); and \(more) more" : listed
    }

    /// `3 errors, 1 warning`; nil where there is neither.
    /// - Parameter others: warnings that were found elsewhere.
    package func count(besides others: Int = 0) -> String? {
        let counts = [(errors.count, "error"), (warnings.count + others, "warning")]
            .filter { $0.0 > 0 }
            .map { "\($0.0) \($0.1)\($0.0 == 1 ? "" : "s")" }
        return counts.isEmpty ? nil : counts.joined(separator: ", ")
    }

    /// All findings, and the count in the last line. Ends with a newline; empty where there is nothing to report.
    /// - Parameter others: warnings that were found elsewhere.
    package func render(coloured: Bool = false, and others: [String] = []) -> String {
        guard let count = count(besides: others.count) else { return "" }
        return (diagnostics.map { $0.render(coloured: coloured) } + others + [count, ""]).joined(separator: "\n")
    }
}

/// Reads a file into a checked `Configuration`, or into all that is wrong with it.
package enum ConfigurationFile {
    /// The file that the package's unit runs by, and commands without `--config`.
    package static let standardPath = "/etc/posthouse/posthouse.toml"

    /// Reads and checks a file. Never throws: a file that cannot be read is a diagnostic too.
    package static func load(
        path: String, purpose: Purpose, reader: SecretReader = .system, libraries: LibraryChecks = .none,
        isRoot: Bool = geteuid() == 0
    ) -> LoadOutcome {
        switch reader.readFile(path, ConfigurationLimits.fileBytesMax) {
        case .success(let file):
            return checkText(
                file.bytes, fileName: path, purpose: purpose, reader: reader, libraries: libraries, isRoot: isRoot)
        case .failure(let failure):
            var report = Report(file: path, source: SourceText([]))
            report.error("cannot be read: \(failure.text)\(remedy(failure, path, reader))", at: nil)
            return LoadOutcome(configuration: nil, diagnostics: report.diagnostics)
        }
    }

    /// What to do about a file that cannot be read. One that this user may not read is the right one all the same.
    private static func remedy(_ failure: SecretReader.Failure, _ path: String, _ reader: SecretReader) -> String {
        guard failure == .notPermitted else { return "; --config FILE names another" }
        let user = "the user `\(Quote.printable(reader.userName()))`"
        if let directory = reader.barrier(path) {
            return ": \(user) may not enter `\(Quote.printable(directory))`; run this as a user who may, or move the "
                + "file"
        }
        return ": \(user) may not read it; run this as root or as the daemon's user, or let everybody read it "
            + "(chmod a+r) if no secret is in it"
    }

    /// Checks the bytes of a file. Everything outside them is read through `reader`.
    package static func checkText(
        _ bytes: [UInt8], fileName: String, purpose: Purpose, reader: SecretReader, libraries: LibraryChecks = .none,
        isRoot: Bool
    ) -> LoadOutcome {
        var report = Report(file: fileName, source: SourceText(bytes))
        do throws(TomlError) {
            let root = try TomlReader.read(bytes)
            let resolver = SecretResolver(purpose: purpose, reader: reader, file: fileName)
            var check = Check(report: report, secrets: resolver, libraries: libraries, isRoot: isRoot)
            let configuration = check.configuration(from: root)
            return LoadOutcome(
                configuration: configuration, diagnostics: check.report.diagnostics, outside: check.outside)
        } catch {
            SyntaxError.report(error, to: &report)
            return LoadOutcome(configuration: nil, diagnostics: report.diagnostics)
        }
    }
}

/// Reports a file that is no TOML. Which lines hold secrets is not known then, so a line is shown only if it surely
/// holds none.
private enum SyntaxError {
    static func report(_ error: TomlError, to report: inout Report) {
        guard let span = error.span else {
            report.error(error.message, at: nil)
            return
        }
        let line = report.source.text(span.line)
        let isHarmless = !report.source.holdsMultilineText && isHarmless(line)
        if !isHarmless { report.source.withhold(span.line...span.line) }
        let text = message(error.message, isHarmless: isHarmless) + remedy(error.message, line, at: span.column)
        report.error("this is not TOML: \(text)", at: span)
    }

    /// What the parser says of a text without quotes, or in those of a word processor: it takes the text for a value of
    /// another type, by its first character.
    private static let unquoted = [
        "could not determine value type", "expected 'true'", "expected 'false'", "expected 'inf'", "expected 'nan'",
        "decimal integer: expected digit",
    ]

    private static func remedy(_ message: String, _ line: String, at column: Int) -> String {
        let isText =
            unquoted.contains(where: message.contains)
            && line.unicodeScalars.dropFirst(max(0, column - 1)).first != "="
        return isText ? #"; write text in straight quotes, as in "backend""# : ""
    }

    /// Whether the line is a table's header, or a key that never holds a secret in the schema, without a word that
    /// hints at one.
    private static func isHarmless(_ line: String) -> Bool {
        let lowered = line.lowercased()
        guard !["secret", "token", "passw", "auth", "bearer", "@"].contains(where: lowered.contains) else {
            return false
        }
        if let key = line.firstMatch(of: /^[ \t]*([a-z_]+)[ \t]*=/) {
            let rows = Schema.tables.flatMap(\.keys).filter { $0.name == key.output.1 }
            return !rows.isEmpty && rows.allSatisfy { !$0.mayHoldSecret }
        }
        return line.firstMatch(of: /^[ \t]*\[\[?[A-Za-z_. ]*\]?\]?[ \t]*$/) != nil
    }

    /// The parser quotes what it saw, at most a few characters; they may be a secret's.
    private static func message(_ text: String, isHarmless: Bool) -> String {
        var text = text[...]
        if text.hasPrefix("Error while parsing ") { text = text.dropFirst("Error while parsing ".count) }
        if !isHarmless, let saw = text.firstRange(of: ", saw ") { text = text[..<saw.lowerBound] }
        return Quote.printable(String(text))
    }
}
