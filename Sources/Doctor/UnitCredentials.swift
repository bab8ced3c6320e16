/// One credential that a unit hands to its service.
package struct UnitCredential: Sendable, Hashable {
    package let name: String
    /// The file that it is read from; nil: its value is in the unit itself, or systemd finds it by its name.
    package let path: String?

    package init(name: String, path: String?) {
        self.name = name
        self.path = path
    }

    /// Reads the files of a unit as `systemctl cat` prints them, the drop-ins after it: `LoadCredential=`,
    /// `SetCredential=` and their encrypted forms in `[Service]`. As in systemd an empty value takes back what came
    /// before it, the last line of a name counts, and a line may go on in the next one (systemd.syntax(7)). The value
    /// of `SetCredential=` is dropped.
    ///
    /// Not `systemctl show -p LoadCredential`: systemd 252 prints `[unprintable]`.
    package static func read(_ text: String) -> [UnitCredential] {
        var loaded: [UnitCredential] = []
        var set: [UnitCredential] = []
        var isService = false
        for line in logicalLines(text) {
            if line.hasPrefix("[") {
                isService = line == "[Service]"
                continue
            }
            guard isService, let equals = line.firstIndex(of: "=") else { continue }
            let key = trimmed(line[..<equals])
            let value = trimmed(line[line.index(after: equals)...])
            switch key {
            case "LoadCredential", "LoadCredentialEncrypted": apply(value, to: &loaded, keepsPath: true)
            case "SetCredential", "SetCredentialEncrypted": apply(value, to: &set, keepsPath: false)
            default: break
            }
        }
        return loaded + set.filter { one in !loaded.contains { $0.name == one.name } }
    }

    private static func apply(_ value: String, to list: inout [UnitCredential], keepsPath: Bool) {
        guard !value.isEmpty else { return list.removeAll() }
        let parts = value.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let path = keepsPath && parts.count == 2 && parts[1].hasPrefix("/") ? parts[1] : nil
        list.removeAll { $0.name == parts[0] }
        list.append(UnitCredential(name: parts[0], path: path))
    }

    /// Lines without comments, each joined with those that it goes on in.
    private static func logicalLines(_ text: String) -> [String] {
        var lines: [String] = []
        var begun = ""
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let line = trimmed(line)
            // A comment in the middle of a long line does not end it.
            if line.hasPrefix("#") || line.hasPrefix(";") { continue }
            if line.hasSuffix("\\") {
                begun += String(line.dropLast()) + " "
            } else {
                lines.append(begun + line)
                begun = ""
            }
        }
        return begun.isEmpty ? lines : lines + [begun]
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        var text = String(text)[...]
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" || last == "\r" { text.removeLast() }
        return String(text)
    }
}
