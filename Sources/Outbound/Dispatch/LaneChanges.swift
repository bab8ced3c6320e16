package import Ledger
import Vocabulary

/// The difference between a new set of integrations and the lanes that run; `Lanes` applies it.
package struct LaneChanges: Sendable {
    package var added: [RoutedIntegration] = []
    /// With their new settings.
    package var changed: [RoutedIntegration] = []
    package var removed: [RoutedIntegration] = []

    /// A lane is left alone if its integration is unchanged and names no file, because the content of a file may have
    /// changed. Integrations are identified by row: one that was renamed is another.
    package static func between(present: [RoutedIntegration], wanted: [RoutedIntegration]) -> LaneChanges {
        let former = Dictionary(firstOf: present.map { ($0.row, $0.integration) })
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
