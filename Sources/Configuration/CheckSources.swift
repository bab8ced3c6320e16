internal import Vocabulary

// `[[source]]`: who may send webhooks.

extension Check {
    /// The sources, and all names of sources in the file. An integration may name a source that has an error of its own
    /// without a second error.
    mutating func sources(_ views: [TableView]) -> (sources: [Source], names: [String]) {
        var names: [String: Span] = [:]
        var order: [String] = []
        var sources: [Source] = []
        for view in views {
            let name = name(of: view, taken: &names)
            if let name { order.append(name) }
            if let source = source(view, name: name) { sources.append(source) }
        }
        if views.isEmpty {
            report.warning("no `[[source]]`: nobody can send webhooks here", at: nil)
        }
        return (sources, order)
    }

    private mutating func source(_ view: TableView, name: String?) -> Source? {
        let kind = kind(of: view)
        let authentication = authentication(of: view, kind)
        let secrets = sharedSecrets(of: view, kind, authentication)
        let app = identifier("app", of: view)
        let environment = identifier("environment", of: view)
        if let environment { environmentIsKnown(environment) }
        let freshness = freshness(of: view, kind, authentication)
        let leeway = leeway(of: view)
        let spools = boolean("spool", of: view)
        let policy = policy(of: view, kind)
        let settings = kindSettings(of: view, kind)
        guard let name, let kind else { return nil }
        return Source(
            name: name, kind: kind, authentication: authentication, secrets: secrets, app: app?.value,
            defaultEnvironment: environment?.value, freshness: freshness, leeway: leeway,
            ownership: policy.ownership, restore: policy.restore ?? .transfer, merges: policy.merges ?? false,
            renamedEvents: policy.renamedEvents, settings: settings, spooling: spools.map { $0 ? .required : .off })
    }

    /// The secrets that both sides have.
    private mutating func sharedSecrets(
        of view: TableView, _ kind: SourceKind?, _ authentication: Source.Authentication
    ) -> [Secret] {
        if let kind, !kind.traits.hasSecrets {
            for key in ["secret", "secrets"] {
                guard let entry = view[key] else { continue }
                report.error(
                    "`\(key)` means nothing for kind `\(kind.rawValue)`, whose webhooks are signed by the store itself; "
                        + "remove it", at: entry.keySpan)
            }
            return []
        }
        let key = view["secret"] == nil ? "secrets" : "secret"
        return secretNodes(of: view, isRequired: authentication != Source.Authentication.none).compactMap { node in
            authentication == .token ? headerToken(node, key: key) : secret(node, key: key)
        }
    }

    /// A secret that is sent as the value of a header. With a line break in it every webhook would be answered 401.
    private mutating func headerToken(_ node: TomlNode, key: String) -> Secret? {
        guard let token = secret(node, key: key) else { return nil }
        guard token.withBytes(isHeaderValue) else {
            report.error(
                "`\(key)` must be 1 to \(ConfigurationLimits.headerValueBytesMax) bytes without line breaks, other "
                    + "control characters or outer blanks: a token is the value of a header", at: node.span)
            return nil
        }
        return token
    }

    /// Reads a name. A source's is part of every event key and purchase key.
    mutating func name(of view: TableView, taken: inout [String: Span]) -> String? {
        guard let name = string("name", of: view) else { return nil }
        guard ConfiguredNames.isName(name.value) else {
            report.error(
                "`name` must be 1 to \(ConfigurationLimits.nameCharactersMax) of A-Z a-z 0-9 _ . -, "
                    + "not \(Quote.value(name.value))", at: name.span)
            return nil
        }
        if let first = taken[name.value] {
            report.error(
                "another `\(view.table.header)` has the name \(Quote.value(name.value))", at: name.span,
                note: ("the first one is here", first))
            return nil
        }
        taken[name.value] = name.span
        return name.value
    }

    private mutating func kind(of view: TableView) -> SourceKind? {
        guard let text = string("kind", of: view) else { return nil }
        if let kind = SourceKind(rawValue: text.value) { return kind }
        let kinds = SourceKind.allCases.map(\.rawValue)
        report.error(
            "unknown kind \(Quote.value(text.value))\(NearMiss.hint(text.value, among: kinds))", at: text.span)
        return nil
    }

    /// Reads `leeway`, of any kind of source.
    /// - Returns: nil: as its kind has it.
    private mutating func leeway(of view: TableView) -> Leeway? {
        guard let text = string("leeway", of: view) else { return nil }
        if text.value == "off" { return .off }
        return duration(text, "leeway", view, in: ConfigurationLimits.leeway).map { Leeway($0) }
    }

    mutating func identifier(_ key: String, of view: TableView) -> Located<String>? {
        guard let text = string(key, of: view) else { return nil }
        guard text.value.utf8.count <= Limits.identifierBytesMax else {
            report.error("`\(key)` is longer than \(Limits.identifierBytesMax) bytes", at: text.span)
            return nil
        }
        return text
    }

    /// Warns of an environment that no source sends. Environments are part of every event key and purchase key and
    /// compared byte for byte: `production` is not `PRODUCTION`.
    mutating func environmentIsKnown(_ environment: Located<String>) {
        guard !Environments.known.contains(environment.value) else { return }
        let hint = NearMiss.hint(environment.value, among: Environments.known)
        report.warning("no source sends the environment \(Quote.value(environment.value))\(hint)", at: environment.span)
    }
}

/// The values that the sources send as `environment`.
enum Environments {
    static let known = [Source.usualEnvironment, "SANDBOX"]
}
