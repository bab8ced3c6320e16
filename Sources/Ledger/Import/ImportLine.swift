import JSONText
package import Vocabulary

/// One line of an import or an export (posthouse-operate(7), "Moving from another platform"): who has a purchase as of
/// a time, or which user an anonymous id is. It becomes an event that is recorded like a webhook.
///
/// The canonical form is what is stored: members in a fixed order, without those that say nothing. Its digest is the
/// event's id, so a line that is the same but for its spelling is the same event.
package struct ImportLine: Sendable, Equatable {
    /// The purchase that a line is about.
    package struct Stated: Sendable, Equatable {
        package var purchase: Purchase
        /// Whether the holder has it; nil: the line says nothing of who has it.
        package var isActive: Bool?
        package var isFamilyShared = false
        package var transactionID: String?
        package var originalTransactionID: String?
        package var purchasedAt: Timestamp?
        package var offerType: String?
        package var previousOfferType: String?
        package var status: String?
        package var isRefunded = false
        /// The time of what it says of product and transaction; nil: `ImportLine.asOf`.
        package var statedAt: Timestamp?
        /// Anonymous ids that are the holder, who is a user.
        package var links: [String] = []
        package var transfers: [TransferCount] = []
        /// All that a ledger knew of who had it. The line then says nothing else of that: `isActive` and the line's end
        /// are for whoever else reads it.
        package var history: StatedHistory?
        /// The names of the tokens by which the store names it.
        package var tokens: [Token] = []
    }

    package struct Token: Sendable, Equatable {
        /// `KnownToken.token`.
        package let id: Identifier
        package let isEnvironmentKnown: Bool
        package let isReplaced: Bool
    }

    /// How often a purchase has passed between two holders.
    package struct TransferCount: Sendable, Equatable {
        package let from: Holder
        package let to: Holder
        package let ordinal: Int
    }

    package enum Subject: Sendable, Equatable {
        case purchase(Stated)
        /// The holder, an anonymous id, is this user; nil: it is nobody any more.
        /// - Parameter isFirst: it is the install that identified as the user first.
        case link(user: String?, isFirst: Bool)
        /// A change of holders that a ledger keeps, because webhooks that come late may depend on it.
        case change(KeptChange)
        /// The holder is the install that identified as this identity first; no more than that.
        case first(identity: String)
        /// The holder is an install that was registered by its name.
        case install
    }

    /// Stands for the transaction that a line with an end does not name. Nobody is shown it; which of the two counts,
    /// it or the newest transaction, `AccessEnd` decides.
    package static let unnamedTransaction = Event.importName

    /// A stored id of a transaction as it is shown; nil: a line did not name it.
    package static func shown(_ transaction: String?) -> String? {
        transaction == unnamedTransaction ? nil : transaction
    }

    package let scope: Scope
    package let holder: Holder
    /// The event time of what it states.
    package let asOf: Timestamp
    /// Nil: no end.
    package let until: Timestamp?
    package let subject: Subject

    package init(scope: Scope, holder: Holder, asOf: Timestamp, until: Timestamp?, subject: Subject) {
        self.scope = scope
        self.holder = holder
        self.asOf = asOf
        self.until = until
        self.subject = subject
    }
}

extension ImportLine {
    /// The line as an event: it is recorded, and read again from its stored body, as this.
    package var event: Event {
        let body = canonical
        let id = "imp_" + KeyHash.body(body).hex
        switch subject {
        case .link(let user, let isFirst):
            let change: HolderChange? =
                isFirst ? user.map { HolderChange.identify(install: holder.id, identity: $0) } : nil
            return Event(
                scope: scope, vendorEventID: id, name: Event.importName, type: Event.importName, holder: holder,
                occurredAt: asOf, isTimeRepeated: true, purchase: nil, transaction: nil, change: change,
                links: change == nil ? [HolderLink(anonymousID: holder.id, userID: user, until: until)] : [],
                body: body)
        case .change(let kept): return event(id, .kept(kept), body)
        case .first(let identity): return event(id, .first(install: holder.id, identity: identity), body)
        case .install: return event(id, .register(install: holder.id), body)
        case .purchase(let stated):
            return Event(
                scope: scope, vendorEventID: id, name: Event.importName,
                // Whether an offer was used up is decided by the types of events, too.
                type: stated.isRefunded ? StandardTypes.refunded : Event.importName, holder: holder, occurredAt: asOf,
                isTimeRepeated: true, asOf: stated.statedAt, purchase: stated.purchase,
                transaction: transaction(of: stated), facts: facts(of: stated),
                links: stated.links.map { HolderLink(anonymousID: $0, userID: holder.id) },
                tokens: stated.tokens.map { token in
                    KnownToken(
                        token: token.id, first: stated.purchase.key,
                        environment: token.isEnvironmentKnown ? scope.environment : nil, isReplaced: token.isReplaced)
                }, history: stated.history, body: body)
        }
    }

    private func event(_ id: String, _ change: HolderChange, _ body: [UInt8]) -> Event {
        Event(
            scope: scope, vendorEventID: id, name: Event.importName, type: Event.importName, holder: holder,
            occurredAt: asOf, isTimeRepeated: true, purchase: nil, transaction: nil, change: change, body: body)
    }

    /// The line of a stored body; nil: it is a webhook's.
    package static func stored(_ body: [UInt8]) -> ImportLine? {
        guard body.starts(with: opening), let read = try? ImportLine.read(body), read.isMarked else { return nil }
        return read.line
    }

