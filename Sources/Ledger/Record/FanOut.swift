import Vocabulary

/// Decides which message goes to which integration, each once, and which delivery is blocked. Pure: the ordering keys
/// that have unsettled deliveries are passed in.
struct FanOut {
    struct OrderingKey: Hashable {
        var purchase: Identifier
        var integration: Int32
    }

    struct Planned {
        var message: Int
        var integration: Int32
        var purchase: Identifier?
        /// Whether its integration has `order = "purchase"`.
        var isOrdered: Bool
        /// Blocked by an unsettled delivery of its ordering key.
        var isBlocked = false

        /// Nil: it waits for none of the others.
        var orderingKey: OrderingKey? {
            isOrdered ? purchase.map { OrderingKey(purchase: $0, integration: integration) } : nil
        }
    }

    /// In the order of the messages.
    private(set) var planned: [Planned] = []

    /// Plans the deliveries of messages; `Planned.message` is an index into them.
    init(_ messages: some Sequence<MessageFields>, by routes: RouteTable) {
        for (index, fields) in messages.enumerated() {
            for route in routes.selecting(fields) {
                planned.append(
                    Planned(
                        message: index, integration: route.row, purchase: fields.subject.id,
                        isOrdered: route.integration.order == .purchase))
            }
        }
    }

    /// The ordered integrations that the messages go to.
    var orderedReceivers: Set<Int32> { Set(planned.lazy.filter(\.isOrdered).map(\.integration)) }

    /// Blocks each delivery whose ordering key has an unsettled one.
    /// - Parameter occupied: those with one in the table.
    mutating func block(occupied: some Sequence<OrderingKey>) {
        var occupied = Set(occupied)
        for index in planned.indices {
            guard let key = planned[index].orderingKey else { continue }
            planned[index].isBlocked = !occupied.insert(key).inserted
        }
    }
}
