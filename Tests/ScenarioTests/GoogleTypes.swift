import Foundation

/// Every notification that Google documents (developer.android.com/google/play/billing/rtdn-reference), by itself and
/// with what the Google Play Developer API answers about its purchase, and what must come of it: written by hand after
/// that page, the page "Subscription lifecycle" and posthouse-sources(7), "Google Play".
struct GoogleTypes {
    /// The source that has no `api`.
    static let withoutAPI = "named"

    private(set) var notices: [StoreNotice] = []
    private(set) var others: [StoreNotice.Other] = []

    init() {
        addByName()
        addByState()
        addChains()
        addOneTime()
        addOthers()
    }

    // MARK: Without the API

    /// Number, name, type ("": its name), and what the name alone says.
    private static let subscriptions: [(number: Int, name: String, type: String, access: StoreNotice.Access)] = [
        (1, "RECOVERED", "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .has),
        (2, "RENEWED", "SUBSCRIPTION_RENEWED", .has), (3, "CANCELED", "RENEWAL_DISABLED", .unstated),
        (4, "PURCHASED", "SUBSCRIPTION_STARTED", .has), (5, "ON_HOLD", "ENTERED_BILLING_RETRY", .hasNot),
        (6, "IN_GRACE_PERIOD", "GRACE_PERIOD_STARTED", .has), (7, "RESTARTED", "RENEWAL_ENABLED", .has),
        (8, "PRICE_CHANGE_CONFIRMED", "", .unstated), (9, "DEFERRED", "SUBSCRIPTION_DEFERRED", .has),
        (10, "PAUSED", "SUBSCRIPTION_PAUSED", .hasNot),
        (11, "PAUSE_SCHEDULE_CHANGED", "SUBSCRIPTION_WILL_PAUSE", .unstated),
        (12, "REVOKED", "SUBSCRIPTION_REFUNDED_REVOKED", .hasNot),
        (13, "EXPIRED", "SUBSCRIPTION_TERMINATED", .hasNot), (17, "ITEMS_CHANGED", "", .unstated),
        (18, "CANCELLATION_SCHEDULED", "", .unstated), (19, "PRICE_CHANGE_UPDATED", "", .unstated),
        (20, "PENDING_PURCHASE_CANCELED", "", .unstated), (22, "PRICE_STEP_UP_CONSENT_UPDATED", "", .unstated),
        // Not documented.
        (14, "14", "", .unstated), (99, "99", "", .unstated),
    ]

    private mutating func addByName() {
        for row in Self.subscriptions {
            add(Self.withoutAPI, .subscription(row.number), row.type, row.access)
        }
        // The page says a number, its example has a string.
        add(Self.withoutAPI, .subscription(2), "SUBSCRIPTION_RENEWED", .has, isTimeNumber: true)
        add(Self.withoutAPI, .oneTime(1), "PURCHASE_VALIDATED", .has)
        add(Self.withoutAPI, .oneTime(2), "", .unstated)
        add(Self.withoutAPI, .oneTime(7), "", .unstated)
        add(Self.withoutAPI, .voided(productType: 2, refundType: 1), "DEACTIVATE", .hasNot, money: "back")
        add(Self.withoutAPI, .voided(productType: 2, refundType: 2), "", .unstated, money: "back")
        add(Self.withoutAPI, .voided(productType: 1, refundType: 1), "", .unstated, money: "back")
        let review =
            #""pendingRefundReviewNotification":{"version":"1.0","pendingRefundToken":"r","orderId":"GPA.1","#
            + #""refundReason":7,"obfuscatedAccountId":"somebody"}"#
        let unknown = #""celebrationNotification":{"version":"1.0"}"#
        for source in [Self.withoutAPI, "play"] {
            add(source, "PENDING_REFUND_REVIEW", review)
            add(source, "celebrationNotification", unknown)
        }
    }

    // MARK: With the API

    private mutating func addByState() {
        let (trial, intro) = (#""offerPhase":{"freeTrial":{}}"#, #""offerPhase":{"introductoryPrice":{}}"#)
        ask(4, "SUBSCRIPTION_STARTED", .has)
        ask(4, "SUBSCRIPTION_STARTED", .has, isNamed: false)
        ask(4, "SUBSCRIPTION_STARTED", .has, more: #""testPurchase":{}"#, environment: "SANDBOX")
        ask(4, "TRIAL_STARTED", .has, item: trial)
        ask(4, "INTRO_OFFER_STARTED", .has, item: intro)
        ask(1, "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .has)
        ask(2, "SUBSCRIPTION_RENEWED", .has)
        ask(3, "RENEWAL_DISABLED", .has, state: "CANCELED")
        // In a hold, or by the end of it: the paid period is over.
        add(
            "play", .subscription(3), "RENEWAL_DISABLED", .hasNot,
            answer: Self.state("CANCELED", until: "2026-01-22T08:00:00Z"))
        ask(5, "ENTERED_BILLING_RETRY", .hasNot, state: "ON_HOLD")
        ask(6, "GRACE_PERIOD_STARTED", .has, state: "IN_GRACE_PERIOD")
        ask(7, "RENEWAL_ENABLED", .has)
        ask(9, "SUBSCRIPTION_DEFERRED", .has)
        ask(10, "SUBSCRIPTION_PAUSED", .hasNot, state: "PAUSED")
        ask(11, "SUBSCRIPTION_WILL_PAUSE", .has)
        ask(12, "SUBSCRIPTION_REFUNDED_REVOKED", .hasNot, state: "EXPIRED")
        ask(13, "SUBSCRIPTION_TERMINATED", .hasNot, state: "EXPIRED")
        ask(13, "TRIAL_NOT_CONVERTED", .hasNot, state: "EXPIRED", item: trial)
        for number in [8, 17, 18, 19, 22, 99] { ask(number, "", .has) }
        ask(20, "", .unstated, state: "PENDING_PURCHASE_CANCELED")
        // The void of one payment: the purchase runs.
        add("play", .voided(productType: 1, refundType: 1), "", .has, money: "back", answer: Self.state())
        // What Google has forgotten is over; what it does not know is as its name says.
        let gone = #"{"error":{"code":410,"errors":[{"reason":"purchaseTokenNoLongerValid"}]}}"#
        add("play", .subscription(13), "SUBSCRIPTION_TERMINATED", .hasNot, isNamed: false) { _ in (410, gone) }
        add("play", .subscription(2), "SUBSCRIPTION_RENEWED", .has, isNamed: false) { _ in (404, Google.unknownToken) }
    }

    private mutating func addChains() {
        // The first renewal of a purchase that began with a trial of a week.
        let isTrial = Self.state(until: "2026-01-22T08:00:00Z", item: #""offerPhase":{"freeTrial":{}}"#)
        let trial = add("play", .subscription(4), "TRIAL_STARTED", .has, answer: isTrial)
        let isPaid = Self.state(order: "GPA.1..0", item: #""offerPhase":{"basePrice":{}}"#)
        add(
            "play", .subscription(2), "TRIAL_CONVERTED", .has, of: trial,
            at: Webhook.epoch + 7 * Webhook.day + 5_000, isByMemory: true, answer: isPaid)
        // A change of plan makes a new token, and the old one ends within the second.
        let (former, account) = (Self.token(notices.count), Self.user(notices.count))
        let newer = former + "-b"
        let isNew = Self.state(more: #""linkedPurchaseToken":"\#(former)""#)
        let isReplaced = Self.state(
            "EXPIRED", until: "2026-01-25T08:00:00Z", more: #""canceledStateContext":{"replacementCancellation":{}}"#)
        let answers = [(token: former, answer: isReplaced(account)), (token: newer, answer: isNew(account))]
        let (purchase, holder) = (Google.name(of: former), "user:" + account)
        for (token, number, type) in [(newer, 4, "SUBSCRIPTION_STARTED"), (former, 13, "SUBSCRIPTION_TERMINATED")] {
            let id = "google-\(notices.count)"
            let subject = Subject.subscription(number)
            notices.append(
                StoreNotice(
                    source: "play", id: id, body: Google.push(subject.member(token), id: id), name: subject.name,
                    type: type, holder: holder, purchase: purchase, access: [holder: true], money: nil,
                    answers: answers))
        }
    }

    private mutating func addOneTime() {
        func product(_ state: String) -> Answering {
            { account in
                let body =
                    #"{"productLineItem":[{"productId":"lifetime"}],"purchaseStateContext":{"purchaseState":"\#(state)"},"#
                    + #""orderId":"GPA.2","obfuscatedExternalAccountId":"\#(account ?? "")","#
                    + #""purchaseCompletionTime":"2026-01-15T08:00:00Z"}"#
                return (200, body)
            }
        }
        add("play", .oneTime(1), "PURCHASE_VALIDATED", .has, answer: product("PURCHASED"))
        add("play", .oneTime(2), "", .unstated, answer: product("CANCELLED"))
        // Final, also where the API still calls it bought.
        add(
            "play", .voided(productType: 2, refundType: 1), "DEACTIVATE", .hasNot, money: "back",
            answer: product("PURCHASED"))
        add("play", .voided(productType: 2, refundType: 2), "", .has, money: "back", answer: product("PURCHASED"))
    }

    private mutating func addOthers() {
        let test = Google.push(#""testNotification":{"version":"1.0"}"#, id: "test")
        let foreign =
            #"{"version":"1.0","packageName":"com.example.foreign","eventTimeMillis":"1","#
            + #""subscriptionNotification":{"version":"1.0","notificationType":2,"purchaseToken":"t"}}"#
        let unreadable = [
            Google.push(data: "garbage!", id: "garbage"), "{}",
            Google.push(data: Data(foreign.utf8).base64EncodedString(), id: "foreign"),
        ]
        for source in [Self.withoutAPI, "play"] {
            others.append(.init(source: source, body: test, status: 200))
            others += unreadable.map { StoreNotice.Other(source: source, body: $0, status: 200, isKept: true) }
            others.append(.init(source: source, body: Google.push(2, "t", id: "forged"), status: 401, isProven: false))
        }
    }

    // MARK: Answers

    /// - Parameter account: the account id that the app gave at purchase.
    private typealias Answering = (_ account: String?) -> Google.Answer

    /// An answer of purchases.subscriptionsv2.get about the purchase of an account.
    ///
    /// - Parameters:
    ///   - item: a member of the only line item; nil: none more.
    ///   - more: a member of the answer.
    private static func state(
        _ state: String = "ACTIVE", until: String = Google.end, order: String = "GPA.1", item: String? = nil,
        more: String? = nil
    ) -> Answering {
        { account in
            let answer = Google.state(state, account: account, until: until)
            let body = String(answer.body.dropLast()) + (more.map { "," + $0 } ?? "") + "}"
            return (200, body.replacing("\"GPA.1\"", with: "\"\(order)\"" + (item.map { "," + $0 } ?? "")))
        }
    }

    private mutating func ask(
        _ number: Int, _ type: String, _ access: StoreNotice.Access, state: String = "ACTIVE", item: String? = nil,
        more: String? = nil, isNamed: Bool = true, environment: String = "PRODUCTION"
    ) {
        add(
            "play", .subscription(number), type, access, environment: environment, isNamed: isNamed,
            answer: Self.state(state, item: item, more: more))
    }

    // MARK: Notifications

    private enum Subject {
        case subscription(Int)
        case oneTime(Int)
        case voided(productType: Int, refundType: Int)

        /// Google's constant, and the number where there is none.
        var name: String {
            switch self {
            case .subscription(let number):
                "SUBSCRIPTION_" + (GoogleTypes.subscriptions.first { $0.number == number }?.name ?? "")
            case .oneTime(let number):
                "ONE_TIME_PRODUCT_" + (number == 1 ? "PURCHASED" : number == 2 ? "CANCELED" : String(number))
            case .voided: "VOIDED_PURCHASE"
            }
        }

        func member(_ token: String) -> String {
            switch self {
            case .subscription(let number):
                #""subscriptionNotification":{"version":"1.0","notificationType":\#(number),"#
                    + #""purchaseToken":"\#(token)"}"#
            case .oneTime(let number):
                #""oneTimeProductNotification":{"version":"1.0","notificationType":\#(number),"#
                    + #""purchaseToken":"\#(token)","sku":"lifetime"}"#
            case .voided(let productType, let refundType):
                #""voidedPurchaseNotification":{"purchaseToken":"\#(token)","orderId":"GPA.1","#
                    + #""productType":\#(productType),"refundType":\#(refundType)}"#
            }
        }
    }

    private static func token(_ number: Int) -> String {
        "token-\(number)-" + String(repeating: "0123456789", count: 14)
    }

    private static func user(_ number: Int) -> String { "play-user-\(number)" }

    /// - Parameters:
    ///   - type: "": its own name.
    ///   - former: another notification about the same token; nil: it has one of its own.
    ///   - isNamed: whether the answer names the account.
    ///   - answer: of the API; nil: the source has none.
    /// - Returns: the number of the notification.
    @discardableResult
    private mutating func add(
        _ source: String, _ subject: Subject, _ type: String, _ access: StoreNotice.Access, of former: Int? = nil,
        at: Int64 = Webhook.epoch, isTimeNumber: Bool = false, isByMemory: Bool = false, money: String? = nil,
        environment: String = "PRODUCTION", isNamed: Bool = true, answer: Answering? = nil
    ) -> Int {
        let number = notices.count
        let (id, token) = ("google-\(number)", Self.token(former ?? number))
        let account = isNamed && answer != nil ? Self.user(former ?? number) : nil
        let purchase = Google.name(of: token)
        let holder = account.map { "user:" + $0 } ?? "anon:" + purchase
        var body = Google.push(subject.member(token), id: id, at: at)
        if isTimeNumber {
            let notification =
                #"{"version":"1.0","packageName":"com.example.app","eventTimeMillis":\#(at),\#(subject.member(token))}"#
            body = Google.push(data: Data(notification.utf8).base64EncodedString(), id: id)
        }
        var holders: [String: Bool] = access == .unstated ? [:] : [holder: access == .has]
        // A loss is stated of whoever has the purchase.
        if access == .hasNot { holders["anon:" + purchase] = false }
        notices.append(
            StoreNotice(
                source: source, id: id, body: body, name: subject.name, type: type.isEmpty ? subject.name : type,
                isByMemory: isByMemory, holder: holder, purchase: purchase, access: holders, money: money,
                environment: environment,
                answers: answer.map { [(token: token, answer: $0(account))] } ?? []))
        return number
    }

    /// One that is about no purchase and names nobody.
    private mutating func add(_ source: String, _ name: String, _ member: String) {
        let id = "google-\(notices.count)"
        notices.append(
            StoreNotice(
                source: source, id: id, body: Google.push(member, id: id), name: name, type: name, holder: "",
                purchase: nil, access: [:], money: nil))
    }
}
