internal import Vocabulary

/// What one notification states about its purchase: by itself, or together with what the API answered.
///
/// Without the API it names nobody and no end: the holder is an anonymous one, named by the purchase, and the fact is
/// nameless. With it, everything but the event's own time is as of the request, because the API answers the state of
/// that time, not the event's: late notifications that read the same state state it twice.
struct GooglePlayStatement {
    private let notice: GooglePlayNotice
    private let answer: GooglePlayAnswer?
    private let state: GooglePlayState?
    private let naming: AccountNaming
    private let meaning: EventMeaning

    /// - Parameter answer: what the API answered; nil: it was not asked.
    init(_ notice: GooglePlayNotice, answer: GooglePlayAnswer?, naming: AccountNaming) {
        self.notice = notice
        self.answer = answer
        self.naming = naming
        switch answer?.outcome {
        case .state(let state)?:
            self.state = state
            meaning = GooglePlayNames.meaning(of: notice.subject, in: state)
        case .ended?:
            state = nil
            meaning = GooglePlayNames.meaningOfEnded(notice.subject)
        case .noAnswer?, nil:
            state = nil
            meaning = GooglePlayNames.meaning(of: notice.subject)
        }
    }

    var type: String { meaning.type }

    /// nil: neither the API nor the ledger knew it.
    var environment: String? { answer?.environment }

    /// The account that the app gave at purchase, else the anonymous holder named by the purchase's first token, which
    /// stays the same through changes of plan; nil: the notification is about no purchase.
    var holder: Holder? {
        guard let key else { return nil }
        return state?.accountID.map(naming.holder) ?? .anonymous(key)
    }

    /// Defines the purchase key: the name of the first token of the chain that changes of plan make.
    private var key: String? { notice.token.map { answer?.first ?? $0.name } }

    /// A purchase whose place another one has taken says nothing any more, nor do late notifications about it.
    private var isReplaced: Bool { answer?.isReplaced ?? false }

    /// Nor does one that is pending or was called off, which may never take the place of the one before it.
    private var saysNothing: Bool { isReplaced || state?.access == .neverHeld && !notice.isWholeVoid }

    var purchase: Purchase? {
        guard let key else { return nil }
        return Purchase(
            key: key, kind: notice.kind ?? .subscription, store: SharedVocabulary.google,
            product: saysNothing ? nil : state?.product ?? notice.product, plan: saysNothing ? nil : state?.plan,
            subscriptionID: nil)
    }

    /// The payment that was voided, else the newest one, which only the API names.
    var transaction: Transaction? {
        guard key != nil, !saysNothing, let id = notice.orderID ?? newestPayment else { return nil }
        let isNewest = newestPayment == id
        let first = state?.orderID == nil && isNewest ? id : Self.firstOrder(of: id)
        return Transaction(
            storeTransactionID: id,
            storeOriginalTransactionID: first,
            purchasedAt: isNewest && first == id ? state?.boughtAt : nil,
            effectiveNextRenewalAt: isNewest ? state?.until : nil,
            offerType: isNewest ? state?.offer : nil,
            status: isNewest || state == nil ? meaning.status : nil)
    }

    /// A void of a former order names it, and the API answers for the newest alone: what was known of it still holds.
    var yieldsTransaction: Bool {
        guard let transaction else { return false }
        return transaction.purchasedAt == nil && transaction.effectiveNextRenewalAt == nil
            && transaction.offerType == nil && transaction.status == nil
    }

    /// A subscription may have an end and no order: it was bought with a promo code. Its token stands for the payment,
    /// because the end of a purchase is that of a transaction.
    private var newestPayment: String? { state?.orderID ?? (state?.until == nil ? nil : notice.token?.name) }

    /// Whether it is the first renewal: its order has the number 0. Google does not say when a renewal's period began;
    /// the notification comes with it.
    var mayConvertTrial: Bool {
        guard notice.subject == .subscription(GooglePlayNames.renewed), let transaction else { return false }
        return transaction.storeTransactionID.hasSuffix("..0")
    }

    /// A recovery is out of account hold or out of a pause, and only what was known before says which. Without the
    /// API an order, which would carry the status, is not known.
    var typeIfPaused: String? {
        notice.subject == .subscription(GooglePlayNames.recovered) && state != nil ? "SUBSCRIPTION_UNPAUSED" : nil
    }

    /// Renewals append `..` and a number to the id of the first order.
    private static func firstOrder(of id: String) -> String {
        guard let last = id.utf8.lastIndex(of: UInt8(ascii: ".")), last > id.startIndex else { return id }
        let dot = id.utf8.index(before: last)
        let number = id.utf8[id.utf8.index(after: last)...]
        guard id.utf8[dot] == UInt8(ascii: "."), dot > id.startIndex, !number.isEmpty,
            number.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        else { return id }
        return String(id[..<dot])
    }

    var facts: [Fact] {
        guard let kind = meaning.fact, !isReplaced, let holder, let key else { return [] }
        let own = Holder.anonymous(key)
        func fact(of holder: Holder) -> Fact {
            Fact(
                kind: kind, holder: holder, at: statedAt, until: state?.until, isRevoked: meaning.isRevoked,
                isNamed: !holder.isAnonymous, isGiven: holder.isAnonymous && holder != own)
        }
        if holder.isAnonymous { return [fact(of: holder)] }
        // What ends or goes on is the purchase, for whoever has it: a login or a restore may have passed it on, of
        // which Google knows nothing, and a token's account never changes. What is bought is the account's that bought
        // it.
        if kind == .loss { return [Fact(kind: .naming, holder: holder, at: statedAt), fact(of: own)] }
        let said = Fact(kind: .said, holder: holder, at: statedAt)
        return [said, fact(of: GooglePlayNames.isBought(notice.subject) ? holder : own)]
    }

    /// The time of what is stated: that of the request where the API's answer is the statement, else the event's.
    var statedAt: Timestamp {
        guard let answer else { return notice.occurredAt }
        // A whole void is final: it comes after all that was read of its purchase before.
        if notice.isWholeVoid { return answer.askedAt }
        return switch answer.outcome {
        case .state(let state): state.access == .unknown ? notice.occurredAt : answer.askedAt
        case .ended: answer.askedAt
        case .noAnswer: notice.occurredAt
        }
    }

    /// What the ledger keeps of the purchase's tokens: a token that was recorded keeps its purchase and environment,
    /// whatever the API says of it later, so that no purchase is left behind under another name.
    ///
    /// Nothing is kept where nothing was bought, or where a state that is not documented leaves it open.
    func tokens(in environment: String) -> [KnownToken] {
        guard let token = notice.token, let key, notice.kind != nil, !GooglePlayNames.isCalledOff(notice.subject),
            notice.isWholeVoid || state?.access != .neverHeld && state?.access != .unknown
        else { return [] }
        let own = KnownToken(
            token: token.id, first: key, environment: environment, isReplaced: isReplaced || notice.isWholeVoid)
        let links = (answer?.links ?? []).compactMap { GooglePlayToken.id(ofName: $0) }
        return [own] + links.map { KnownToken(token: $0, first: key, environment: environment, isReplaced: true) }
    }
}
