import JSONText
import Vocabulary

@testable import Inbound

func googlePlaySource(
    authentication: Source.Authentication = .token, app: String? = nil, defaultEnvironment: String? = "PRODUCTION",
    audiences: [String] = [PubSubFixtures.audience], accountID: AccountNaming = .user, api: StoreAPI? = nil
) -> Source {
    let settings = GooglePlaySettings(
        packages: ["com.example.app", "com.example.other"], audiences: audiences, sender: PubSubFixtures.sender,
        accountID: accountID, api: api)
    return Source(
        name: "play", kind: .googlePlay, authentication: authentication, secrets: [], app: app,
        defaultEnvironment: defaultEnvironment, freshness: nil, settings: .googlePlay(settings))
}

/// Pushes in the shape that Pub/Sub documents, with notifications in the shapes of Google's page "Real-time developer
/// notifications", and answers in those of its API reference. All values are our own.
enum GooglePlayFixtures {
    /// As long as real ones, which have 150 characters and more.
    static let token = "kgmbcdefhijklmnopqrstuvw.AO-J1Oy" + String(repeating: "0123456789", count: 10)
    static let messageID = "16820114525893603"
    static let occurredAt = Timestamp(milliseconds: 1_790_841_606_015)
    /// When the API was asked: some time later.
    static let askedAt = Timestamp(milliseconds: 1_790_845_000_000)
    static let expiresAt = Timestamp(milliseconds: 1_793_433_605_377)
    static let account = "7b8f2f4e-3c1d-4e5a-9b70-1f2a3c4d5e6f"

    /// Other tokens, each of a name of its own.
    static func otherToken(_ letter: String) -> String {
        String(repeating: letter, count: 24) + ".AO-J1Ox" + String(repeating: "9876543210", count: 10)
    }

    static func name(_ token: String = token) -> String { GooglePlayToken(token).name }

    // MARK: Pushes

    static func push(_ notification: String, messageID: String = messageID) -> String {
        let ids = #""messageId":"\#(messageID)","message_id":"\#(messageID)""#
        let times = #""publishTime":"2026-10-01T08:00:06.915Z","publish_time":"2026-10-01T08:00:06.915Z""#
        let data = Base64.encode(Array(notification.utf8))
        return #"{"message":{"data":"\#(data)",\#(ids),\#(times)},"subscription":"projects/p/subscriptions/s"}"#
    }

    static func notification(
        _ member: String, _ fields: String, package: String = "com.example.app", time: String = #""1790841606015""#
    ) -> String {
        #"{"version":"1.0","packageName":"\#(package)","eventTimeMillis":\#(time),"\#(member)":\#(fields)}"#
    }

    static func subscription(_ number: Int, token: String = token, package: String = "com.example.app") -> String {
        let fields = #"{"version":"1.0","notificationType":\#(number),"purchaseToken":"\#(token)"}"#
        return push(notification("subscriptionNotification", fields, package: package))
    }

    static func oneTimeProduct(_ number: Int) -> String {
        let fields = #"{"version":"1.0","notificationType":\#(number),"purchaseToken":"\#(token)","sku":"lifetime"}"#
        return push(notification("oneTimeProductNotification", fields))
    }

    static let voidedOrder = "GPA.3388-4471-9023-55182..0"

