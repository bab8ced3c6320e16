package import Vocabulary

/// The rules that recording needs for a source, independent of its kind. Whether its events, or what the app's backend
/// says about it, can concern a holder as a whole is not among them: daemons with different tokens, and the same daemon
/// after a token was removed, must find the same stored changes.
package struct SourceRules: Sendable {
    package let shape: any SourceShape
    package let ownership: Ownership
    /// Whether its events may name no account (`SourceTraits.mayLackName`).
    package let mayLackName: Bool
    /// What messages say of access goes by it; nothing that is stored does.
    package let leeway: Leeway

    package init(
        shape: any SourceShape, ownership: Ownership = .exclusive, mayLackName: Bool = false, leeway: Leeway = .off
    ) {
        self.shape = shape
        self.ownership = ownership
        self.mayLackName = mayLackName
        self.leeway = leeway
    }
}

/// The rules of all sources, by name: read by every batch.
package typealias SourceRuleBook = Replaceable<[String: SourceRules]>
