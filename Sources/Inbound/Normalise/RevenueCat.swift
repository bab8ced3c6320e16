package import Vocabulary

/// RevenueCat, api_version 1.0 (revenuecat.com/docs/integrations/webhooks). `RevenueCatNames` has the meaning of each
/// type.
///
/// `app_user_id` is the id by which the customer was last seen, and `aliases` are all others of the same customer: an
/// anonymous one among them is known to be the user. TRANSFER and PURCHASE_REDEEMED name only customers; the ledger
/// finds what they hold.
package struct RevenueCat: SourceAdapter {
    package init() {}

    package var knownEventNames: [String] { RevenueCatNames.all }

    package var token: StaticToken? { StaticToken(header: "Authorization") }
    package let signature: KeyedSignature? = KeyedSignature(RevenueCatSignature.self)

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event {
        let fields = try BodyFields(body).requiredObject("event")
        let name = try fields.requiredName("type")
        if name == RevenueCatNames.transfer { return try transfer(fields, body: body, from: source) }
        if name == RevenueCatNames.redeemed { return try redemption(fields, body: body, from: source) }

        // The console's test names invented customers.
        let links = name == RevenueCatNames.test ? [] : try links(in: fields)
        let holder = try holder(in: fields, known: links)
        let occurredAt = try fields.requiredTime(.milliseconds("event_timestamp_ms"))
        let details = try details(in: fields, eventName: name, at: occurredAt)
        let meaning = RevenueCatNames.meaning(of: name, details)
        let isOfPurchase = !RevenueCatNames.notOfPurchases.contains(name)
        let purchase =
            isOfPurchase ? try purchase(in: fields, kind: details.isOneTime ? .oneTime : .subscription) : nil
        return Event(
            scope: try scope(in: fields, source: source),
            vendorEventID: try fields.text("id"),
            name: name,
            type: meaning.type,
            holder: holder,
            occurredAt: occurredAt,
            yieldsTransaction: RevenueCatNames.isWithoutPeriod(
                name, details, isOver: fields.revenueCatEnd.map { $0 <= occurredAt } ?? false),
            yieldsProduct: name == RevenueCatNames.productChange,
            purchase: purchase,
            transaction: isOfPurchase ? try transaction(in: fields, details: details, status: meaning.status) : nil,
            money: money(in: fields, of: name, details)?.json,
            facts: purchase == nil ? [] : try facts(meaning, in: fields, holder: holder, links: links, at: occurredAt),
            links: links,
            body: body)
    }

    private func scope(in fields: BodyFields, source: Source) throws(Unreadable) -> Scope {
        let app = if let app = source.app { app } else { try fields.text("app_id") ?? "" }
        let environment = try fields.text("environment")
        // Events of virtual currency have this one alone.
        let purchaseEnvironment = try fields.text("purchase_environment")
        return Scope(
            source: source.name, app: app,
            environment: (environment ?? purchaseEnvironment).map(SharedVocabulary.environment)
                ?? source.defaultEnvironment)
    }

    /// The customer by the id last seen, else by the first one; both belong to the same customer. An anonymous id may
    /// be the last seen of a customer who is a known user: the holder is the user then, else the purchase would pass
    /// to the anonymous one and back.
    private func holder(in fields: BodyFields, known links: [HolderLink]) throws(Unreadable) -> Holder {
        var id = try fields.strictText("app_user_id")
        if id == nil { id = try fields.strictText("original_app_user_id") }
        guard let id else {
            throw Unreadable(reason: "neither event.app_user_id nor event.original_app_user_id is there")
        }
        let holder = RevenueCatNames.holder(id)
        guard holder.isAnonymous, let user = links.first(where: { $0.anonymousID == holder.id })?.userID else {
            return holder
        }
        return .user(user)
    }

    private func details(
        in fields: BodyFields, eventName: String, at occurredAt: Timestamp
    ) throws(Unreadable) -> RevenueCatNames.Details {
        RevenueCatNames.Details(
            periodType: try fields.text("period_type"),
            cancelReason: try fields.text("cancel_reason"),
            expirationReason: try fields.text("expiration_reason"),
            isTrialConversion: fields.flag("is_trial_conversion"),
            hasGracePeriod: fields.revenueCatGraceEnd != nil,
            // `expiration_at_ms` "can be null for non-subscription purchases"; a purchase that ends by itself has one.
            isOneTime: RevenueCatNames.sharedWithOneTime.contains(eventName) && fields.revenueCatEnd == nil,
            isRunning: fields.revenueCatEnd.map { $0 > occurredAt } ?? false)
    }

    // MARK: Purchases

    /// Defines the purchase key: the store's first transaction. RevenueCat has no id of its own for a purchase.
    private func purchase(in fields: BodyFields, kind: Purchase.Kind) throws(Unreadable) -> Purchase? {
        let original = try fields.text("original_transaction_id")
        let transaction = try fields.text("transaction_id")
        guard let key = original ?? transaction else { return nil }
        let store = SharedVocabulary.store(try fields.text("store") ?? "")
        let (product, plan) = parted(try fields.text("product_id"), store: store)
        return Purchase(
            key: key, kind: kind, store: store, product: product, plan: plan, subscriptionID: nil)
    }

    /// Splits Google's `product:base_plan` of subscriptions, which the other vendors send separately.
    private func parted(_ product: String?, store: String) -> (product: String?, plan: String?) {
        guard let product, store == SharedVocabulary.google, let colon = product.utf8.firstIndex(of: UInt8(ascii: ":")),
            colon > product.startIndex, case let plan = product[product.utf8.index(after: colon)...], !plan.isEmpty
        else { return (product, nil) }
        return (String(product[..<colon]), String(plan))
    }

    private func transaction(
        in fields: BodyFields, details: RevenueCatNames.Details, status: String?
    ) throws(Unreadable) -> Transaction? {
        guard let id = try fields.text("transaction_id") else { return nil }
        return Transaction(
            storeTransactionID: id,
            storeOriginalTransactionID: try fields.text("original_transaction_id"),
            purchasedAt: fields.time(.milliseconds("purchased_at_ms")),
            effectiveNextRenewalAt: fields.revenueCatEnd,
            offerType: RevenueCatNames.offer(details.periodType),
            status: status)
    }

    /// `price` is in US dollars, whatever `currency` says. Tax and commission are stated as shares of it alone. Only
    /// what is charged or given back is stated: events that do neither have a price of 0, or the one of the period.
    private func money(in fields: BodyFields, of name: String, _ details: RevenueCatNames.Details) -> Money? {
        let money = Money(
            amount: fields.decimal("price_in_purchased_currency"), currency: fields.currency("currency"),
            amountUSD: fields.decimal("price"), isRefund: RevenueCatNames.isRefund(name, details))
        return RevenueCatNames.charging.contains(name) || money.isGivenBack ? money : nil
    }

    /// One fact. A loss also ends the access of the anonymous ids by which the customer was first or last seen: the
    /// purchase may have been theirs before it was known whose they are, and nothing else would end it for them.
    private func facts(
        _ meaning: EventMeaning, in fields: BodyFields, holder: Holder, links: [HolderLink], at occurredAt: Timestamp
    ) throws(Unreadable) -> [Fact] {
        guard let kind = meaning.fact else { return [] }
        func fact(_ holder: Holder, isAlias: Bool) -> Fact {
            Fact(
                kind: kind, holder: holder, at: occurredAt, until: fields.revenueCatEnd, isRevoked: meaning.isRevoked,
                isFamilyShared: !isAlias && fields.flag("is_family_share"), endsAccessOnly: isAlias)
        }
        guard kind == .loss else { return [fact(holder, isAlias: false)] }
        let seen = [try fields.text("app_user_id"), try fields.text("original_app_user_id")].compactMap { $0 }
        let aliases = links.map(\.anonymousID).filter { id in seen.contains { $0.hasSameBytes(as: id) } }
        return [fact(holder, isAlias: false)] + aliases.map { fact(.anonymous($0), isAlias: true) }
    }

    // MARK: Customers

    /// Links every anonymous id of the customer to the user, if the body names exactly one user.
    private func links(in fields: BodyFields) throws(Unreadable) -> [HolderLink] {
        let last = try fields.text("app_user_id").map(RevenueCatNames.holder)
        let original = try fields.text("original_app_user_id").map(RevenueCatNames.holder)
        let aliases = try fields.texts("aliases").map(RevenueCatNames.holder)
        if let last, !last.isAnonymous {
            return RevenueCatNames.links(of: [original].compactMap { $0 } + aliases, to: last)
        }
        let users = Set(aliases.filter { !$0.isAnonymous })
        guard users.count == 1, let user = users.first else { return [] }
        return RevenueCatNames.links(of: [last, original].compactMap { $0 } + aliases, to: user)
    }

    /// TRANSFER: everything that the customers of one list hold passes to the customer of the other.
    private func transfer(_ fields: BodyFields, body: [UInt8], from source: Source) throws(Unreadable) -> Event {
        let from = try someHolders("transferred_from", in: fields)
        let receivers = try someHolders("transferred_to", in: fields)
        return try passing(
            RevenueCatNames.transfer, from: from, to: receivers, in: fields, body: body, source: source)
    }

    /// PURCHASE_REDEEMED: a purchase of the web is redeemed in the app. `redemption_outcome` says whether anything
    /// passes to the customer who redeems it: by `alias` the two customers become one, of the name of whichever has a
    /// user's, with `transfer` a TRANSFER comes, too, and with `redeemer_owns` the customer had it already.
    private func redemption(_ fields: BodyFields, body: [UInt8], from source: Source) throws(Unreadable) -> Event {
        let outcome = try fields.text("redemption_outcome")
        let passes = outcome == "alias" || outcome == "transfer"
        // Null if nobody else had it.
        let from = passes ? try holders("redeemed_from", in: fields) : []
        let receivers = try someHolders("redeemed_by", in: fields)
        let aliases = outcome == "alias" ? RevenueCatNames.distinct(receivers + from) : []
        guard outcome == "alias", receivers.allSatisfy(\.isAnonymous), let user = from.first(where: { !$0.isAnonymous })
        else {
            return try passing(
                RevenueCatNames.redeemed, from: from, to: receivers, in: fields, body: body, source: source,
                aliases: aliases)
        }
        // An install that redeems what a user bought becomes that user's.
        return try passing(
            RevenueCatNames.redeemed, from: aliases.filter(\.isAnonymous), to: [user], in: fields, body: body,
            source: source, aliases: aliases)
    }

    /// An event by which everything that `from` hold passes to the first user among `receivers`, the ids of one
    /// customer.
    /// - Parameter aliases: further ids of that customer.
    private func passing(
        _ name: String, from: [Holder], to receivers: [Holder], in fields: BodyFields, body: [UInt8], source: Source,
        aliases: [Holder] = []
    ) throws(Unreadable) -> Event {
        let to = receivers.first { !$0.isAnonymous } ?? receivers[0]
        // An id in both lists belongs to the receiver already.
        let losers = from.filter { !receivers.contains($0) }
        return Event(
            scope: try scope(in: fields, source: source),
            vendorEventID: try fields.text("id"),
            name: name,
            type: name,
            holder: to,
            occurredAt: try fields.requiredTime(.milliseconds("event_timestamp_ms")),
            purchase: nil,
            transaction: nil,
            change: losers.isEmpty ? nil : .move(from: losers, to: to, isNative: true),
            links: to.isAnonymous ? [] : RevenueCatNames.links(of: receivers + aliases, to: to),
            body: body)
    }

    /// The customers of a list, each once; throws if there is none.
    private func someHolders(_ key: String, in fields: BodyFields) throws(Unreadable) -> [Holder] {
        let holders = try holders(key, in: fields)
        if holders.isEmpty { throw Unreadable(reason: "event.\(key) names nobody") }
        return holders
    }

    /// The customers of a list, each once.
    private func holders(_ key: String, in fields: BodyFields) throws(Unreadable) -> [Holder] {
        RevenueCatNames.distinct(try fields.texts(key).map(RevenueCatNames.holder))
    }
}

extension RevenueCatNames {
    /// Links to `user` of the anonymous holders among `holders`, each once and in order.
    fileprivate static func links(of holders: [Holder], to user: Holder) -> [HolderLink] {
        distinct(holders.filter(\.isAnonymous)).map { HolderLink(anonymousID: $0.id, userID: user.id) }
    }

    fileprivate static func distinct(_ holders: [Holder]) -> [Holder] {
        var seen = Set<Holder>()
        return holders.filter { seen.insert($0).inserted }
    }
}

extension BodyFields {
    fileprivate var revenueCatGraceEnd: Timestamp? { time(.milliseconds("grace_period_expiration_at_ms")) }

    /// End of the paid period, grace included; nil: no end.
    fileprivate var revenueCatEnd: Timestamp? {
        [time(.milliseconds("expiration_at_ms")), revenueCatGraceEnd].compactMap { $0 }.max()
    }
}
