internal import Crypto
internal import Vocabulary

extension Configuration {
    /// What the names of integrations begin with in `digests`.
    package static let integrationPrefix = "integration "
    /// What the names of sources begin with in `digests`.
    package static let sourcePrefix = "source "

    /// What the daemons of one ledger must have alike, because it decides which webhooks are recorded and how, which
    /// messages are made of them, and what the API says of offers: a digest of 16 hex digits for each section
    /// (`integration crm`, `source shop`, `subscription group premium`). No secret goes into it, nor what may hold one:
    /// of a url the origin alone, and nothing of API tokens. What only this daemon does by it (limits, times, what
    /// proves a source) may differ between daemons.
    package var digests: [String: String] {
        let ofIntegrations = integrations.map { (Self.integrationPrefix + $0.name, SectionDigest.of($0)) }
        let ofSources = sources.map { (Self.sourcePrefix + $0.name, SectionDigest.of($0)) }
        let ofGroups = subscriptionGroups.map { ("subscription group " + $0.name, SectionDigest.of($0)) }
        return Dictionary(firstOf: ofIntegrations + ofSources + ofGroups)
    }
}

/// Digests of sections, by their keys. The order of values, and one that is there twice, changes nothing.
private enum SectionDigest {
    static func of(_ integration: Integration) -> String {
        var values: [String: [String]] = [
            "url": [(integration.url.isTLS ? "https://" : "http://") + integration.url.authority],
            "events": integration.events.map(\.pattern),
            "environments": integration.environments,
            "sources": integration.sources,
            "format": [integration.format.rawValue],
            "include": integration.include.map(\.rawValue),
            "order": [integration.order.rawValue],
            "confirm": [integration.confirmTimeout == nil ? "false" : "true"],
        ]
        for condition in integration.filter?.conditions ?? [] {
            values["where " + condition.field.rawValue] = condition.patterns.map(\.text)
        }
        return digest(values)
    }

    static func of(_ source: Source) -> String {
        var values: [String: [String]] = [
            "kind": [source.kind.rawValue],
            "app": source.app.map { [$0] } ?? [],
            "environment": [source.defaultEnvironment],
            "ownership": [source.ownership.rawValue],
            "restore": [source.restore.rawValue],
            "merge": [source.merges ? "true" : "false"],
            "leeway": [source.leeway.milliseconds.map { "\($0) ms" } ?? "off"],
        ]
        for (own, usual) in source.renamedEvents { values["event_names " + own] = [usual] }
        for (key, own) in source.settings.recording { values[key] = own }
        return digest(values)
    }

    static func of(_ group: SubscriptionGroup) -> String { digest(["products": group.products]) }

    /// Each word behind its length, so that no two sections are written alike.
    private static func digest(_ values: [String: [String]]) -> String {
        var text = ""
        for (key, words) in values.sorted(by: { $0.key < $1.key }) {
            for word in [key] + Set(words).sorted() { text += "\(word.utf8.count):\(word)" }
            text += "\n"
        }
        return Identifier.hex(of: SHA256.hash(data: Array(text.utf8)).prefix(8))
    }
}
