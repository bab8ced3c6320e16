internal import Glibc

/// What came of reading a configuration.
package struct LoadOutcome: Sendable {
    /// Nil exactly where there is an error.
    package let configuration: Configuration?
    /// In the order of the file; notes hang on what they belong to.
    package let diagnostics: [Diagnostic]

    package var errors: [Diagnostic] { diagnostics.filter { $0.severity == .error } }
    package var warnings: [Diagnostic] { diagnostics.filter { $0.severity == .warning } }

    /// `3 errors, 1 warning`; nil where there is neither.
    package var countLine: String? {
        let counts = [(errors.count, "error"), (warnings.count, "warning")]
            .filter { $0.0 > 0 }
            .map { "\($0.0) \($0.1)\($0.0 == 1 ? "" : "s")" }
        return counts.isEmpty ? nil : counts.joined(separator: ", ")
    }

    /// Everything, and the count in the last line; empty where there is nothing to say. Ends with a newline if not.
    package func render(coloured: Bool = false) -> String {
        guard let countLine else { return "" }
        return (diagnostics.map { $0.render(coloured: coloured) } + [countLine, ""]).joined(separator: "\n")
    }
}

/// The way from a file to a checked `Configuration`, or to all that is wrong with it.
package enum ConfigurationFile {
    /// Reads and checks a file. Never throws: a file that cannot be read is a diagnostic too.
    package static func load(
        path: String, purpose: Purpose, reader: SecretReader = .system, isRoot: Bool = geteuid() == 0
    ) -> LoadOutcome {
        switch reader.readFile(path, ConfigurationLimits.fileBytesMax) {
        case .success(let file):
            return checkText(file.bytes, fileName: path, purpose: purpose, reader: reader, isRoot: isRoot)
        case .failure(let failure):
            var report = Report(file: path, source: SourceText([]))
            report.error("cannot be read: \(failure.text)", at: nil)
            return LoadOutcome(configuration: nil, diagnostics: report.diagnostics)
        }
    }

    /// Checks the bytes of a file. Whatever lies outside them comes through `reader`.
    package static func checkText(
        _ bytes: [UInt8], fileName: String, purpose: Purpose, reader: SecretReader, isRoot: Bool
    ) -> LoadOutcome {
        var report = Report(file: fileName, source: SourceText(bytes))
        do throws(TomlError) {
            let root = try TomlReader.read(bytes)
            let directory = fileName.lastIndex(of: "/").map { String(fileName[..<$0]) }
            let resolver = SecretResolver(purpose: purpose, reader: reader, directory: directory)
            var check = Check(report: report, secrets: resolver, isRoot: isRoot)
            let configuration = check.configuration(from: root)
            return LoadOutcome(configuration: configuration, diagnostics: check.report.diagnostics)
        } catch {
            SyntaxError.report(error, to: &report)
            return LoadOutcome(configuration: nil, diagnostics: report.diagnostics)
        }
    }
}

/// Tells of a file that is no TOML, of which it is not known yet where its secrets stand: near anything that looks like
/// one, nothing of the file is shown.
private enum SyntaxError {
    private static let wordsOfSecrets = [
        "secret", "token", "passw", "header", "auth", "bearer", "key", "credential", "whs", "@",
    ]

    static func report(_ error: TomlError, to report: inout Report) {
        guard let span = error.span else {
            report.error(error.message, at: nil)
            return
        }
        let isNearSecret = isNearSecret(span.line, report.source)
        if isNearSecret { report.source.withhold(span.line...span.line) }
        report.error("this is not TOML: \(message(error.message, isNearSecret: isNearSecret))", at: span)
    }

    /// Looks back from the line of the error to the one where its statement begins. A text in three quotes may hold
    /// anything on any line: with one in the file, all of it counts as near.
    private static func isNearSecret(_ line: Int, _ source: SourceText) -> Bool {
        if source.holdsMultilineText { return true }
        for number in stride(from: min(line, source.lineCount), through: 1, by: -1) {
            let text = source.text(number).lowercased()
            let isComment = text.firstRange(of: /^[ \t]*#/) != nil
            if isComment, number != line { continue }
            if wordsOfSecrets.contains(where: text.contains) { return true }
            let isHeader = text.firstRange(of: /^[ \t]*\[\[?[a-z0-9_. \t-]+\]/) != nil
            if isHeader || text.firstRange(of: /^[ \t]*[a-z0-9_."'-]+[ \t]*=/) != nil { return false }
        }
        return false
    }

    /// The parser quotes what it saw, at most a few characters; near a secret these are cut off.
    private static func message(_ text: String, isNearSecret: Bool) -> String {
        var text = text[...]
        if text.hasPrefix("Error while parsing ") { text = text.dropFirst("Error while parsing ".count) }
        if isNearSecret, let saw = text.firstRange(of: ", saw ") { text = text[..<saw.lowerBound] }
        return Quote.printable(String(text))
    }
}
