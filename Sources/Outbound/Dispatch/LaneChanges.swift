package import Ledger
import Vocabulary

/// What a new set of integrations means for the lanes that run. Decided here, done by `Lanes`.
package struct LaneChanges: Sendable {
    package var added: [RoutedIntegration] = []
    /// As they will be.
    package var changed: [RoutedIntegration] = []
    package var removed: [RoutedIntegration] = []

    /// A lane is left alone where its integration is as it was, and says all that there is to say of it: a file that it
    /// names may hold something else by now. Rows tell integrations apart: one that was renamed is another.
    package static func between(present: [RoutedIntegration], wanted: [RoutedIntegration]) -> LaneChanges {
        let former = Dictionary(present.map { ($0.row, $0.integration) }, uniquingKeysWith: { first, _ in first })
        let kept = Set(wanted.map(\.row))
        var changes = LaneChanges()
        for route in wanted {
            guard let former = former[route.row] else {
                changes.added.append(route)
                continue
            }
            if former != route.integration || route.integration.certificateAuthorityFile != nil {
                changes.changed.append(route)
            }
        }
        changes.removed = present.filter { !kept.contains($0.row) }
        return changes
    }
}
