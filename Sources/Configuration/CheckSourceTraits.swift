internal import Vocabulary

// Checks the keys of `[[source]]` that depend on its kind, by the table `SourceKind.traits`. Where the kind itself is
// wrong, a key is checked for its form only.

extension Check {
    /// The settings of a source besides its authentication.
    struct SourcePolicy {
        let ownership: Ownership?
        let restore: RestoreStrategy?
        let merges: Bool?
        let renamedEvents: [String: String]
    }

    mutating func policy(of view: TableView, _ kind: SourceKind?) -> SourcePolicy {
        let restore = choice("restore", of: view, as: RestoreStrategy.self)?.value
        let policy = SourcePolicy(
            ownership: ownership(of: view, kind), restore: restore, merges: boolean("merge", of: view),
            renamedEvents: eventNames(of: view))
        hasMeaning("merge", of: view, kind) { $0.merges }
        hasMeaning("event_names", of: view, kind) { $0.renamesEvents }
        if hasMeaning("restore", of: view, kind, where: { $0.restores }), policy.ownership == .exclusive,
            let entry = view["restore"]
        {
            report.error(
                "`restore` means nothing with `ownership = \"exclusive\"`, where a purchase has one holder; remove it",
                at: entry.keySpan)
        }
        return policy
    }

    /// Reads `auth`. `none` must be written out, and gives a warning.
    mutating func authentication(of view: TableView, _ kind: SourceKind?) -> Source.Authentication {
        let usual = kind?.traits.authentications.first ?? .signature
        guard let choice = choice("auth", of: view, as: Source.Authentication.self) else { return usual }
        if let kind, !kind.traits.authentications.contains(choice.value) {
            notOfKind("auth", choice, kind, kind.traits.authentications)
            return usual
        }
        if choice.value == .none {
            report.warning("`auth = \"none\"`: anyone who reaches this source can grant purchases", at: choice.span)
        }
        return choice.value
    }

    /// Reads `freshness`. A token carries no time: only a signature says when the webhook was signed.
    mutating func freshness(
        of view: TableView, _ kind: SourceKind?, _ authentication: Source.Authentication
    ) -> Duration? {
        guard hasMeaning("freshness", of: view, kind, where: { $0.hasSecrets }) else { return nil }
        guard view["freshness"] != nil else { return authentication == .signature ? kind?.traits.freshness : nil }
        guard let text = string("freshness", of: view), text.value != "off" else { return nil }
        let freshness = duration(text, "freshness", view, in: ConfigurationLimits.freshness)
        if freshness != nil, authentication == .token {
            report.error(
                "`freshness` means nothing with `auth = \"token\"`: such a webhook does not say when it was signed; "
                    + "remove it",
                at: text.span)
        }
        return freshness
    }

    private mutating func ownership(of view: TableView, _ kind: SourceKind?) -> Ownership? {
        guard let choice = choice("ownership", of: view, as: Ownership.self) else { return nil }
        if let kind, !kind.traits.ownerships.contains(choice.value) {
            notOfKind("ownership", choice, kind, kind.traits.ownerships)
            return nil
        }
        return choice.value
    }

    private mutating func notOfKind<Choice: RawRepresentable>(
        _ key: String, _ choice: Located<Choice>, _ kind: SourceKind, _ allowed: [Choice]
    ) where Choice.RawValue == String {
        let words = allowed.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")
        report.error(
            "`\(key)` of kind `\(kind.rawValue)` must be \(words), not \"\(choice.value.rawValue)\"", at: choice.span)
    }

    /// False, and an error, for a key that is there and means nothing for this kind.
    @discardableResult
    mutating func hasMeaning(
        _ key: String, of view: TableView, _ kind: SourceKind?, where means: (SourceTraits) -> Bool
    ) -> Bool {
        guard let entry = view[key], let kind, !means(kind.traits) else { return true }
        let kinds = SourceKind.allCases.filter { means($0.traits) }.map { "`\($0.rawValue)`" }
        let others = kinds.count > 2 ? kinds.dropLast().joined(separator: ", ") + " and " + (kinds.last ?? "") : ""
        let only = others.isEmpty ? kinds.joined(separator: " and ") : others
        report.error(
            "`\(key)` means nothing for kind `\(kind.rawValue)`, only for \(only); remove it", at: entry.keySpan)
        return false
    }

    /// Maps each name that the vendor was configured to send to its default one.
    private mutating func eventNames(of view: TableView) -> [String: String] {
        guard let entry = view["event_names"] else { return [:] }
        guard let entries = entry.node.entries else {
            mismatch(entry, "event_names", view)
            return [:]
        }
        guard entries.count <= ConfigurationLimits.listMembersMax else {
            report.error(
                "`event_names` has \(entries.count) names; \(ConfigurationLimits.listMembersMax) are allowed",
                at: entry.keySpan)
            return [:]
        }
        var names: [String: String] = [:]
        for name in entries {
            // In TOML whatever follows the header of a table belongs to it.
            if view.table.key(name.key) != nil {
                report.error(
                    "`\(name.key)` is a key of `\(view.table.header)`: write it above `event_names`", at: name.keySpan)
            } else if let sent = eventName(name.key, at: name.keySpan), let usual = usualName(of: name, view) {
                names[sent] = usual
            }
        }
        return names
    }

    private mutating func usualName(of entry: TomlEntry, _ view: TableView) -> String? {
        guard case .string(let text) = entry.node.value else {
            report.error(
                "`event_names` must be \(view.expected("event_names")); this is \(entry.node.kindName)",
                at: entry.node.span)
            return nil
        }
        return eventName(text, at: entry.node.span)
    }

    private mutating func eventName(_ text: String, at span: Span) -> String? {
        guard let name = plain(text, "event_names", at: span) else { return nil }
        guard text.utf8.count <= Limits.identifierBytesMax else {
            report.error("an event name may have \(Limits.identifierBytesMax) bytes", at: span)
            return nil
        }
        return name.value
    }
}
