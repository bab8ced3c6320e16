/// A purchase at Google Play whose plan is changed twice, and what the Google Play Developer API answers about it as
/// time goes by. The relay is answered the state of the moment at which it asks, so what comes of a history depends on
/// when its webhooks arrive, not only on which they are. Two assumptions, both of which Google can keep:
///
/// - A purchase that goes on: each webhook arrives as early as its order of arrival allows, that is, with the newest
///   event so far. In order everything is read as it happens; in reverse order everything is read at the end.
/// - A purchase that is over: in order as above. In another order all webhooks were held back and arrive after the end,
///   so that the API answers the last state of each token.
struct PlayWorld: Sendable {
    enum Token: Int, Sendable, CaseIterable { case a, b, c }

    struct Notice: Sendable {
        let token: Token
        let type: String
        /// Of a subscription; nil: a payment was voided.
        let number: Int?

        /// The member of the notification.
        func member(_ text: String) -> String {
            guard let number else {
                return #""voidedPurchaseNotification":{"purchaseToken":"\#(text)","orderId":"GPA.1","#
                    + #""productType":1,"refundType":1}"#
            }
            return #""subscriptionNotification":{"version":"1.0","notificationType":\#(number),"#
                + #""purchaseToken":"\#(text)"}"#
        }
    }

    private static let upgradeToB = 2
    private static let upgradeToC = 4
    private static let expiry = 8

    private let number: Int
    private let isOver: Bool
    let user: String

    init(_ number: Int, isOver: Bool) {
        self.number = number
        self.isOver = isOver
        user = "play-user-\(number)"
    }

    /// In order of time: the position is the moment.
    var notices: [Notice] {
        let all = [
            Notice(token: .a, type: "SUBSCRIPTION_STARTED", number: 4),
            Notice(token: .a, type: "SUBSCRIPTION_RENEWED", number: 2),
            Notice(token: .b, type: "SUBSCRIPTION_STARTED", number: 4),
            Notice(token: .a, type: "SUBSCRIPTION_TERMINATED", number: 13),
            Notice(token: .c, type: "SUBSCRIPTION_STARTED", number: 4),
            Notice(token: .b, type: "SUBSCRIPTION_TERMINATED", number: 13),
            // Of a past period: the purchase goes on.
            Notice(token: .c, type: "VOIDED_PURCHASE", number: nil),
            Notice(token: .c, type: "SUBSCRIPTION_RENEWED", number: 2),
            Notice(token: .c, type: "SUBSCRIPTION_TERMINATED", number: 13),
        ]
        return isOver ? all : Array(all.dropLast())
    }

    func text(_ token: Token) -> String {
        "token-\(token)-\(number)-" + String(repeating: "0123456789", count: 14)
    }

    /// The name of the first token.
    var key: String { Google.name(of: text(.a)) }

    /// The moments at which the webhooks are read, by their order of arrival.
    func moments(_ order: [Int]) -> [Int] {
        if isOver, order != order.sorted() { return order.map { _ in Self.expiry } }
        var newest = 0
        return order.map { position in
            newest = max(newest, position)
            return newest
        }
    }

    private func current(at moment: Int) -> Token {
        moment < Self.upgradeToB ? .a : moment < Self.upgradeToC ? .b : .c
    }

    /// What the API answers about each token at a moment; one that was not bought yet is unknown.
    func answers(at moment: Int) -> [(token: String, answer: Google.Answer)] {
        let current = current(at: moment)
        return Token.allCases.filter { $0.rawValue <= current.rawValue }.map { token in
            let isReplaced = token != current
            let isExpired = isReplaced || moment == Self.expiry
            var more: [String] = []
            if let before = Token(rawValue: token.rawValue - 1) {
                more.append(#""linkedPurchaseToken":"\#(text(before))""#)
            }
            if isReplaced { more.append(#""canceledStateContext":{"replacementCancellation":{}}"#) }
            let answer = Google.state(
                isExpired ? "EXPIRED" : "ACTIVE", account: token == .c ? user : nil,
                until: isExpired ? "2026-01-25T08:00:00Z" : Google.end)
            // The members above are added before the closing brace.
            let body = String(answer.body.dropLast()) + more.map { "," + $0 }.joined() + "}"
            return (token: text(token), answer: (status: answer.status, body: body))
        }
    }

    /// Only the current token says something: a transfer shows if the anonymous holder was read to have the purchase,
    /// and the user after that.
    func outcome(_ order: [Int], anonymous: String, user: String) -> StoreHistory.Outcome {
        var access: [String: Bool] = [:]
        var (isGained, isEnded) = (false, false)
        for (position, moment) in zip(order, moments(order)) {
            let token = notices[position].token
            guard token == current(at: moment) else { continue }
            if token == .c {
                access[user] = moment < Self.expiry
                isGained = isGained || moment < Self.expiry
                isEnded = isEnded || moment == Self.expiry
            } else {
                access[anonymous] = true
            }
        }
        let isTransfer = access[anonymous] != nil && isGained
        // Once the user is known, nobody else has it; an end is stated of whoever has the purchase.
        if access[anonymous] != nil || isEnded { access[anonymous] = false }
        return StoreHistory.Outcome(access: access, isTransfer: isTransfer)
    }
}
