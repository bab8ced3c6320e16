import Synchronization
package import Vocabulary

/// An integration with its row in the ledger. A class, because each delivery is given one, and it has many fields to
/// copy.
package final class RoutedIntegration: Sendable {
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
    /// What an integration can select a message by, beside `where`: fields of messages have too many values to remember
    /// the answers.
    private struct Selector: Hashable {
        let type: String
        let source: String
        let environment: String
    }

    /// Integrations of remembered selections, at most, and selections: the types of a vendor's own events are not
    /// bounded.
    private static let rememberedMax = 100_000
    private static let selectionsMax = 1_024

    package let all: [RoutedIntegration]
    /// Those with `order = "purchase"`.
    let ordered: [Int32]
    /// Those with `order = "none"`.
    let orderless: Set<Int32>
    /// Those with `include = ["access"]`.
    let includingAccess: Set<Int32>
    /// Of those with `confirm`.
    let confirmTimeouts: [Int32: Duration]
    private let byRow: [Int32: RoutedIntegration]
    /// Each as indexes into `all`.
    private let selections = Mutex<(known: [Selector: [Int]], remembered: Int)>(([:], 0))

    package init(_ all: [RoutedIntegration] = []) {
        self.all = all
        ordered = all.filter { $0.integration.order == .purchase }.map(\.row)
        orderless = Set(all.filter { $0.integration.order == .none }.map(\.row))
        includingAccess = Set(all.filter { $0.integration.include.contains(.access) }.map(\.row))
        confirmTimeouts = Dictionary(
            firstOf: all.compactMap { route in route.integration.confirmTimeout.map { (route.row, $0) } })
        byRow = Dictionary(firstOf: all, by: \.row)
    }

    subscript(row: Int32) -> RoutedIntegration? { byRow[row] }

    /// The integrations that a message with these fields goes to, in the order of `all`.
    func selecting(_ fields: MessageFields) -> some Sequence<RoutedIntegration> {
        let selector = Selector(
            type: fields.statement.type, source: fields.scope.source, environment: fields.scope.environment)
        let indexes = selections.withLock { $0.known[selector] } ?? select(selector)
        return indexes.lazy.map { [all] in all[$0] }
            .filter { $0.integration.admits(type: selector.type) { fields.text(of: $0) } }
    }

    private func select(_ selector: Selector) -> [Int] {
        let selected = all.indices.filter {
            all[$0].integration.selects(
                type: selector.type, source: selector.source, environment: selector.environment)
        }
        selections.withLock { selections in
            if selections.known.count >= Self.selectionsMax
                || selections.remembered + selected.count > Self.rememberedMax
            {
                selections = ([:], 0)
            }
            guard selections.known.updateValue(selected, forKey: selector) == nil else { return }
            selections.remembered += selected.count
        }
        return selected
    }
}
