/// The short life of one purchase as its store's webhooks tell it, and what must come of them. The expected values are
/// written here by hand: types and holders of the events after posthouse-sources(7), the rest after what a person reads
/// off the history.
///
/// It is shorter than 21 days, beyond which a late webhook may change nothing any more
/// (Domain.md, "State of a purchase").
struct StoreHistory: Sendable {
    /// One webhook.
    struct Notice: Sendable {
        let id: String
        let type: String
        /// Storage key of the holder that the event itself names.
        let holder: String
        let body: String
    }

    struct Outcome: Sendable {
        /// Storage keys of holders.
        let access: [String: Bool]
        /// From the anonymous holder to the user, once.
        let isTransfer: Bool
    }

    /// The source's name, which its path ends in.
    let source: String
    /// The purchase key.
    let key: String
    let anonymousID: String
    let userID: String
    /// Whether the last notice is the end of the purchase.
    let isOver: Bool
    /// In order of time.
    private(set) var notices: [Notice] = []
    /// Google's alone: the other stores' webhooks say all by themselves.
    private(set) var play: PlayWorld?

    private var anonymous: String { "anon:" + anonymousID }
    private var user: String { "user:" + userID }

    /// What comes of the notices in an order of arrival.
    func outcome(_ order: [Int]) -> Outcome {
        if let play { return play.outcome(order, anonymous: anonymous, user: user) }
        return Outcome(access: [anonymous: false, user: !isOver], isTransfer: true)
    }

    private mutating func add(_ type: String, _ holder: String, _ body: (_ id: String) throws -> String) rethrows {
        let id = "\(source)-\(key)-\(notices.count)"
        notices.append(Notice(id: id, type: type, holder: holder, body: try body(id)))
    }

    private static let second: Int64 = 1_000
    /// Of one period.
    private static let days: Int64 = 5

    // MARK: Apple

    /// Bought without an account token; the token shows five seconds after the first period's end, with the renewal,
    /// and never again.
    static func apple(_ number: Int, isOver: Bool, from store: AppStore) throws -> StoreHistory {
        let purchase = "70\(1_000_000 + number)"
        let digits = String(number)
        let user = "0a1b2c3d-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits
        var history = StoreHistory(
            source: "apple", key: purchase, anonymousID: purchase, userID: user, isOver: isOver)
        let (anonymous, named) = (history.anonymous, history.user)

        /// - Parameter day: since the purchase.
        func add(
            _ name: String, _ type: String, day: Int64, seconds: Int64 = 5, period: Int, token: String? = nil,
            status: Int = 1, isRefunded: Bool = false
        ) throws {
            let start = Webhook.epoch + Int64(period) * Self.days * Webhook.day
            let paid = AppStore.Period(
                purchase: purchase, number: period, start: start, end: start + Self.days * Webhook.day)
            try history.add(type, token == nil ? anonymous : named) { id in
                try store.notification(
                    name, id: id, at: Webhook.epoch + day * Webhook.day + seconds * Self.second, paid, token: token,
                    status: status, isRefunded: isRefunded)
            }
        }

        try add("SUBSCRIBED/INITIAL_BUY", "SUBSCRIPTION_STARTED", day: 0, period: 0)
        try add("DID_RENEW", "SUBSCRIPTION_RENEWED", day: 5, period: 1, token: user)
        try add("DID_RENEW", "SUBSCRIPTION_RENEWED", day: 10, period: 2)
        // Of the first period, while the third is paid: its status is active.
        try add("REFUND", "SUBSCRIPTION_REFUNDED_REVOKED", day: 11, period: 0, isRefunded: true)
        if isOver {
            try add("EXPIRED/VOLUNTARY", "SUBSCRIPTION_TERMINATED", day: 15, seconds: 3, period: 2, status: 2)
        }
        return history
    }

    // MARK: Stripe

    enum StripeNaming {
        /// By a completed session five seconds after the subscription was made, and never again.
        case session
        /// By metadata that the app sets five seconds after the first period's end.
        case metadata
    }

    static func stripe(_ number: Int, _ naming: StripeNaming, isOver: Bool) -> StoreHistory {
        let customer = Stripe.Customer(id: "cus_\(number)", subscription: "sub_\(number)")
        let user = "stripe-user-\(number)"
        var history = StoreHistory(
            source: "stripe", key: customer.subscription, anonymousID: customer.id, userID: user, isOver: isOver)
        let (anonymous, named) = (history.anonymous, history.user)
        let start = Webhook.epoch / Self.second
        let day = Webhook.day / Self.second
        let period = Self.days * day
        let (renewal, end) = (start + period, start + 2 * period)

        history.add("SUBSCRIPTION_STARTED", anonymous) { id in
            Stripe.event(
                "customer.subscription.created", id: id, at: start,
                customer.subscription("active", from: start, to: renewal, user: nil))
        }
        if naming == .session {
            history.add("checkout.session.completed", named) { id in
                Stripe.event("checkout.session.completed", id: id, at: start + 5, customer.session(user: user))
            }
        }
        // The period moves first; that alone has no name. An hour later the invoice is paid.
        history.add("customer.subscription.updated", anonymous) { id in
            Stripe.event(
                "customer.subscription.updated", id: id, at: renewal,
                customer.subscription("active", from: renewal, to: end, user: nil),
                previous: #"{"items":\#(customer.items(from: start, to: renewal)),"latest_invoice":"in_\#(start)"}"#)
        }
        if naming == .metadata {
            history.add("customer.subscription.updated", named) { id in
                Stripe.event(
                    "customer.subscription.updated", id: id, at: renewal + 5,
                    customer.subscription("active", from: renewal, to: end, user: user),
                    previous: #"{"metadata":{"user_id":null}}"#)
            }
        }
        history.add("SUBSCRIPTION_RENEWED", anonymous) { id in
            Stripe.event(
                "invoice.paid", id: id, at: renewal + 3_600, customer.invoice(from: renewal, to: end, user: nil))
        }
        // Of the first period. A charge names no subscription: a message about no purchase.
        history.add("charge.refunded", anonymous) { id in
            Stripe.event(
                "charge.refunded", id: id, at: renewal + day, customer.refundedCharge(at: start),
                previous: #"{"amount_refunded":0,"refunded":false}"#)
        }
        if isOver {
            let owner = naming == .metadata ? user : nil
            history.add("SUBSCRIPTION_TERMINATED", owner == nil ? anonymous : named) { id in
                Stripe.event(
                    "customer.subscription.deleted", id: id, at: end,
                    customer.subscription("canceled", from: renewal, to: end, user: owner, endedAt: end))
            }
        }
        return history
    }

    // MARK: Google

    /// Bought without an account, changed to a second plan without one and to a third with one: three tokens.
    static func google(_ number: Int, isOver: Bool) -> StoreHistory {
        let world = PlayWorld(number, isOver: isOver)
        var history = StoreHistory(
            source: "play", key: world.key, anonymousID: world.key, userID: world.user, isOver: isOver)
        history.play = world
        for (position, notice) in world.notices.enumerated() {
            let holder = notice.token == .c ? history.user : history.anonymous
            history.add(notice.type, holder) { id in
                Google.push(
                    notice.member(world.text(notice.token)), id: id,
                    at: Webhook.epoch + Int64(position) * Webhook.day)
            }
        }
        return history
    }

    private init(source: String, key: String, anonymousID: String, userID: String, isOver: Bool) {
        self.source = source
        self.key = key
        self.anonymousID = anonymousID
        self.userID = userID
        self.isOver = isOver
    }
}
