import Vocabulary

/// Decides which message goes to which integration, and which delivery is blocked. Pure: the ordering keys that have
/// unsettled deliveries are passed in.
struct FanOut {
    struct OrderingKey: Hashable {
        var purchase: Identifier
        var integration: Int32
    }

    struct Planned {
        var message: Int
        var integration: Int32
        var purchase: Identifier?
        /// Blocked by an unsettled delivery of its ordering key.
        var isBlocked: Bool
    }

    let routes: RouteTable
    /// Ordering keys with an unsettled delivery, in the table or planned by this batch.
    private var occupied: Set<OrderingKey>

    init(routes: RouteTable, occupied: Set<OrderingKey>) {
        self.routes = routes
        self.occupied = occupied
    }

    /// Plans the deliveries of one message; `message` is its index in the batch.
    mutating func plan(message: Int, _ fields: MessageFields) -> [Planned] {
        let purchase = fields.subject.id
        var planned: [Planned] = []
        for route in routes.selecting(fields) {
            var isBlocked = false
            if route.integration.order == .purchase, let purchase {
                isBlocked = !occupied.insert(OrderingKey(purchase: purchase, integration: route.row)).inserted
            }
            planned.append(
                Planned(message: message, integration: route.row, purchase: purchase, isBlocked: isBlocked))
        }
        return planned
    }
}
