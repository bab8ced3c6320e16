/// One credential that a unit hands to its service.
package struct UnitCredential: Sendable, Hashable {
    package let name: String
    /// The file that it is read from; nil: its value is in the unit itself, or systemd finds it by its name.
    package let path: String?

    package init(name: String, path: String?) {
        self.name = name
        self.path = path
    }
}

/// The credentials that a unit of systemd hands to its service, by the text of its files.
///
/// Not by `systemctl show -p LoadCredential`: systemd 252 prints `[unprintable]`.
package enum UnitCredentials {
    /// What `LoadCredential=`, `SetCredential=` and their encrypted forms hand over. As systemd reads them
    /// (systemd.exec(5)): a later line of the same name replaces an earlier one, and an empty value clears all of its
    /// kind. The value of `SetCredential=` is dropped.
    /// - Parameter text: all files of the unit in the order of `systemctl cat`.
    package static func all(in text: String) -> [UnitCredential] {
        let (loaded, set) = read(text)
        let files = loaded.map { UnitCredential(name: $0.name, path: $0.value.hasPrefix("/") ? $0.value : nil) }
        let names = Set(files.map(\.name))
        return files + set.filter { !names.contains($0.name) }.map { UnitCredential(name: $0.name, path: nil) }
    }

    /// The path of each credential by its name, of `LoadCredential=` and `LoadCredentialEncrypted=` alone. Without a
    /// path it is one of systemd's own under the same name.
    package static func loaded(in text: String) -> [String: String] {
        Dictionary(uniqueKeysWithValues: read(text).loaded.map { ($0.name, $0.value) })
    }

    private typealias Line = (name: String, value: String)

    /// In the order of the last line of each name.
    private static func read(_ text: String) -> (loaded: [Line], set: [Line]) {
        var loaded: [Line] = []
        var set: [Line] = []
        var isService = false
        for line in logicalLines(text) {
            if line.hasPrefix("[") {
                isService = line == "[Service]"
                continue
            }
            guard isService, let equals = line.firstIndex(of: "=") else { continue }
            let value = trimmed(line[line.index(after: equals)...])
            switch trimmed(line[..<equals]) {
            case "LoadCredential", "LoadCredentialEncrypted": apply(value, to: &loaded)
            case "SetCredential", "SetCredentialEncrypted": apply(value, to: &set)
            default: break
            }
        }
        return (loaded, set)
    }

    private static func apply(_ value: String, to list: inout [Line]) {
        guard !value.isEmpty else { return list.removeAll() }
        let parts = value.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        list.removeAll { $0.name == parts[0] }
        list.append((parts[0], parts.count > 1 ? parts[1] : parts[0]))
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
