/// The credentials that a unit of systemd hands to its service, by the text of its files.
package enum UnitCredentials {
    /// The path of each credential by its name, from `LoadCredential=` and `LoadCredentialEncrypted=`. As systemd reads
    /// them (systemd.exec(5)): a later line of the same name replaces an earlier one, and an empty value clears all.
    /// - Parameter text: all files of the unit in the order of `systemctl cat`.
    package static func loaded(in text: String) -> [String: String] {
        var paths: [String: String] = [:]
        var isService = false
        for line in logicalLines(text) {
            if line.hasPrefix("[") {
                isService = line == "[Service]"
                continue
            }
            guard isService, let equals = line.firstIndex(of: "="),
                ["LoadCredential", "LoadCredentialEncrypted"].contains(trimmed(line[..<equals]))
            else { continue }
            let value = trimmed(line[line.index(after: equals)...])
            guard !value.isEmpty else {
                paths = [:]
                continue
            }
            let parts = value.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            // Without a path it is a credential of systemd's own under the same name.
            paths[parts[0]] = parts.count > 1 ? parts[1] : parts[0]
        }
        return paths
    }

    /// Lines without comments, blanks around them and line breaks behind a backslash (systemd.syntax(7)).
    private static func logicalLines(_ text: String) -> [String] {
        var lines: [String] = []
        var begun: String?
        for raw in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            let words = trimmed(raw)
            // A comment in the middle of a continued line is skipped, and the line goes on behind it.
            if words.hasPrefix("#") || words.hasPrefix(";") { continue }
            var line = (begun ?? "") + words
            begun = nil
            if endsInBackslash(line) {
                line.removeLast()
                begun = line + " "
            } else if !line.isEmpty {
                lines.append(line)
            }
        }
        if let begun { lines.append(begun) }
        return lines
    }

    /// A backslash that is itself behind a backslash joins nothing.
    static func endsInBackslash(_ line: String) -> Bool {
        !line.utf8.reversed().prefix { $0 == UInt8(ascii: "\\") }.count.isMultiple(of: 2)
    }

    private static func trimmed(_ text: Substring) -> String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        var text = text
        while let last = text.last, isBlank(last) { text.removeLast() }
        return String(text.drop(while: isBlank))
    }
}
