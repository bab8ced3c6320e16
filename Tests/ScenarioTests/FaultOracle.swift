import Foundation

/// What a receiver got, seen from outside: by `webhook-id`, `data.event_id` and the order of arrival alone.
struct FaultReceipts {
    /// Requests under one `webhook-id`.
    struct Message {
        var type = ""
        var purchase = ""
        var eventID = ""
        /// Numbers of the requests, by the receiver's count.
        var arrivals: [Int] = []
        var acceptances: [Int] = []
    }

    private(set) var messages: [String: Message] = [:]
    private(set) var unverified = 0
    /// A `webhook-id` that came with two bodies.
    private(set) var changedBodies = 0

    init(_ receiver: Receiver) { self.init(receiver.received) }

    init(_ received: [Received]) {
        var bodies: [String: [UInt8]] = [:]
        for request in received {
            if !request.isVerified { unverified += 1 }
            if bodies[request.id] == nil {
                bodies[request.id] = request.body
                let data = request.data
                messages[request.id] = Message(
                    type: request.type, purchase: (data["purchase"] as? [String: Any])?["key"] as? String ?? "",
                    eventID: data["event_id"] as? String ?? "")
            } else if bodies[request.id] != request.body {
                changedBodies += 1
            }
            messages[request.id]?.arrivals.append(request.number)
            if request.isAccepted { messages[request.id]?.acceptances.append(request.number) }
        }
    }

    /// Acceptances beyond the first of each message: the duplicates that the receiver has to bear.
    var duplicates: Int { messages.values.reduce(0) { $0 + max(0, $1.acceptances.count - 1) } }

    /// The same of one load's purchases alone.
    func duplicates(of load: FaultLoad.Tally) -> Int {
        let keys = Set(load.purchases.map(\.key))
        return messages.values.reduce(0) { $0 + (keys.contains($1.purchase) ? max(0, $1.acceptances.count - 1) : 0) }
    }

    /// Event ids of `load` that were never accepted.
    func missing(of load: FaultLoad.Tally) -> [String] {
        let accepted = Set(messages.values.filter { !$0.acceptances.isEmpty }.map(\.eventID))
        return load.acknowledged.subtracting(accepted).sorted()
    }

    /// Purchases of `load` that were not announced by exactly their webhooks and one transfer, each under one id.
    func misannounced(of load: FaultLoad.Tally) -> [String] {
        let byPurchase = Dictionary(grouping: messages.values, by: \.purchase)
        return load.purchases.filter { purchase in
            let reported = (byPurchase[purchase.key] ?? []).filter { !$0.acceptances.isEmpty }
            let expected = purchase.webhooks.map(\.name) + ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"]
            return reported.map(\.type).sorted() != expected.sorted()
                || Set(reported.map(\.eventID)).count != FaultPurchase.messagesEach
        }.map(\.key)
    }

    /// Webhooks that arrived before the one before them, of the same purchase, was accepted.
    func outOfOrder(of load: FaultLoad.Tally) -> [String] {
        let byEvent = Dictionary(messages.values.map { ($0.eventID, $0) }, uniquingKeysWith: { first, _ in first })
        return load.purchases.flatMap { purchase -> [String] in
            let reported = purchase.webhooks.compactMap { byEvent[$0.eventID ?? ""] }
            return zip(reported, reported.dropFirst()).compactMap { before, after in
                guard let accepted = before.acceptances.first, let arrived = after.arrivals.first else { return nil }
                return arrived < accepted ? after.eventID : nil
            }
        }
    }
}

extension Database {
    /// Event ids that the ledger holds another number of times than once, of those acknowledged.
    func notOnce(_ load: FaultLoad.Tally) throws -> [String] {
        var counts: [String: Int] = [:]
        for row in try rows("SELECT vendor_event_id, count(*) FROM events GROUP BY 1") { counts[row[0]] = Int(row[1]) }
        return load.acknowledged.filter { counts[$0] != 1 }.sorted()
    }

    /// Purchases whose user has no access, or whose former holder still has it.
    func wrongHolders(_ load: FaultLoad.Tally) throws -> [String] {
        let access = try access()
        return load.purchases.filter { purchase in
            let holders = access[purchase.key] ?? [:]
            return holders.values.filter(\.self).count != 1 || holders.count != 2
                || holders.first(where: \.value)?.key.contains(purchase.user) != true
        }.map(\.key)
    }

    /// Leases and registrations that a daemon left behind.
    func leftBehind() throws -> Int { try count("daemons") + count("deliveries", where: "leased_by IS NOT NULL") }
}
