internal import Vocabulary

// `where` of an integration.

extension Check {
    /// Nil where it is left out, or wrong. Warns of what lets no message through.
    /// - Parameter known: the values that fields of messages for this integration can have; a field that is not there
    ///   can have others.
    mutating func filter(of view: TableView, among known: [MessageField: [String]]) -> MessageFilter? {
        guard let entry = view["where"] else { return nil }
        guard let entries = entry.node.entries else {
            mismatch(entry, "where", view)
            return nil
        }
        if entries.isEmpty { report.error("`where` is empty; leave it out for all", at: entry.node.span) }
        for (one, other) in MessageField.exclusive {
            guard let second = entries.last(where: { $0.key == one.rawValue || $0.key == other.rawValue }),
                Set(entries.map(\.key)).isSuperset(of: [one.rawValue, other.rawValue])
            else { continue }
            report.warning(
                "no message has both `\(one.rawValue)` and `\(other.rawValue)`: this integration would be sent nothing",
                at: second.keySpan)
        }
        return MessageFilter(entries.compactMap { condition($0, view, among: known) })
    }

    private mutating func condition(
        _ entry: TomlEntry, _ view: TableView, among known: [MessageField: [String]]
    ) -> MessageFilter.Condition? {
        guard let field = MessageField(rawValue: entry.key) else {
            report.error(reason(against: entry.key, view), at: entry.keySpan)
            return nil
        }
        guard case .array(let members) = entry.node.value else {
            return pattern(entry.node, field, among: known[field]).map { MessageFilter.Condition(field, [$0]) }
        }
        let max = ConfigurationLimits.listMembersMax
        guard (1...max).contains(members.count) else {
            report.error(
                members.isEmpty
                    ? "`\(field.rawValue)` is empty: this integration would be sent nothing"
                    : "`\(field.rawValue)` has \(members.count) members; \(max) are allowed", at: entry.node.span)
            return nil
        }
        return MessageFilter.Condition(field, members.compactMap { pattern($0, field, among: known[field]) })
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

    private mutating func pattern(
        _ node: TomlNode, _ field: MessageField, among known: [String]?
    ) -> FieldPattern? {
        switch node.value {
        case .string(let text):
            let pattern = pattern(text, field, at: node.span)
            if let pattern { canMatch(pattern, text, field, among: known, at: node.span) }
            return pattern
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

    /// Warns of a value that no message has. Nothing is known of an integration whose `events` choose only types that
    /// this version does not know.
    private mutating func canMatch(
        _ pattern: FieldPattern, _ text: String, _ field: MessageField, among known: [String]?, at span: Span
    ) {
        let unsigned = text.hasPrefix("-") ? text.dropFirst() : text[...]
        if field.isNumber, !unsigned.allSatisfy({ "0123456789*".contains($0) }) {
            report.warning("\(Quote.value(text)) matches no number, and `\(field.rawValue)` is one", at: span)
        }
        if field == .store { warnOfSpelling(ofStore: text, at: span) }
        guard let known, !known.isEmpty, !known.contains(where: pattern.matches) else { return }
        // A platform may send others of these, which are passed on.
        let isOpen = [.type, .status, .offerType].contains(field)
        let areFew = [.status, .offerType].contains(field)
        report.warning(
            "\(Quote.value(text)) matches no `\(field.rawValue)` of a message for this integration"
                + (isOpen ? " that this version knows" : "")
                + (areFew ? NearMiss.hint(text, among: known) : NearMiss.suffix(text, among: known)), at: span)
    }

    /// Warns of a store in a spelling that messages do not have.
    private mutating func warnOfSpelling(ofStore text: String, at span: Span) {
        let store = SharedVocabulary.store(text)
        guard store != text else { return }
        let instead =
            SharedVocabulary.stores.contains(store)
            ? "; did you mean `\(store)`?" : "; stores are written in capital letters"
        report.warning("\(Quote.value(text)) matches no `purchase.store` of a message\(instead)", at: span)
    }
}
