internal import HTTPServer
internal import JSONText
internal import Ledger
internal import Vocabulary

/// Entitlements, history, transfers and identities, as pages from the ledger.
extension Backend {
    func readEntitlements(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let request = try await request(call)
        let isActive = try request.parameters.isActive
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.entitlements(
                of: request.subject, in: request.scope, isActive: isActive, after: request.cursor, limit: request.limit)
        }
        return .page(page) { $1.write($0) }
    }

    func readHistory(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        try await page(call, lookup.history) { $1.write($0) }
    }

    func readTransfers(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        try await page(call, lookup.transfers) { $1.write($0) }
    }

    func readIdentities(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let request = try await request(call)
        guard case .holder(let holder) = request.subject else {
            throw .parameter("exactly one of user_id, anonymous_user_id is needed")
        }
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.identities(of: holder, in: request.scope, after: request.cursor, limit: request.limit)
        }
        return .page(page) { $1.write($0) }
    }

    private func page<Entry>(
        _ call: Call,
        _ find: (LookupSubject, LookupScope, LookupCursor?, Int) async throws(LookupFailure) -> LookupPage<Entry>,
        _ write: (Entry, inout JSONWriter) -> Void
    ) async throws(APIFailure) -> HTTPAnswer {
        let request = try await request(call)
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await find(request.subject, request.scope, request.cursor, request.limit)
        }
        return .page(page, write)
    }

    /// The common parameters of the four, read before a turn is taken at the gate.
    private func request(_ call: Call) async throws(APIFailure) -> HolderRequest {
        let parameters = try call.parameters()
        return HolderRequest(
            parameters: parameters, subject: try parameters.subject(of: call.operation),
            scope: try await scope(parameters, call), cursor: try parameters.cursor, limit: try parameters.limit)
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
    /// 200 with one JSON object.
    static func object(_ members: (inout JSONWriter) -> Void) -> HTTPAnswer { .json(200, JSONWriter.object(members)) }

    /// `{"data": […], "next": …}`; `write` writes the members of an entry.
    static func page<Entry>(
        _ page: LookupPage<Entry>, _ write: (Entry, inout JSONWriter) -> Void
    ) -> HTTPAnswer {
        .object { json in
            json.member("data", objects: page.entries, write)
            json.member("next", page.next?.written)
        }
    }
}

extension JSONWriter {
    mutating func write(_ held: HeldPurchase) {
        let transaction = held.newestTransaction
        member("product", held.purchase.product)
        member("plan", held.purchase.plan)
        member("active", held.isActive)
        member("until", held.until)
        member("overdue", held.isOverdue)
        member("source", held.scope.source)
        member("environment", held.scope.environment)
        member("holder", held.holder)
        member("as_of", held.asOf)
        member("app", held.scope.app)
        member("store", held.purchase.store)
        member("purchase", held.purchase.key)
        member("kind", held.purchase.kind.rawValue)
        member("subscription_id", held.purchase.subscriptionID)
        member("expires_at", transaction?.effectiveNextRenewalAt)
        member("status", transaction?.status)
        member("offer_type", transaction?.offerType)
        member("store_transaction_id", ImportLine.shown(transaction?.storeTransactionID))
        member("cause", object: held.cause) { cause, json in
            json.member("event_id", cause.eventID)
            json.member("event_name", cause.name)
            json.member("type", cause.type)
        }
    }

    mutating func write(_ event: HistoryEntry) {
        member("event_id", event.eventID)
        member("event_name", event.name)
        member("type", event.type)
        member("source", event.scope.source)
        member("environment", event.scope.environment)
        member("app", event.scope.app)
        member("holder", event.holder)
        member("occurred_at", event.occurredAt)
        member("received_at", event.receivedAt)
        member("purchase", event.purchase)
        member("product", event.product)
        member("store_transaction_id", event.storeTransactionID)
        member("transfers", objects: event.transfers) { $1.write($0) }
    }

    mutating func write(_ transfer: TransferEntry) {
        member("id", transfer.id.transferID)
        member("source", transfer.scope.source)
        member("environment", transfer.scope.environment)
        member("app", transfer.scope.app)
        member("purchase", transfer.purchase)
        member("product", transfer.product)
        member("from", transfer.from)
        member("to", transfer.to)
        member("told_at", transfer.announcedAt)
        member("event_id", transfer.eventID)
        member("occurred_at", transfer.occurredAt)
    }

    mutating func write(_ link: IdentityLink) {
        member("source", link.scope.source)
        member("environment", link.scope.environment)
        member("app", link.scope.app)
        member("anonymous_user_id", link.anonymousID)
        member("user_id", link.userID)
        member("as_of", link.asOf)
        member("until", link.until)
        member("active", link.isActive)
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
