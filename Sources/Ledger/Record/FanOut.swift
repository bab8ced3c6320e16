package import Vocabulary

/// An integration as the ledger knows it: its row and what it asks for.
package struct RoutedIntegration: Sendable {
    /// Row of `integrations`.
    package let row: Int32
    package let integration: Integration

    package init(row: Int32, integration: Integration) {
        self.row = row
        self.integration = integration
    }
}

/// Which message goes where, and what waits behind what. Pure: the rows that are already waiting are passed in.
struct FanOut {
    struct Lane: Hashable {
        var purchase: Identifier
        var integration: Int32
    }

    struct Planned {
        var message: Int
        var integration: Int32
        var purchase: Identifier?
        /// Behind an unsettled delivery of its purchase.
        var isBlocked: Bool
    }

    let routes: [RoutedIntegration]
    /// Lanes with an unsettled delivery, in the table or planned by this batch.
    private var occupied: Set<Lane>

    init(routes: [RoutedIntegration], occupied: Set<Lane>) {
        self.routes = routes
        self.occupied = occupied
    }

    /// The deliveries of one message, `message` being its index in the batch.
    mutating func plan(message: Int, type: String, scope: Scope, purchase: Identifier?) -> [Planned] {
        var planned: [Planned] = []
        for route in routes
        where route.integration.wants(type: type, source: scope.source, environment: scope.environment) {
            var isBlocked = false
            if route.integration.order == .purchase, let purchase {
                isBlocked = !occupied.insert(Lane(purchase: purchase, integration: route.row)).inserted
            }
            planned.append(
                Planned(message: message, integration: route.row, purchase: purchase, isBlocked: isBlocked))
        }
        return planned
    }
}
