import Synchronization
package import Vocabulary

/// The rules that recording needs for a source, independent of its kind. Whether its events, or what the app's backend
/// says about it, can concern a holder as a whole is not among them: daemons with different tokens, and the same daemon
/// after a token was removed, must find the same stored changes.
package struct SourceRules: Sendable {
    package let shape: any SourceShape
    package let ownership: Ownership

    package init(shape: any SourceShape, ownership: Ownership = .exclusive) {
        self.shape = shape
        self.ownership = ownership
    }
}

/// The rules of all sources, by name: read by every batch.
package final class SourceRuleBook: Sendable {
    private let rules: Mutex<[String: SourceRules]>

    package init(_ rules: [String: SourceRules]) { self.rules = Mutex(rules) }

    var current: [String: SourceRules] { rules.withLock { $0 } }

    /// Adds and replaces rules. A source that was removed keeps its rules: some of its webhooks may still be on their
    /// way into the ledger.
    package func learn(_ new: [String: SourceRules]) {
        rules.withLock { $0.merge(new) { _, new in new } }
    }
}
