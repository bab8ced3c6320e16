import Synchronization
package import Vocabulary

/// An integration with its row in the ledger.
package struct RoutedIntegration: Sendable {
    /// Row of `integrations`.
    package let row: Int32
    package let integration: Integration

    package init(row: Int32, integration: Integration) {
        self.row = row
        self.integration = integration
    }
}

/// The integrations that new messages go to, with the answers that every batch needs worked out once: a batch costs the
/// same with three integrations and with ten thousand.
package final class RouteTable: Sendable {
    /// What an integration can select a message by.
    private struct Selector: Hashable {
        let type: String
        let source: String
        let environment: String
    }

    /// Selections that are remembered, at most: the types of a vendor's own events are not bounded.
    private static let selectionsMax = 1_024

    package let all: [RoutedIntegration]
    /// Those with `order = "purchase"`.
    let ordered: [Int32]
    /// Those with `order = "none"`.
    let orderless: Set<Int32>
    /// Of those with `confirm`.
    let confirmTimeouts: [Int32: Duration]
    private let byRow: [Int32: RoutedIntegration]
    private let selections = Mutex<[Selector: [RoutedIntegration]]>([:])

    package init(_ all: [RoutedIntegration] = []) {
        self.all = all
        ordered = all.filter { $0.integration.order == .purchase }.map(\.row)
        orderless = Set(all.filter { $0.integration.order == .none }.map(\.row))
        confirmTimeouts = Dictionary(
            firstOf: all.compactMap { route in route.integration.confirmTimeout.map { (route.row, $0) } })
        byRow = Dictionary(firstOf: all, by: \.row)
    }

    subscript(row: Int32) -> RoutedIntegration? { byRow[row] }

    /// The integrations that a message of this type, source and environment goes to, in the order of `all`.
    func selecting(type: String, scope: Scope) -> [RoutedIntegration] {
        let selector = Selector(type: type, source: scope.source, environment: scope.environment)
        if let known = selections.withLock({ $0[selector] }) { return known }
        let found = all.filter {
            $0.integration.selects(type: type, source: scope.source, environment: scope.environment)
        }
        selections.withLock { known in
            if known.count >= Self.selectionsMax { known.removeAll() }
            known[selector] = found
        }
        return found
    }
}
