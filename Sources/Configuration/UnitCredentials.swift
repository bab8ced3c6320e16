/// One credential that a unit hands to its service.
package struct UnitCredential: Sendable, Hashable {
    package let name: String
    /// The file that it is read from; nil: its value is in the unit itself, or systemd finds it by its name.
    package let path: String?
    /// `ImportCredential=`: each credential of systemd's own whose name begins with `name` is handed over.
    package let isPrefix: Bool

    package init(name: String, path: String?, isPrefix: Bool = false) {
        self.name = name
        self.path = path
        self.isPrefix = isPrefix
    }

    /// Whether it is, or holds, the credential of this name: of a directory each file is a credential `NAME_FILE`
    /// (systemd.exec(5)).
    package func hands(_ credential: String, isDirectory: (_ path: String) -> Bool) -> Bool {
        if isPrefix { return credential.hasPrefix(name) }
        if credential == name { return true }
        guard let path, credential.hasPrefix(name + "_") else { return false }
        return isDirectory(path)
    }
}

/// A `LoadCredential=` or `LoadCredentialEncrypted=` of a unit.
package struct LoadedCredential: Sendable, Hashable {
    /// The path; what is no path is one of systemd's own.
    package let source: String
    /// Whether systemd decrypts the file.
    package let isEncrypted: Bool
    /// The line in one piece: `LoadCredential=NAME:PATH`.
    package let line: String
}

/// The credentials that a unit of systemd hands to its service, by the text of its files.
///
/// Not by `systemctl show -p LoadCredential`: systemd 252 prints `[unprintable]`.
package enum UnitCredentials {
    /// What `LoadCredential=`, `SetCredential=`, their encrypted forms and `ImportCredential=` hand over. As systemd
    /// reads them (systemd.exec(5)): a later line of the same name replaces an earlier one, and an empty value clears
    /// all of its kind. The value of `SetCredential=` is dropped.
    /// - Parameter text: all files of the unit in the order of `systemctl cat`.
    package static func all(in text: String) -> [UnitCredential] {
        let lines = read(text)
        let files = lines.loaded.map { UnitCredential(name: $0.name, path: $0.value.hasPrefix("/") ? $0.value : nil) }
        let names = Set(files.map(\.name))
        let others = lines.set.filter { !names.contains($0.name) }.map { UnitCredential(name: $0.name, path: nil) }
        return files + others + lines.imported.map(imported)
    }

    /// Each credential by its name, of `LoadCredential=` and `LoadCredentialEncrypted=` alone.
    package static func loaded(in text: String) -> [String: LoadedCredential] {
        let lines = read(text).loaded.map { line in
            let loaded = LoadedCredential(
                source: line.value, isEncrypted: line.key == encrypted, line: "\(line.key)=\(line.written)")
            return (line.name, loaded)
        }
        return Dictionary(uniqueKeysWithValues: lines)
    }

    private static let encrypted = "LoadCredentialEncrypted"

    private struct Line {
        let key: String
        let name: String
        /// Behind the first colon; without one the name.
        let value: String
        /// All behind the equals sign.
        let written: String
    }

    /// Each kind in the order of the last line of each name.
    private struct Lines {
        var loaded: [Line] = []
        var set: [Line] = []
        var imported: [Line] = []
    }

    private static func read(_ text: String) -> Lines {
        var lines = Lines()
        var isService = false
        for line in logicalLines(text) {
            if line.hasPrefix("[") {
                isService = line == "[Service]"
                continue
            }
            guard isService, let equals = line.firstIndex(of: "=") else { continue }
            let value = trimmed(line[line.index(after: equals)...])
            let key = trimmed(line[..<equals])
            switch key {
            case "LoadCredential", encrypted: apply(value, of: key, to: &lines.loaded)
            case "SetCredential", "SetCredentialEncrypted": apply(value, of: key, to: &lines.set)
            case "ImportCredential": apply(value, of: key, to: &lines.imported)
            default: break
            }
        }
        return lines
    }

    private static func apply(_ value: String, of key: String, to list: inout [Line]) {
        guard !value.isEmpty else { return list.removeAll() }
        let parts = value.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        list.removeAll { $0.name == parts[0] }
        list.append(Line(key: key, name: parts[0], value: parts.count > 1 ? parts[1] : parts[0], written: value))
    }

    /// `NAME`, `PREFIX*`, or either with a new name or prefix behind a colon. A `*` is at the end alone
    /// (systemd.exec(5), systemd 254 and later).
    private static func imported(_ line: Line) -> UnitCredential {
        guard line.name.hasSuffix("*") else { return UnitCredential(name: line.value, path: nil) }
        let prefix = line.value == line.name ? String(line.name.dropLast()) : line.value
        return UnitCredential(name: prefix, path: nil, isPrefix: true)
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
