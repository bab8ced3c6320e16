internal import Vocabulary

/// What one webhook states about a purchase. It is spread over the event's receipt, the event's properties, and the
/// receipt's line of the user's subscriptions, which has the state at the time of sending.
struct ApphudStatement {
    private let name: String
    private let meaning: EventMeaning?
    private let receipt: BodyFields?
    private let properties: BodyFields?
    private let user: BodyFields
    private let occurredAt: Timestamp
    /// The entry of `user.subscriptions` that the event is about.
    let line: BodyFields?
    /// Spelled as in the shared vocabulary; "" if the body names none.
    let store: String
    private let key: String?
    private let product: String?
    /// The line's environment; without one, that on which all lines of the user agree: a build of the app has one.
    let environment: String?

    init(name: String, event: BodyFields, user: BodyFields, at occurredAt: Timestamp) throws(Unreadable) {
        self.name = name
        self.user = user
        self.occurredAt = occurredAt
        meaning = ApphudNames.meaning(of: name)
        receipt = event.object("receipt")
        properties = event.object("properties")
        let receiptProduct = try receipt?.text("product_id")
        let propertiesProduct = try properties?.text("product_id")
        let product = receiptProduct ?? propertiesProduct
        let original = try receipt?.text("original_transaction_id")
        let transaction = try receipt?.text("transaction_id")
        let isOfPurchase = !ApphudNames.notOfPurchases.contains(name)
        line =
            isOfPurchase
            ? try Self.line(in: user, named: original ?? transaction, product: meaning == nil ? nil : product) : nil
        let lineOriginal = try line?.text("original_transaction_id")
        key = isOfPurchase ? original ?? transaction ?? lineOriginal : nil
        let eventStore = try event.text("store")
        let lineStore = try line?.text("store")
        store = (eventStore ?? lineStore).map(SharedVocabulary.store) ?? ""
        let lineProduct = try line?.text("product_id")
        self.product = product ?? lineProduct
        let lineEnvironment = try line?.text("environment").map(SharedVocabulary.environment)
        if let lineEnvironment {
            environment = lineEnvironment
        } else {
            environment = try Self.environment(ofAllLinesOf: user)
        }
    }

    private static func environment(ofAllLinesOf user: BodyFields) throws(Unreadable) -> String? {
        var environments: Set<String> = []
        for line in user.objects("subscriptions") {
            guard let environment = try line.text("environment") else { continue }
            environments.insert(SharedVocabulary.environment(environment))
        }
        return environments.count == 1 ? environments.first : nil
    }

    /// The line whose first transaction is `original`. An event without a receipt names only its product: then it is
    /// the only line of that product, and none if there are several, because that would be a guess.
    private static func line(
        in user: BodyFields, named original: String?, product: String?
    ) throws(Unreadable) -> BodyFields? {
        let lines = user.objects("subscriptions")
        var ofProduct: [BodyFields] = []
        for line in lines {
            if let original, try line.text("original_transaction_id") == original { return line }
            if let product, try line.text("product_id") == product { ofProduct.append(line) }
        }
        return original == nil && ofProduct.count == 1 ? ofProduct[0] : nil
    }

    private var isLineInGrace: Bool { (try? line?.text("status")) == "grace" }

    /// Whether a billing issue starts a grace period: the line is in grace then.
    private var startsGrace: Bool { name == ApphudNames.billingIssue && isLineInGrace }

    var type: String { startsGrace ? "GRACE_PERIOD_STARTED" : meaning?.type ?? name }

    /// Defines the purchase key: the first transaction of the line (for Google's store the purchase token).
    func purchase() throws(Unreadable) -> Purchase? {
        guard let key else { return nil }
        return Purchase(
            key: key, kind: ApphudNames.purchaseKind(of: name), store: store, product: product, plan: nil,
            subscriptionID: try line?.text("id"))
    }

    func transaction() throws(Unreadable) -> Transaction? {
        guard key != nil, let id = try receipt?.text("transaction_id") else { return nil }
        return Transaction(
            storeTransactionID: id,
            storeOriginalTransactionID: try receipt?.text("original_transaction_id"),
            purchasedAt: receipt?.time(.iso8601("purchased_at")),
            effectiveNextRenewalAt: until,
            offerType: try offer(),
            status: startsGrace ? SharedVocabulary.Status.inGracePeriod : meaning?.status)
    }

