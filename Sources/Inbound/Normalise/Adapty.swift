internal import JSONText
package import Vocabulary

/// Adapty, event_api_version 1 (adapty.io/docs/webhook-event-types-and-fields). `AdaptyNames` has the meaning of each
/// type.
///
/// A profile belongs to an installation; `customer_user_id` is the app's own id of the user, if the app has set one.
/// The vendor's page warns that events are not sent in the order of event time; here only event time orders facts.
package struct Adapty: SourceAdapter {
    /// Bytes of a test request of the console; a longer body is always an event.
    private static let handshakeBytesMax = 4_096

    package init() {}

    package var knownEventNames: [String] { AdaptyNames.all }

    package var token: StaticToken? { StaticToken(header: "Authorization") }

    /// Answers a test request. The console sends `{}` and expects any JSON; older versions sent a text under
    /// `adapty_check` and expect it back.
    package func handshake(_ body: [UInt8]) -> [UInt8]? {
        guard body.count <= Self.handshakeBytesMax, let fields = try? BodyFields(body) else { return nil }
        if fields.isEmpty { return Array("{}".utf8) }
        guard !fields.contains("event_type"), let check = try? fields.requiredName("adapty_check") else { return nil }
        return JSONWriter.object { $0.member("adapty_check_response", check) }
    }

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event {
        let fields = try BodyFields(body)
        let name = try fields.requiredName("event_type")
        let usual = source.renamedEvents[name] ?? name
        let holder = try holder(in: fields)
        let occurredAt = try occurredAt(in: fields)
        let properties = fields.object("event_properties") ?? .none
        let sharing = sharing(in: fields, properties: properties)

        let offer = try AdaptyNames.offer(of: usual, properties)
        let isOver = properties.adaptyEnd.map { $0 <= occurredAt }
        let meaning =
            usual == AdaptyNames.accessLevel
            ? AdaptyNames.access(properties)
            : AdaptyNames.meaning(of: usual, offer: offer, isOver: isOver ?? true)
        let purchase = try purchase(in: properties, eventName: usual)
        let isReplaced = try AdaptyNames.isReplaced(properties, store: purchase?.store ?? "")
        let isRefundBesideAccess =
            purchase?.kind == .subscription && AdaptyNames.isRefundBesideAccess(usual, properties)
        let isOfAnother = purchase?.kind == .subscription && AdaptyNames.isOfAnotherProfile(usual, properties)
        let isWithoutFact = purchase == nil || isReplaced && meaning.fact == .loss || isRefundBesideAccess
        let changesRenewal = AdaptyNames.changesRenewal(usual)
        let isEnd = AdaptyNames.ends.contains(usual)
        let holders = holders(sharing, with: holder)
        let links = try links(in: [fields] + sharing)
        let environment = try properties.text("environment").map(SharedVocabulary.environment)
        return Event(
            scope: Scope(
                source: source.name, app: source.app ?? "", environment: environment ?? source.defaultEnvironment),
            vendorEventID: try properties.text("profile_event_id"),
            name: name,
            type: meaning.type,
            holder: holder,
            occurredAt: occurredAt,
            yieldsTransaction: isOver == true && changesRenewal,
            // The product may be the one that the customer left, or leaves.
            yieldsProduct: changesRenewal || isEnd || isRefundBesideAccess || isReplaced && meaning.fact != .gain,
            purchase: purchase,
            transaction: try transaction(in: properties, offer: offer, status: meaning.status),
            money: money(in: properties, eventName: usual).json,
            facts: isWithoutFact
                ? []
                : facts(
                    meaning, of: holders, links: links,
                    at: isEnd ? occurredAt.advanced(byMilliseconds: -1).nearestWritable : occurredAt,
                    until: properties.adaptyEnd
                )
                .filter { !isOfAnother || $0.holder != holder },
            links: links,
            body: body)
    }

    // MARK: Profiles

    /// The app's user, else the profile.
    private func holder(in fields: BodyFields) throws(Unreadable) -> Holder {
        if let user = try fields.strictText("customer_user_id") { return .user(user) }
        if let profile = try fields.strictText("profile_id") { return .anonymous(profile) }
        throw Unreadable(reason: "neither customer_user_id nor profile_id is there")
    }

    /// Links every profile that names a user to that user.
    private func links(in profiles: [BodyFields]) throws(Unreadable) -> [HolderLink] {
        var links: [HolderLink] = []
        for profile in profiles {
            guard let user = try profile.text("customer_user_id"), let id = try profile.text("profile_id") else {
                continue
            }
            links.append(HolderLink(anonymousID: id, userID: user))
        }
        return links
    }

    /// The profiles that share this one's access. The vendor's page names the list at the top level and among the
    /// properties.
    private func sharing(in fields: BodyFields, properties: BodyFields) -> [BodyFields] {
        let listed = fields.objects("profiles_sharing_access_level")
        return listed.isEmpty ? properties.objects("profiles_sharing_access_level") : listed
    }

    private func occurredAt(in fields: BodyFields) throws(Unreadable) -> Timestamp {
        guard let time = AdaptyNames.time(try fields.requiredName("event_datetime")) else {
            throw Unreadable(reason: "event_datetime is not an ISO 8601 time with an offset")
        }
        guard Timestamp.writable.contains(time) else {
            throw Unreadable(reason: "event_datetime lies outside the years 0000 to 9999")
        }
        return time
    }

    // MARK: Purchases

    /// Defines the purchase key: the store's first transaction. Adapty has no id of its own for a purchase.
    private func purchase(in properties: BodyFields, eventName: String) throws(Unreadable) -> Purchase? {
        let original = try properties.text("original_transaction_id")
        let transaction = try properties.text("transaction_id")
        guard let key = original ?? transaction else { return nil }
        let isOneTime = eventName.hasPrefix(AdaptyNames.oneTimePrefix) || properties.flag("is_lifetime")
        return Purchase(
            key: key, kind: isOneTime ? .oneTime : .subscription,
            store: SharedVocabulary.store(try properties.text("store") ?? ""),
            product: try properties.text("vendor_product_id"), plan: try properties.text("base_plan_id"),
            subscriptionID: nil)
    }

    private func transaction(
        in properties: BodyFields, offer: String, status: String?
    ) throws(Unreadable) -> Transaction? {
        guard let id = try properties.text("transaction_id") else { return nil }
        return Transaction(
            storeTransactionID: id,
            storeOriginalTransactionID: try properties.text("original_transaction_id"),
            purchasedAt: properties.adaptyTime("purchase_date"),
            effectiveNextRenewalAt: properties.adaptyEnd,
            offerType: offer,
            status: status)
    }

    /// `price_…` is before the store's commission, `proceeds_…` after it.
    private func money(in properties: BodyFields, eventName: String) -> Money {
        Money(
            amount: properties.decimal("price_local"), currency: properties.currency("currency"),
            amountUSD: properties.decimal("price_usd"), proceedsUSD: properties.decimal("proceeds_usd"),
            tax: properties.decimal("tax_amount_local"),
            isRefund: eventName.hasSuffix(AdaptyNames.refundedSuffix) || properties.flag("is_refund"))
    }

    /// The holder of the event's own profile, and those of the profiles that share its access, each once.
    private func holders(_ sharing: [BodyFields], with holder: Holder) -> [Holder] {
        var holders = [holder]
        for profile in sharing {
            guard let other = try? self.holder(in: profile), !holders.contains(other) else { continue }
            holders.append(other)
        }
        return holders
    }

    /// The same fact for each holder. With sharing on, each of them gets an event that names the others: so none of
    /// them has the purchase before the others, and it does not pass from one to the next. A loss also ends the access
    /// of their profiles, as anonymous ones: the purchase may have been a profile's before the app set its user, and
    /// nothing else would end it for the profile.
    private func facts(
        _ meaning: EventMeaning, of holders: [Holder], links: [HolderLink], at occurredAt: Timestamp, until: Timestamp?
    ) -> [Fact] {
        guard let kind = meaning.fact else { return [] }
        func fact(_ holder: Holder, isAlias: Bool) -> Fact {
            Fact(
                kind: kind, holder: holder, at: occurredAt, until: until, isRevoked: meaning.isRevoked,
                isFamilyShared: !isAlias && holders.count > 1, endsAccessOnly: isAlias)
        }
        let facts = holders.map { fact($0, isAlias: false) }
        guard kind == .loss else { return facts }
        return facts + links.aliases(of: holders).map { fact($0, isAlias: true) }
    }
}

extension BodyFields {
    /// Reads a time; one beyond the writable range becomes the nearest writable one.
    fileprivate func adaptyTime(_ key: String) -> Timestamp? {
        guard let text = try? text(key) else { return nil }
        return AdaptyNames.time(text)?.nearestWritable
    }

    /// End of the paid period, or of the access if that is later (a grace period); nil: no end.
    fileprivate var adaptyEnd: Timestamp? {
        if flag("is_lifetime") { return nil }
        return [adaptyTime("subscription_expires_at"), adaptyTime("expires_at")].compactMap { $0 }.max()
    }
}
