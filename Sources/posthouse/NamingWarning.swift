import Inbound
import Ledger
import Vocabulary

/// Warns of another `account_token`, `account_id` or `user_key` of a source, by which purchases have other holders.
enum NamingWarning {
    /// Sources whose key another configuration changes, one line each.
    static func lines(from old: [Source], to new: [Source]) -> [String] {
        let known = Dictionary(firstOf: old, by: \.name)
        return new.compactMap { source in
            guard let before = known[source.name], before.kind == source.kind, let was = before.settings.naming,
                let naming = source.settings.naming, !naming.value.hasSameBytes(as: was.value)
            else { return nil }
            let change = "\(naming.key) was \"\(was.value)\" and is \"\(naming.value)\""
            return "source \(source.name): \(change); \(consequence)"
        }
    }

    /// Sources whose webhooks name somebody else by this configuration than they did when they were recorded, one line
    /// each. What the configuration was then is not stored.
    static func lines(of sources: [Source], recorded: [RecordedHolder]) -> [String] {
        sources.compactMap { source in
            guard let naming = source.settings.naming else { return nil }
            let adapter = SourceAdapters.adapter(for: source.kind)
            let differs = recorded.contains { webhook in
                // A statement of the app's backend is no webhook, and cannot be read as one.
                guard webhook.source.hasSameBytes(as: source.name),
                    let event = try? adapter.normalise(
                        webhook.body, answer: webhook.answer, header: { _ in nil }, from: source),
                    let holder = event.holder
                else { return false }
                return holder != webhook.holder
            }
            guard differs else { return nil }
            let key = "\(naming.key) = \"\(naming.value)\""
            return "source \(source.name): by \(key) its newest webhooks name other users than when they were "
                + "recorded; \(consequence)"
        }
    }

    private static let consequence =
        "each purchase moves to the user named by its next webhook that gives access, and this is announced as a "
        + "transfer; restore the old value unless this is intended"
}