    /// The line that a quarantined body is; nil: it is a webhook's.
    ///
    /// What a source was sent may look like a line, also like one of another source. But no adapter reads a line, so
    /// only one that came by an import has the reason of what was read and could not be recorded.
    package static func setAside(_ row: Quarantine.Row, _ body: [UInt8]) -> ImportLine? {
        guard row.reason.utf8.starts(with: LoadedPurchases.unreadableOpening.utf8), let line = stored(body),
            line.scope.source.utf8.elementsEqual(row.source.utf8)
        else { return nil }
        return line
    }

    /// How each canonical form begins.
    private static let opening = Array("{\"event_name\":\"\(Event.importName)\",".utf8)

    private func transaction(of stated: Stated) -> Transaction? {
        let isUnnamed = stated.transactionID == nil
        // Without an end there is nothing to be kept of it: `until` is a member of every line.
        if isUnnamed, stated.isActive == false || stated.history != nil || until == nil { return nil }
        return Transaction(
            storeTransactionID: stated.transactionID ?? Self.unnamedTransaction,
            storeOriginalTransactionID: stated.originalTransactionID, purchasedAt: stated.purchasedAt,
            effectiveNextRenewalAt: until, offerType: stated.offerType, status: stated.status)
    }

    private func facts(of stated: Stated) -> [Fact] {
        if stated.history != nil { return [] }
        let access = stated.isActive.map {
            Fact(
                kind: $0 ? .gain : .loss, holder: holder, at: asOf, until: until,
                isFamilyShared: stated.isFamilyShared)
        }
        return (access.map { [$0] } ?? [])
            + stated.transfers.map {
                Fact(kind: .passed(times: $0.ordinal), holder: $0.to, counterpart: $0.from, at: asOf)
            }
    }
}

// MARK: As it is written

extension ImportLine {
    /// One JSON object, without an end of line.
    package var canonical: [UInt8] {
        JSONWriter.object { json in
            json.member("event_name", Event.importName)
            json.member("source", scope.source)
            json.member("app", scope.app)
            json.member("environment", scope.environment)
            json.member("holder", holder)
            json.member("as_of", instant: asOf)
            json.key("until")
            if let until { json.write(until) } else { json.null() }
            switch subject {
            case .link(let user, let isFirst):
                json.member("user_id", user)
                if isFirst { json.member("first", true) }
            case .change(let kept):
                json.member("change", kept.kind.rawValue)
                if case .transaction(let id) = kept.subject { json.member("transaction_id", id) }
                json.member("to", kept.target)
                if let second = kept.secondTarget { json.member("beside", second) }
            case .first(let identity):
                json.member("change", "first")
                json.member("to", Holder.user(identity))
            case .install: json.member("change", "install")
            case .purchase(let stated): stated.write(into: &json)
            }
        }
    }
}

extension ImportLine.Stated {
    fileprivate func write(into json: inout JSONWriter) {
        json.member("store", purchase.store)
        json.member("purchase", purchase.key)
        json.member("kind", purchase.kind.rawValue)
        if isActive != true { json.member("active", isActive) }
        let texts = [
            ("product", purchase.product), ("plan", purchase.plan), ("subscription_id", purchase.subscriptionID),
            ("transaction_id", transactionID), ("original_transaction_id", originalTransactionID),
            ("offer_type", offerType), ("previous_offer_type", previousOfferType), ("status", status),
        ]
        for (name, text) in texts { if let text { json.member(name, text) } }
        if let purchasedAt { json.member("purchased_at", instant: purchasedAt) }
        if let statedAt { json.member("stated_at", instant: statedAt) }
        if isFamilyShared { json.member("family", true) }
        if isRefunded { json.member("refunded", true) }
        if !links.isEmpty { json.member("links", strings: links) }
        if !transfers.isEmpty {
            json.member("transfers", objects: transfers) { passed, json in
                json.member("from", passed.from)
                json.member("to", passed.to)
                json.member("ordinal", passed.ordinal)
            }
        }
        if !tokens.isEmpty {
            json.member("tokens", objects: tokens) { token, json in
                json.member("token", token.id.hex)
                if token.isReplaced { json.member("replaced", true) }
                if !token.isEnvironmentKnown { json.member("environment_known", false) }
            }
        }
        guard let history else { return }
        json.member("holders", objects: history.holders) { holding, json in
            json.member("holder", holding.holder)
            json.member("active", holding.isActive)
            json.member("as_of", instant: holding.asOf)
        }
        json.key("history")
        ImportHistory.write(history.state, into: &json)
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ key: String, _ holder: Holder) {
        self.key(key)
        object { json in json.member(holder.fieldName, holder.id) }
    }

    fileprivate mutating func member(_ key: String, instant time: Timestamp) {
        self.key(key)
        write(time)
    }

    /// ISO 8601, or milliseconds of a year that has not four digits.
    fileprivate mutating func write(_ time: Timestamp) {
        if Timestamp.writable.contains(time) { string(time.iso8601) } else { integer(time.milliseconds) }
    }
}

extension ImportLine {
    /// The latest of the times at which it states something.
    package var latestTime: Timestamp {
        guard case .purchase(let stated) = subject else { return asOf }
        return max(asOf, stated.statedAt ?? asOf, stated.purchasedAt ?? asOf)
    }
}
