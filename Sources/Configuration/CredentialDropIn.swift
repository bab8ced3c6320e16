/// The drop-in in which `posthouse secret add` names the credentials of the daemon.
package enum CredentialDropIn {
    package enum Decision: Sendable, Hashable {
        /// The unit has the line already, or the drop-in does.
        case present
        /// The unit takes the credential from another path; nothing is changed.
        case elsewhere(path: String)
        /// The unit takes it from a file that systemd decrypts; nothing is changed.
        case encrypted(line: String)
        /// The drop-in gets these bytes: its own, and the line behind them.
        case write([UInt8])
    }

    private static let head = """
        # By posthouse secret add: each line hands a secret to the daemon. More lines may be added by hand.
        [Service]

        """

    /// - Parameters:
    ///   - unit: the unit as systemd has it: its files in the order of `systemctl cat`.
    ///   - dropIn: the bytes of the drop-in, which systemd may not have read yet; nil: there is none.
    package static func decide(name: String, path: String, unit: String, dropIn: [UInt8]?) -> Decision {
        let own = dropIn.map { String(decoding: $0, as: UTF8.self) } ?? ""
        if let known = UnitCredentials.loaded(in: unit)[name] ?? UnitCredentials.loaded(in: own)[name] {
            if known.isEncrypted { return .encrypted(line: known.line) }
            return known.source == path ? .present : .elsewhere(path: known.source)
        }
        let line = Array("LoadCredential=\(name):\(path)\n".utf8)
        guard let dropIn, !dropIn.isEmpty else { return .write(Array(head.utf8) + line) }
        return .write(dropIn + joint(behind: own) + line)
    }

    /// What the new line needs before it: the end of the last line, and a header unless the last one is `[Service]`.
    private static func joint(behind text: String) -> [UInt8] {
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map(String.init)
        let last = lines.last ?? ""
        var joint = last.isEmpty ? "" : "\n"
        // An empty line ends a line that a backslash continues.
        if let end = lines.last(where: { !$0.isEmpty }), UnitCredentials.endsInBackslash(end) { joint += "\n" }
        let header = lines.last { line in
            let words = line.drop { $0 == " " || $0 == "\t" }
            return words.hasPrefix("[")
        }
        if header.map(isService) != true { joint += "\n[Service]\n" }
        return Array(joint.utf8)
    }

    private static func isService(_ header: String) -> Bool {
        header.split(whereSeparator: { $0 == " " || $0 == "\t" }).joined(separator: " ") == "[Service]"
    }
}
