internal import HTTPServer
internal import JSONText
internal import Ledger
internal import Vocabulary

/// Entitlements, history, transfers and identities, as pages from the ledger.
extension Backend {
    func readEntitlements(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let request = try request(call)
        let isActive = try request.parameters.isActive
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.entitlements(
                of: request.subject, in: request.scope, isActive: isActive, after: request.cursor, limit: request.limit)
        }
        return .page(page) { $1.write($0) }
    }

    func readHistory(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let request = try request(call)
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.history(
                of: request.subject, in: request.scope, after: request.cursor, limit: request.limit)
        }
        return .page(page) { $1.write($0) }
    }

    func readTransfers(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let request = try request(call)
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.transfers(
                of: request.subject, in: request.scope, after: request.cursor, limit: request.limit)
        }
        return .page(page) { $1.write($0) }
    }

    func readIdentities(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let request = try request(call)
        guard case .holder(let holder) = request.subject else {
            throw .parameter("exactly one of user_id, anonymous_user_id is needed")
        }
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.identities(of: holder, in: request.scope, after: request.cursor, limit: request.limit)
        }
        return .page(page) { $1.write($0) }
    }

    /// The common parameters of the four, read before a turn is taken at the gate.
    private func request(_ call: Call) throws(APIFailure) -> HolderRequest {
        let parameters = try call.parameters()
        return HolderRequest(
            parameters: parameters, subject: try parameters.subject(of: call.operation),
            scope: try scope(parameters, call), cursor: try parameters.cursor, limit: try parameters.limit)
    }
}

/// The common parameters: subject, scope and first entry.
private struct HolderRequest: Sendable {
    let parameters: Parameters
    let subject: LookupSubject
    let scope: LookupScope
    let cursor: LookupCursor?
    let limit: Int
}

extension HTTPAnswer {
    /// `{"data": […], "next": …}`.
    static func page<Entry>(
        _ page: LookupPage<Entry>, _ write: (Entry, inout JSONWriter) -> Void
    ) -> HTTPAnswer {
        var json = JSONWriter(reservingCapacity: 64 + page.entries.count * 512)
        json.object { json in
            json.key("data")
            json.array { json in
                for entry in page.entries { write(entry, &json) }
            }
            json.member("next", page.next?.written)
        }
        return .json(200, json.bytes)
    }
}

extension JSONWriter {
    mutating func write(_ held: HeldPurchase) {
        let transaction = held.newestTransaction
        object { json in
            json.member("product", held.purchase.product)
            json.member("plan", held.purchase.plan)
            json.member("active", held.isActive)
            json.member("source", held.scope.source)
            json.member("environment", held.scope.environment)
            json.member("holder", held.holder)
            json.member("as_of", held.asOf)
            json.member("app", held.scope.app)
            json.member("store", held.purchase.store)
            json.member("purchase", held.purchase.key)
            json.member("kind", held.purchase.kind.rawValue)
            json.member("subscription_id", held.purchase.subscriptionID)
            json.member("expires_at", transaction?.effectiveNextRenewalAt)
            json.member("status", transaction?.status)
            json.member("offer_type", transaction?.offerType)
            json.member("store_transaction_id", transaction?.storeTransactionID)
            json.key("cause")
            guard let cause = held.cause else { return json.null() }
            json.object { json in
                json.member("event_id", cause.eventID)
                json.member("event_name", cause.name)
                json.member("type", cause.type)
            }
        }
    }

    mutating func write(_ event: PastEvent) {
        object { json in
            json.member("event_id", event.eventID)
            json.member("event_name", event.name)
            json.member("type", event.type)
            json.member("source", event.scope.source)
            json.member("environment", event.scope.environment)
            json.member("app", event.scope.app)
            json.member("holder", event.holder)
            json.member("occurred_at", event.occurredAt)
            json.member("received_at", event.receivedAt)
            json.member("purchase", event.purchase)
            json.member("product", event.product)
            json.member("store_transaction_id", event.storeTransactionID)
            json.key("transfers")
            json.array { json in
                for transfer in event.transfers { json.write(transfer) }
            }
        }
    }

    mutating func write(_ transfer: PassedPurchase) {
        object { json in
            json.member("id", transfer.id.transferID)
            json.member("source", transfer.scope.source)
            json.member("environment", transfer.scope.environment)
            json.member("app", transfer.scope.app)
            json.member("purchase", transfer.purchase)
            json.member("product", transfer.product)
            json.member("from", transfer.from)
            json.member("to", transfer.to)
            json.member("told_at", transfer.announcedAt)
            json.member("event_id", transfer.eventID)
            json.member("occurred_at", transfer.occurredAt)
        }
    }

    mutating func write(_ link: IdentityLink) {
        object { json in
            json.member("source", link.scope.source)
            json.member("environment", link.scope.environment)
            json.member("app", link.scope.app)
            json.member("anonymous_user_id", link.anonymousID)
            json.member("user_id", link.userID)
            json.member("as_of", link.asOf)
            json.member("until", link.until)
            json.member("active", link.isActive)
        }
    }

    /// `{"user_id": …}` or `{"anonymous_user_id": …}`.
    mutating func member(_ key: String, _ holder: Holder) {
        self.key(key)
        object { json in json.member(holder.fieldName, holder.id) }
    }

    /// ISO 8601; null if the time is absent or its year does not have four digits.
    mutating func member(_ key: String, _ time: Timestamp?) {
        member(key, time.flatMap { Timestamp.writable.contains($0) ? $0.iso8601 : nil })
    }
}
