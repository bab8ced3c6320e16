internal import Vocabulary

// The readers of a key's value: nil where the key is left out, and nil after an error where the value is wrong. The
// caller uses the default for either, because after an error there is no configuration.

extension Check {
    /// A text without control characters, not empty.
    mutating func string(_ key: String, of view: TableView) -> Located<String>? {
        guard let entry = view[key] else { return nil }
        guard case .string(let text) = entry.node.value else {
            mismatch(entry, key, view)
            return nil
        }
        return plain(text, key, at: entry.node.span)
    }

    mutating func strings(_ key: String, of view: TableView) -> [Located<String>]? {
        guard let members = array(key, of: view) else { return nil }
        var out: [Located<String>] = []
        for member in members {
            guard case .string(let text) = member.value else {
                report.error("`\(key)` must be \(view.expected(key)); this is \(member.kindName)", at: member.span)
                continue
            }
            if let text = plain(text, key, at: member.span) { out.append(text) }
        }
        return out
    }

    mutating func integer(_ key: String, of view: TableView, in range: ClosedRange<Int>) -> Int? {
        guard let entry = view[key] else { return nil }
        guard case .integer(let number) = entry.node.value else {
            mismatch(entry, key, view)
            return nil
        }
        guard range.contains(number) else {
            report.error(
                "`\(key)` must be from \(range.lowerBound) to \(range.upperBound), not \(number)", at: entry.node.span)
            return nil
        }
        return number
    }

    mutating func integers(_ key: String, of view: TableView, in range: ClosedRange<Int>) -> [Located<Int>]? {
        guard let members = array(key, of: view) else { return nil }
        var out: [Located<Int>] = []
        for member in members {
            if case .integer(let number) = member.value, range.contains(number) {
                out.append(Located(value: number, span: member.span))
            } else {
                report.error(
                    "`\(key)` must be \(view.expected(key)), each from \(range.lowerBound) to \(range.upperBound)",
                    at: member.span)
            }
        }
        return out
    }

    /// A float or an integer, finite.
    mutating func number(_ key: String, of view: TableView, in range: ClosedRange<Double>) -> Double? {
        guard let entry = view[key] else { return nil }
        let number: Double
        switch entry.node.value {
        case .integer(let integer): number = Double(integer)
        case .real(let real): number = real
        default:
            mismatch(entry, key, view)
            return nil
        }
        guard range.contains(number) else {
            report.error("`\(key)` must be \(view.expected(key)), not \(number)", at: entry.node.span)
            return nil
        }
        return number
    }

    mutating func boolean(_ key: String, of view: TableView) -> Bool? {
        guard let entry = view[key] else { return nil }
        guard case .boolean(let flag) = entry.node.value else {
            mismatch(entry, key, view)
            return nil
        }
        return flag
    }

    mutating func duration(_ key: String, of view: TableView, in range: ClosedRange<Duration>) -> Duration? {
        string(key, of: view).flatMap { duration($0, key, view, in: range) }
    }

    mutating func durations(_ key: String, of view: TableView, in range: ClosedRange<Duration>) -> [Duration]? {
        strings(key, of: view).map { texts in texts.compactMap { duration($0, key, view, in: range) } }
    }

    mutating func duration(
        _ text: Located<String>, _ key: String, _ view: TableView, in range: ClosedRange<Duration>
    ) -> Duration? {
        quantity(
            text, key, view, in: range, units: "ms, s, m, h and d", read: DurationText.read, write: DurationText.write)
    }

    mutating func size(_ key: String, of view: TableView, in range: ClosedRange<Int>) -> Int? {
        string(key, of: view).flatMap { text in
            quantity(
                text, key, view, in: range, units: "B, KiB, MiB and GiB", read: SizeText.read, write: SizeText.write)
        }
    }

    private mutating func quantity<Value>(
        _ text: Located<String>, _ key: String, _ view: TableView, in range: ClosedRange<Value>, units: String,
        read: (String) -> Value?, write: (Value) -> String
    ) -> Value? {
        guard let value = read(text.value) else {
            report.error(
                "`\(key)` must be \(view.expected(key)), not \(Quote.value(text.value)); the units are \(units)",
                at: text.span)
            return nil
        }
        guard range.contains(value) else {
            report.error(
                "`\(key)` must be from \(write(range.lowerBound)) to \(write(range.upperBound)), not \(write(value))",
                at: text.span)
            return nil
        }
        return value
    }

    /// One of the words that an enumeration has.
    mutating func choice<Choice: RawRepresentable & CaseIterable>(
        _ key: String, of view: TableView, as type: Choice.Type
    ) -> Located<Choice>? where Choice.RawValue == String {
        guard let text = string(key, of: view) else { return nil }
        guard let choice = Choice(rawValue: text.value) else {
            let near = NearMiss.suffix(text.value, among: Choice.allCases.map(\.rawValue))
            report.error("`\(key)` must be \(view.expected(key)), not \(Quote.value(text.value))\(near)", at: text.span)
            return nil
        }
        return Located(value: choice, span: text.span)
    }

    /// A path; a relative one counts from the directory of the configuration file.
    mutating func path(_ key: String, of view: TableView) -> Located<String>? {
        string(key, of: view).map { Located(value: secrets.path($0.value), span: $0.span) }
    }

    /// Warns of a host that the egress guard refuses.
    /// - Parameter effect: what that means for the key.
    mutating func warnOfRefusedHost(_ url: EndpointURL, allowsPrivate: Bool, _ effect: String, at span: Span) {
        let host = Quote.value(url.host)
        switch url.verdict {
        case .private where !allowsPrivate:
            report.warning("\(host) is inside: \(effect) unless `allow_private = true`", at: span)
        case .impossible(let what): report.warning("\(host) is \(what): no server can be there", at: span)
        case .private, .allowed: break
        }
    }

    private mutating func array(_ key: String, of view: TableView) -> [TomlNode]? {
        guard let entry = view[key] else { return nil }
        guard case .array(let members) = entry.node.value else {
            mismatch(entry, key, view)
            return nil
        }
        guard members.count <= ConfigurationLimits.listMembersMax else {
            report.error(
                "`\(key)` has \(members.count) members; \(ConfigurationLimits.listMembersMax) are allowed",
                at: entry.node.span)
            return nil
        }
        return members
    }

    /// - Parameter remark: goes on after "is empty".
    mutating func isNotEmpty(_ key: String, of view: TableView, _ remark: String) {
        if let entry = view[key], case .array(let members) = entry.node.value, members.isEmpty {
            report.error("`\(key)` is empty\(remark)", at: entry.node.span)
        }
    }

    mutating func plain(_ text: String, _ key: String, at span: Span) -> Located<String>? {
        guard !text.isEmpty else {
            report.error("`\(key)` must not be empty", at: span)
            return nil
        }
        guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }) else {
            report.error("`\(key)` must not hold control characters", at: span)
            return nil
        }
        return Located(value: text, span: span)
    }

    mutating func mismatch(_ entry: TomlEntry, _ key: String, _ view: TableView) {
        report.error("`\(key)` must be \(view.expected(key)), not \(entry.node.kindName)", at: entry.node.span)
    }
}
