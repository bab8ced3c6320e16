/// How entries are written where there is no systemd journal: `[journal] format`.
package enum LogFormat: String, Sendable, CaseIterable {
    /// One JSON object a line, on standard output.
    case json
    /// One line of `name=value` pairs, on standard error.
    case logfmt
}
