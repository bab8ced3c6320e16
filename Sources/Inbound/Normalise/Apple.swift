internal import JSONText
package import Vocabulary

/// Apple's App Store Server Notifications, version 2 (developer.apple.com/documentation/appstoreservernotifications).
/// `AppleProof` says whose a body is, `AppleDocument` opens it, `AppleNames` has the meaning of each type.
///
/// The holder is the transaction's `appAccountToken`, a UUID that the app gave at purchase, else the purchase itself:
/// always its original transaction, so that a member that appears later is no change of holder. The renewal info has
/// an account token, too: that of the next renewal, not of whoever holds the purchase now.
///
/// A retry repeats the signed payload, so event id and event time are the same.
package struct Apple: SourceAdapter {
    /// Bytes of a test notification's body; a longer one is always an event. Apple's have some five thousand, and the
    /// shortest body with a transaction in it nine thousand, because each JWS has certificates of its own.
    private static let handshakeBytesMax = 8 << 10

    /// One for each source: what it remembers is not shared.
    let proof = AppleProof()

    package init() {}

    package var knownEventNames: [String] { AppleNames.all }

    /// Always by Apple's own signature, whatever the source's authentication: without it anybody could state anything
    /// about anybody.
    package func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, now: Timestamp
    ) -> Authenticity {
        guard case .apple(let settings) = source.settings else { return .refused(.unsupportedAuthentication) }
        do {
            try proof.check(body, settings)
            return .authentic
        } catch {
            return .refused(error)
        }
    }

    /// Answers a test notification, which names no purchase. Apple reads no answer; a person may.
    package func handshake(_ body: [UInt8]) -> [UInt8]? {
        guard body.count <= Self.handshakeBytesMax, let fields = try? AppleDocument(body).fields,
            let type = try? fields.requiredName("notificationType"), type == AppleNames.test
        else { return nil }
        return JSONWriter.object { $0.member("notificationType", AppleNames.test) }
    }

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event {
        let document = try AppleDocument(body)
        let fields = document.fields
        let name = try name(in: fields)
        let occurredAt = try fields.requiredTime(.milliseconds("signedDate"))
        let data = fields.object("data") ?? .none
        let transaction = data.object("transactionInfo") ?? .none
        let renewal = data.object("renewalInfo") ?? .none

        let status = try data.text("status").flatMap { AppleNames.Status(rawValue: $0) }
        let end = Self.end(of: transaction, renewal, name: name, status: status, at: occurredAt)
        let details = AppleNames.Details(
            isSubscription: try isSubscription(transaction, in: data),
            offerType: try transaction.text("offerType"),
            offerDiscountType: try transaction.text("offerDiscountType"),
            isUpgraded: transaction.flag("isUpgraded"),
            isRevoked: transaction.time(.milliseconds("revocationDate")) != nil,
            isOver: end.map { $0 <= occurredAt } ?? false,
            status: status,
            renews: try renewal.text("autoRenewStatus").map { $0 == "1" },
            isFamilyShared: Self.isFamilyShared(transaction))
        let meaning = AppleNames.meaning(of: name, details)
        let purchase = try purchase(in: transaction, details)
        let holder = purchase.map { self.holder(in: transaction, $0, source) }
        return Event(
            scope: try scope(in: fields, source: source),
            vendorEventID: try fields.text("notificationUUID"),
            name: name.text,
            type: meaning.type,
            holder: holder,
            occurredAt: occurredAt,
            isTimeRepeated: true,
            yieldsProduct: AppleNames.isOfOnePayment(name),
            purchase: purchase,
            transaction: try stated(transaction, details, at: occurredAt, end: end, status: meaning.status),
            money: money(in: transaction, name)?.json,
            mayConvertTrial: meaning.type == AppleNames.renewed,
            facts: facts(
                meaning, isBought: AppleNames.isBought(name), saysWhose: AppleNames.saysWhose(name, details),
                in: transaction, purchase, holder, at: occurredAt, until: end),
            decoded: document.bytes,
            body: body)
    }

    package func decoded(_ body: [UInt8], answer: [UInt8]?) -> [UInt8]? { try? AppleDocument(body).bytes }

    // MARK: Envelope

    private func name(in fields: BodyFields) throws(Unreadable) -> AppleName {
        let type = try fields.requiredName("notificationType")
        let name = AppleName(type, try fields.text("subtype"))
        guard name.text.utf8.count <= Limits.identifierBytesMax else {
            let bytes = Limits.identifierBytesMax
            throw Unreadable(reason: "notificationType and subtype together are longer than \(bytes) bytes")
        }
        return name
    }

    /// By the members that name the app: those that are known here, then those that Apple has added.
    private func scope(in fields: BodyFields, source: Source) throws(Unreadable) -> Scope {
        var app = source.app
        var environment: String?
        let added = fields.keys.filter { key in
            !AppleProof.subjects.contains(key) && fields.object(key)?.contains("bundleId") ?? false
        }
        for key in AppleProof.subjects + added {
            guard let subject = fields.object(key) else { continue }
            if app == nil { app = try subject.text("bundleId") }
            if environment != nil { continue }
            environment =
                if key == AppleProof.externalPurchase {
                    try Self.environment(ofExternalPurchase: subject)
                } else {
                    try subject.text("environment").map(SharedVocabulary.environment)
                }
        }
        return Scope(source: source.name, app: app ?? "", environment: environment ?? source.defaultEnvironment)
    }

    /// An external purchase has no environment; its id shows it.
    private static func environment(ofExternalPurchase token: BodyFields) throws(Unreadable) -> String? {
        guard let id = try token.text("externalPurchaseId") else { return nil }
        return id.utf8.starts(with: SharedVocabulary.sandbox.utf8)
            ? SharedVocabulary.sandbox : SharedVocabulary.production
    }

    // MARK: Purchases

    /// Defines the purchase key: the first transaction. It stays over renewals, upgrades and new starts within a group
    /// of subscriptions. A transaction's own id does not: two notifications of one period may differ in it.
    private func purchase(in transaction: BodyFields, _ details: AppleNames.Details) throws(Unreadable) -> Purchase? {
        let original = try transaction.text("originalTransactionId")
        let own = try transaction.text("transactionId")
        guard let key = original ?? own else { return nil }
        // The product of a replaced transaction is no longer the purchase's.
        let product = details.isUpgraded ? nil : try transaction.text("productId")
        return Purchase(
            key: key, kind: details.isSubscription ? .subscription : .oneTime, store: SharedVocabulary.apple,
            product: product, plan: nil, subscriptionID: nil)
    }

    /// All but auto-renewable subscriptions are one-time purchases. A transaction whose type is absent or not
    /// documented is of a subscription if it has an end or the notification a status, which only they have: one webhook
    /// that says "one-time" makes the purchase one for good.
    private func isSubscription(_ transaction: BodyFields, in data: BodyFields) throws(Unreadable) -> Bool {
        switch try transaction.text("type") {
        case "Auto-Renewable Subscription": true
        case "Non-Renewing Subscription", "Non-Consumable", "Consumable": false
        default:
            if transaction.time(.milliseconds("expiresDate")) != nil { true } else { try data.text("status") != nil }
        }
    }

    /// The end of the paid period; nil: no end. A grace period counts as paid while it lasts, and when it ends. It may
    /// begin before the paid period ends, with a status that says active: its end is there only while it lasts
    /// (developer.apple.com/documentation/appstoreservernotifications/graceperiodexpiresdate).
    private static func end(
        of transaction: BodyFields, _ renewal: BodyFields, name: AppleName, status: AppleNames.Status?,
        at time: Timestamp
    ) -> Timestamp? {
        let stated = renewal.time(.milliseconds("gracePeriodExpiresDate"))
        let isGrace =
            status == .gracePeriod || name.type == "GRACE_PERIOD_EXPIRED"
            || name == AppleName("DID_FAIL_TO_RENEW", "GRACE_PERIOD") || stated.map { $0 > time } ?? false
        let paid = transaction.time(.milliseconds("expiresDate"))
        // Apple has sent the begin of a grace period without its end (developer.apple.com/forums/thread/792548). The
        // end comes as a notification of its own.
        let isEndUnstated =
            isGrace && stated == nil && name.type != "GRACE_PERIOD_EXPIRED" && !AppleNames.isOfOnePayment(name)
        let longestEnd = isEndUnstated ? paid?.advanced(byMilliseconds: longestGraceMilliseconds) : nil
        return [paid, isGrace ? stated : nil, longestEnd].compactMap { $0 }.max()
    }

    /// 28 days, the longest grace period that an app can choose
    /// (developer.apple.com/help/app-store-connect, "Enable Billing Grace Period").
    static let longestGraceMilliseconds: Int64 = 28 * 86_400_000

    private func stated(
        _ transaction: BodyFields, _ details: AppleNames.Details, at time: Timestamp, end: Timestamp?, status: String?
    ) throws(Unreadable) -> Transaction? {
        guard let id = try transaction.text("transactionId") else { return nil }
        // A renewal is paid up to a day before the period of which `purchaseDate` is the begin. What is bought in that
        // day is newer, and replaces it: then it comes before all others, whatever is said of it later (a refund).
        let paidAt = transaction.time(.milliseconds("purchaseDate")).map { min($0, time) }
        let replacedAt = details.isUpgraded ? transaction.time(.milliseconds("originalPurchaseDate")) : nil
        return Transaction(
            storeTransactionID: id,
            storeOriginalTransactionID: try transaction.text("originalTransactionId"),
            purchasedAt: replacedAt ?? paidAt,
            effectiveNextRenewalAt: end,
            offerType: AppleNames.offer(details.offerType, discount: details.offerDiscountType),
            status: status)
    }

    /// The price in thousandths of the currency's unit, for the whole quantity and after a discount
    /// (developer.apple.com/documentation/appstoreservernotifications/price). Nobody was charged for what a member of
    /// a family shares, and of several seats it is "the average price per seat", which nobody was charged either, as
    /// Apple's page of TransactionMultiSeatInfo has it.
    private func money(in transaction: BodyFields, _ name: AppleName) -> Money? {
        if Self.isFamilyShared(transaction) { return nil }
        let price = transaction.object("multiSeatInfo") == nil ? transaction.decimal("price", minorDigits: 3) : nil
        return Money(
            amount: price?.withoutTrailingZeros, currency: transaction.currency("currency"),
            isRefund: name.type == AppleNames.refund)
    }

    // MARK: Holders

    private static func isFamilyShared(_ transaction: BodyFields) -> Bool {
        (try? transaction.text("inAppOwnershipType")) == "FAMILY_SHARED"
    }

    private func holder(in transaction: BodyFields, _ purchase: Purchase, _ source: Source) -> Holder {
        // What is no UUID is no token, however long it is.
        let text = try? transaction.text("appAccountToken")
        guard let token = AppleNames.accountToken(text) else { return .anonymous(purchase.key) }
        if case .apple(let settings) = source.settings, settings.accountToken == .anonymous { return .anonymous(token) }
        return .user(token)
    }

    private func facts(
        _ meaning: EventMeaning, isBought: Bool, saysWhose: Bool, in transaction: BodyFields, _ purchase: Purchase?,
        _ holder: Holder?, at occurredAt: Timestamp, until end: Timestamp?
    ) -> [Fact] {
        guard let purchase, let holder else { return [] }
        let own = Holder.anonymous(purchase.key)
        let isShared = Self.isFamilyShared(transaction)
        func fact(_ kind: Fact.Kind, of holder: Holder) -> Fact {
            Fact(
                kind: kind, holder: holder, at: occurredAt, until: end, isRevoked: meaning.isRevoked,
                isFamilyShared: isShared, isNamed: !holder.isAnonymous, isGiven: holder.isAnonymous && holder != own)
        }
        // What ends is the purchase, for whoever has it: the account of a transaction may have been changed since, of
        // which no notification comes, and then the token is not that of whom the purchase was given to.
        if meaning.fact == .loss, !holder.isAnonymous {
            return [Fact(kind: .naming, holder: holder, at: occurredAt), fact(.loss, of: own)]
        }
        // What is bought is the account's that bought it. What goes on is that of whoever has it, unless Apple names
        // another account than before: a restore may have passed it on, of which Apple knows nothing.
        if let kind = meaning.fact {
            if holder.isAnonymous { return [fact(kind, of: holder)] }
            let said = Fact(kind: .said, holder: holder, at: occurredAt)
            return [said, fact(kind, of: isBought ? holder : own)]
        }
        guard saysWhose, holder != own else { return [] }
        // What states no access takes the purchase from nobody to whom it has passed.
        if holder.isAnonymous { return [fact(.gain, of: holder)] }
        return [Fact(kind: .naming, holder: holder, at: occurredAt), fact(.gain, of: own)]
    }
}