    /// Of the receipt, else of the properties: an amount and its currency are of one object. An event about a paywall
    /// names a price that nobody was charged.
    var money: Money {
        guard key != nil else { return Money() }
        var money = Money(
            amountUSD: receipt?.decimal("price_usd") ?? properties?.decimal("usd_price"),
            proceedsUSD: receipt?.decimal("proceeds_usd"), isRefund: meaning?.isRevoked ?? false)
        for (fields, key) in [(properties, "local_price"), (receipt, "price")] {
            guard let amount = fields?.decimal(key), let currency = fields?.currency("currency") else { continue }
            (money.amount, money.currency) = (amount, currency)
        }
        return money
    }

    /// One fact. A refund also ends the access of the customer's devices: the purchase may have been made under the id
    /// of one of them, before the app set its user, and nothing else would end it for that one. Any other loss comes
    /// when the end has come that ends it there, too, and would only store ids that no purchase has.
    func facts(of holder: Holder) -> [Fact] {
        guard key != nil, let meaning, let kind = meaning.fact, !isRefundOfPastPeriod else { return [] }
        let isFamilyShared = properties?.flag("family_shared") ?? false
        func fact(_ holder: Holder, isAlias: Bool) -> Fact {
            Fact(
                kind: kind, holder: holder, at: occurredAt, until: until, isRevoked: meaning.isRevoked,
                isFamilyShared: !isAlias && isFamilyShared, endsAccessOnly: isAlias)
        }
        let own = fact(holder, isAlias: false)
        return meaning.isRevoked ? [own] + devices(besides: holder).map { fact($0, isAlias: true) } : [own]
    }

    /// The devices of the customer as users, each once, but for the one that is the holder itself.
    private func devices(besides holder: Holder) -> [Holder] {
        var seen: Set<Holder> = [holder]
        return user.objects("devices").prefix(Limits.customerDevicesMax).compactMap { device in
            // An id that cannot be read was never that of a user.
            guard let id = try? device.text("device_id") else { return nil }
            let holder = Holder.user(id)
            return seen.insert(holder).inserted ? holder : nil
        }
    }

    /// Whether it refunds a period before the one that is paid now, as the line says: ending access by the name alone
    /// would cut off a paying customer.
    var isRefundOfPastPeriod: Bool {
        guard let meaning, meaning.isRevoked, ApphudNames.purchaseKind(of: name) == .subscription, let until,
            let status = try? line?.text("status")
        else { return false }
        return until > occurredAt && ApphudNames.paying.contains(status)
    }

    /// The end of the paid period. A line in grace goes on behind it, and names no other end: `subscription_expired`
    /// says when grace is over. So its end is the longest that the store has; that of a loss is as stated. Of Apple's
    /// store grace may begin before the paid end.
    private var until: Timestamp? {
        guard let paid = line?.time(.iso8601("expires_at")) else { return nil }
        guard isLineInGrace, meaning?.fact != .loss, paid <= occurredAt || store == SharedVocabulary.apple else {
            return paid
        }
        return paid.advanced(
            byMilliseconds: store == SharedVocabulary.google
                ? Self.longestGoogleGraceMilliseconds : Apple.longestGraceMilliseconds)
    }

    /// 30 days, the longest grace period that an app can choose at Google
    /// (developer.android.com/google/play/billing/lifecycle/subscriptions).
    private static let longestGoogleGraceMilliseconds: Int64 = 30 * 86_400_000

    /// The offer stated by the event's name, else by the flags of the receipt, else by those of the line.
    private func offer() throws(Unreadable) -> String {
        if let offer = ApphudNames.offer(of: name) { return offer }
        guard let flags = receipt ?? line else { return SharedVocabulary.Offer.none }
        if flags.flag("trial_period") { return SharedVocabulary.Offer.freeTrial }
        if flags.flag("intro_period") { return SharedVocabulary.Offer.intro }
        return try line?.text("status") == "promo" ? SharedVocabulary.Offer.promotional : SharedVocabulary.Offer.none
    }
}
