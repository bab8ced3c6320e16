internal import JSONText
package import Vocabulary

/// Qonversion's webhook (documentation.qonversion.io/docs/webhooks). It is not signed: the `Authorization` header has
/// the word `Basic` and the project's token in plain text. Times are seconds since 1970, "" means absent, transaction
/// ids are JSON numbers, and no body has an id of the event.
///
/// `user_id` is an install, which is an anonymous holder here; `identity_id` is the app's own id of a user, the
/// identity that the install is logged in as. `custom_user_id` is a label for analytics and identifies nobody.
package struct Qonversion: SourceAdapter {
    package init() {}

    package var knownEventNames: [String] { QonversionNames.all }

    package var token: StaticToken? { StaticToken(header: "Authorization", scheme: "Basic") }

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event {
        let fields = try BodyFields(body)
        let name = try fields.requiredName("event_name")
        let defaultName = source.renamedEvents[name] ?? name
        let meaning = QonversionNames.meaning(of: defaultName)
        let parties = try Parties(of: fields, ownership: source.ownership)
        let occurredAt = try fields.requiredTime(.epoch("created_at"), .epoch("time"))
        let transaction = try QonversionTransaction(in: fields)
        let purchase = try purchase(in: fields, transaction: transaction, defaultName: defaultName)
        let isRefundOfPastPeriod =
            meaning?.isRevoked == true && purchase?.kind == .subscription && transaction.isPast(at: occurredAt)
        return Event(
            scope: Scope(
                source: source.name, app: source.app ?? "",
                environment: try fields.text("environment").map(SharedVocabulary.environment)
                    ?? source.defaultEnvironment),
            vendorEventID: nil,
            name: name,
            type: meaning?.type ?? defaultName,
            holder: parties.holder,
            occurredAt: occurredAt,
            yieldsProduct: isRefundOfPastPeriod,
            purchase: purchase,
            transaction: transaction.stated(
                status: meaning?.status, offer: QonversionNames.offer(of: defaultName), at: occurredAt),
            money: money(in: fields, isRefund: meaning?.isRevoked ?? false).json,
            facts: purchase == nil || isRefundOfPastPeriod
                ? [] : facts(meaning, of: parties, at: occurredAt, until: transaction.until),
            links: parties.links,
            body: body)
    }

    /// Defines the purchase key: the first transaction of the line.
    private func purchase(
        in fields: BodyFields, transaction: QonversionTransaction, defaultName: String
    ) throws(Unreadable) -> Purchase? {
        guard let key = transaction.original ?? transaction.id else { return nil }
        let product = try fields.text("product_id")
        let newProduct = try fields.text("new_product_id")
        return Purchase(
            key: key,
            kind: QonversionNames.purchaseKind(of: defaultName, expires: transaction.until != nil),
            store: QonversionNames.store(ofPlatform: try fields.text("platform") ?? ""),
            product: product ?? newProduct, plan: nil, subscriptionID: nil)
    }

    /// `revenue` alone: `price` is the product's, whatever was charged for it.
    private func money(in fields: BodyFields, isRefund: Bool) -> Money {
        guard let revenue = fields.object("revenue") else { return Money(isRefund: isRefund) }
        let dollars = revenue.decimal("value_usd")
        // The project's setting: the values are what is left after the store's commission.
        if revenue.flag("is_proceed") || (try? revenue.text("is_proceed")) == "1" {
            return Money(proceedsUSD: dollars, isRefund: isRefund)
        }
        return Money(
            amount: revenue.decimal("value"), currency: revenue.currency("currency"), amountUSD: dollars,
            isRefund: isRefund)
    }

    /// The same fact for each holder under the source's policy. Where the identity alone holds, a loss also ends the
    /// access of its install: the purchase may have been the install's before the login, and nothing else would end it
    /// for the install.
    private func facts(
        _ meaning: EventMeaning?, of parties: Parties, at occurredAt: Timestamp, until: Timestamp?
    ) -> [Fact] {
        guard let meaning, let kind = meaning.fact else { return [] }
        func fact(_ holder: Holder, isAlias: Bool) -> Fact {
            Fact(
                kind: kind, holder: holder, at: occurredAt, until: until, isRevoked: meaning.isRevoked,
                endsAccessOnly: isAlias)
        }
        let facts = parties.holding.map { fact($0, isAlias: false) }
        guard kind == .loss else { return facts }
        return facts + parties.links.aliases(of: parties.holding).map { fact($0, isAlias: true) }
    }
}

/// The install and identity that a webhook names, and which of them hold.
private struct Parties {
    /// The subject of the event.
    let holder: Holder
    /// The holders of its purchase: install and identity together, or the one that counts.
    let holding: [Holder]
    let links: [HolderLink]

    init(of fields: BodyFields, ownership: Ownership) throws(Unreadable) {
        switch (try fields.strictText("user_id"), try fields.strictText("identity_id")) {
        case (nil, nil): throw Unreadable(reason: "neither user_id nor identity_id is there")
        case (let install?, nil): self.init(alone: .anonymous(install))
        case (nil, let identity?): self.init(alone: .user(identity))
        case (let install?, let identity?):
            let links = [HolderLink(anonymousID: install, userID: identity)]
            switch ownership {
            case .exclusive: self.init(holding: [.user(identity)], of: .user(identity), links: links)
            case .installAndIdentity:
                self.init(holding: [.anonymous(install), .user(identity)], of: .anonymous(install), links: links)
            }
        }
    }

    private init(alone holder: Holder) { self.init(holding: [holder], of: holder, links: []) }

    private init(holding: [Holder], of holder: Holder, links: [HolderLink]) {
        self.holder = holder
        self.holding = holding
        self.links = links
    }
}

/// The parsed member `transaction`.
private struct QonversionTransaction {
    let id: String?
    let original: String?
    /// Only in newer bodies.
    let purchasedAt: Timestamp?
    private let graceUntil: Timestamp?
    /// End of the paid period, grace included.
    let until: Timestamp?

    init(in fields: BodyFields) throws(Unreadable) {
        let fields = fields.object("transaction") ?? fields
        id = try fields.text("transaction_id")
        original = try fields.text("original_transaction_id")
        purchasedAt = fields.epoch("transaction_date")
        graceUntil = fields.epoch("grace_period_expires")
        until = [fields.epoch("expires"), graceUntil].compactMap { $0 }.max()
    }

    /// Whether its period was over by then: a customer may be refunded a period before the one that runs now, and
    /// ending access by the name alone would cut off who pays. One that ended just now may have been ended by the
    /// refund.
    func isPast(at time: Timestamp) -> Bool {
        guard let until else { return false }
        return until <= time.advanced(byMilliseconds: -Self.dayMilliseconds)
    }

    private static let dayMilliseconds: Int64 = 86_400_000

    /// The transaction; a renewal that could not be charged is in grace while a grace period lasts.
    func stated(status: String?, offer: String, at occurredAt: Timestamp) -> Transaction? {
        guard let id else { return nil }
        var status = status
        if status == SharedVocabulary.Status.onHold, let graceUntil, graceUntil > occurredAt {
            status = SharedVocabulary.Status.inGracePeriod
        }
        return Transaction(
            storeTransactionID: id, storeOriginalTransactionID: original, purchasedAt: purchasedAt,
            effectiveNextRenewalAt: until, offerType: offer, status: status)
    }
}
