internal import Vocabulary

// `where` of an integration.

extension Check {
    /// Nil where it is left out, or wrong.
    mutating func filter(of view: TableView) -> MessageFilter? {
        guard let entry = view["where"] else { return nil }
        guard let entries = entry.node.entries else {
            mismatch(entry, "where", view)
            return nil
        }
        if entries.isEmpty { report.error("`where` is empty; leave it out for all", at: entry.node.span) }
        return MessageFilter(entries.compactMap { condition($0, view) })
    }

    private mutating func condition(_ entry: TomlEntry, _ view: TableView) -> MessageFilter.Condition? {
        guard let field = MessageField(rawValue: entry.key) else {
            report.error(reason(against: entry.key, view), at: entry.keySpan)
            return nil
        }
        guard case .array(let members) = entry.node.value else {
            return pattern(entry.node, field).map { MessageFilter.Condition(field, [$0]) }
        }
        let max = ConfigurationLimits.listMembersMax
        guard (1...max).contains(members.count) else {
            report.error(
                members.isEmpty
                    ? "`\(field.rawValue)` is empty: this integration would be sent nothing"
                    : "`\(field.rawValue)` has \(members.count) members; \(max) are allowed", at: entry.node.span)
            return nil
        }
        return MessageFilter.Condition(field, members.compactMap { pattern($0, field) })
    }

    /// Why a name is none of a field, with what was most likely meant.
    private func reason(against name: String, _ view: TableView) -> String {
        let fields = MessageField.allCases.map(\.rawValue)
        let quoted = Quote.value(name)
        if name.hasPrefix("data."), let field = MessageField(rawValue: String(name.dropFirst("data.".count))) {
            return "unknown field \(quoted) in `where`; write `\(field.rawValue)`"
        }
        if MessageField.unnameable.contains(where: { name == $0 || name.hasPrefix($0 + ".") }) {
            return "\(quoted) cannot be named in `where`: only fields that are the same for all sources can"
        }
        // Also what TOML makes of a name without quotes: a table in a table.
        if let field = fields.first(where: { $0.hasPrefix(name + ".") }) {
            return "\(quoted) has fields of its own: name one of them in quotes, as in { \"\(field)\" = \"…\" }"
        }
        if let field = fields.first(where: { $0.hasSuffix("." + name) }) {
            return "unknown field \(quoted) in `where`; did you mean `\(field)`?"
        }
        let near = NearMiss.suffix(name, among: fields)
        // In TOML whatever follows the header of a table belongs to it.
        if near.isEmpty, view.table.key(name) != nil {
            return "`\(name)` is a key of `\(view.table.header)`: write it above `where`"
        }
        return "unknown field \(quoted) in `where`\(near)"
    }

    private mutating func pattern(_ node: TomlNode, _ field: MessageField) -> FieldPattern? {
        switch node.value {
        case .string(let text): return pattern(text, field, at: node.span)
        case .integer(let number) where field.isNumber: return FieldPattern(number)
        case .table, .array, .integer, .real, .boolean, .dateTime:
            let expected = field.isNumber ? "an integer, a string or an array of them" : "a string or an array of them"
            report.error("`\(field.rawValue)` must be \(expected); this is \(node.kindName)", at: node.span)
            return nil
        }
    }

    private mutating func pattern(_ text: String, _ field: MessageField, at span: Span) -> FieldPattern? {
        guard let text = plain(text, field.rawValue, at: span) else { return nil }
        guard text.value.utf8.count <= Limits.identifierBytesMax else {
            report.error("a value of `\(field.rawValue)` may have \(Limits.identifierBytesMax) bytes", at: span)
            return nil
        }
        guard let pattern = FieldPattern(text.value) else {
            report.error(
                "`\(field.rawValue)`: a backslash must be followed by `*` or by another backslash, which it makes "
                    + "ordinary characters", at: span)
            return nil
        }
        return pattern
    }
}