    static func voided(productType: String = "2", refundType: String? = "1", order: String = voidedOrder) -> String {
        let refund = refundType.map { #","refundType":\#($0)"# } ?? ""
        let fields = #"{"purchaseToken":"\#(token)","orderId":"\#(order)","productType":\#(productType)\#(refund)}"#
        return push(notification("voidedPurchaseNotification", fields))
    }

    static let pendingRefundReview = push(
        notification(
            "pendingRefundReviewNotification",
            #"{"version":"1.0","pendingRefundToken":"prt-1","orderId":"GPA.1","refundReason":7,"#
                + #""obfuscatedAccountId":"somebody"}"#))
    static let test = push(notification("testNotification", #"{"version":"1.0"}"#))
    static let unknown = push(
        notification("celebrationNotification", #"{"version":"1.0","purchaseToken":"\#(token)"}"#))

    /// One of each kind.
    static let all =
        [subscription(2), subscription(99), oneTimeProduct(1), voided(), pendingRefundReview, test, unknown]

    // MARK: Answers of the API

    /// An answer of purchases.subscriptionsv2.get, with members (raw JSON values) set or, where nil, taken out.
    static func state(_ state: String = "ACTIVE", _ fields: BodyEdit.Fields = []) -> String {
        let whole = """
            {
              "kind": "androidpublisher#subscriptionPurchaseV2",
              "startTime": "2026-09-01T08:00:05.377Z",
              "regionCode": "DE",
              "subscriptionState": "SUBSCRIPTION_STATE_\(state)",
              "latestOrderId": "GPA.3388-4471-9023-55182..0",
              "externalAccountIdentifiers": {
                "obfuscatedExternalAccountId": "\(account)",
                "obfuscatedExternalProfileId": "default"
              },
              "lineItems": [\(item())],
              "etag": "\\"8a1f\\""
            }
            """
        return BodyEdit.edit(whole, fields)
    }

    /// An entry of `lineItems`, with members set or taken out.
    static func item(_ fields: BodyEdit.Fields = []) -> String {
        let whole =
            #"{"productId":"plus","expiryTime":"2026-10-31T08:00:05.377Z","#
            + #""autoRenewingPlan":{"autoRenewEnabled":true},"offerDetails":{"basePlanId":"monthly"},"#
            + #""latestSuccessfulOrderId":"GPA.3388-4471-9023-55182..0"}"#
        return BodyEdit.edit(whole, fields)
    }

    static func items(_ items: String...) -> BodyEdit.Fields {
        [(key: "lineItems", raw: "[\(items.joined(separator: ","))]")]
    }

    /// An answer of purchases.productsv2.getproductpurchasev2.
    static func product(_ state: String = "PURCHASED", _ fields: BodyEdit.Fields = []) -> String {
        let whole =
            #"{"productLineItem":[{"productId":"lifetime.v2"}],"#
            + #""purchaseStateContext":{"purchaseState":"\#(state)"},"orderId":"GPA.3391-0047-6612-80913","#
            + #""obfuscatedExternalAccountId":"\#(account)","purchaseCompletionTime":"2026-09-05T18:40:00.220Z"}"#
        return BodyEdit.edit(whole, fields)
    }

    static func linked(to token: String, _ fields: BodyEdit.Fields = []) -> String {
        let link: BodyEdit.Fields = [(key: "linkedPurchaseToken", raw: "\"\(token)\"")]
        return state("ACTIVE", link + fields)
    }

    static let unknownToken = #"{"error":{"code":404,"errors":[{"reason":"purchaseTokenNotFound"}]}}"#
    static let gone = #"{"error":{"code":410,"errors":[{"reason":"purchaseTokenNoLongerValid"}]}}"#
}

/// The API and the ledger's table of tokens, as far as one event needs them.
struct FakePlay {
    typealias Answer = (status: Int, body: String)

    /// By token.
    var answers: [String: Answer] = [:]
    /// By token.
    var known: [String: KnownToken] = [:]
    /// Whether the source has an API.
    var asksAPI = true
    private(set) var asked: [GooglePlayEnrichment.Question] = []
    private(set) var lookedUp: [GooglePlayToken] = []

    init(_ answers: [String: Answer] = [:], known: [String: KnownToken] = [:]) {
        self.answers = answers
        self.known = known
    }

    /// The last step of an event; nil: nothing is asked, or it does not end.
    mutating func run(_ body: String) throws -> GooglePlayEnrichment.Step? {
        let notice = try GooglePlayNotice(Array(body.utf8))
        guard var enrichment = GooglePlayEnrichment(notice, asksAPI: asksAPI) else { return nil }
        var step = enrichment.start(known: row(enrichment.token), askedAt: GooglePlayFixtures.askedAt)
        for _ in 0..<64 {
            switch step {
            case .ask(let question):
                asked.append(question)
                let answer = answer(question)
                step = enrichment.answered(status: answer.status, body: Array(answer.body.utf8))
            case .lookUp(let token):
                lookedUp.append(token)
                step = enrichment.found(row(token))
            case .done, .asIs, .cannotSay, .unusable: return step
            }
        }
        return nil
    }

    /// The event that is recorded, and the document beside it.
    mutating func event(_ body: String, from source: Source = googlePlaySource()) throws -> Event {
        let step = try run(body)
        return try GooglePlay().normalise(Array(body.utf8), answer: step?.document, from: source)
    }

    private func row(_ token: GooglePlayToken) -> KnownToken? {
        known.first { GooglePlayToken($0.key) == token }?.value
    }

    private func answer(_ question: GooglePlayEnrichment.Question) -> Answer {
        let token =
            switch question {
            case .subscription(let token), .product(let token): token
            }
        return answers.first { GooglePlayToken($0.key) == token }?.value
            ?? (status: 404, body: GooglePlayFixtures.unknownToken)
    }
}

extension GooglePlayEnrichment.Step {
    /// What is stored with the event; nil: nothing is.
    var document: [UInt8]? {
        switch self {
        case .done(let answer): answer
        case .ask, .lookUp, .asIs, .cannotSay, .unusable: nil
        }
    }

    var kind: String {
        switch self {
        case .ask: "ask"
        case .lookUp: "look up"
        case .done(let answer): "answered " + ((try? BodyFields(answer).text("status")) ?? "nothing")
        case .asIs: "as it is"
        case .cannotSay: "cannot say"
        case .unusable: "unusable"
        }
    }
}

/// The event without the API.
func googlePlay(_ body: String, from source: Source = googlePlaySource()) throws -> Event {
    try GooglePlay().normalise(Array(body.utf8), header: { _ in nil }, from: source)
}

/// The event with one answer of the API about its own token.
func googlePlay(_ body: String, answered answer: String, from source: Source = googlePlaySource()) throws -> Event {
    var play = FakePlay([GooglePlayFixtures.token: (200, answer)])
    return try play.event(body, from: source)
}
