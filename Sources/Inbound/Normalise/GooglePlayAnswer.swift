internal import JSONText
internal import Vocabulary

/// What the API answered about one event, and what the ledger knew of its token then: one JSON object, stored beside
/// the body as `Event.answer`. A replay or a repair reads it and asks nothing.
///
/// | member | |
/// |--|--|
/// | `asked_at_ms` | when the first request was sent, by the database's clock |
/// | `question` | `subscription` or `product` |
/// | `status` | 200; 404; 410, or 400 of the same meaning; null where nothing was asked |
/// | `purchase` | with 200: the API's answer without `subscribeWithGoogleInfo`, else byte for byte |
/// | `links` | of each token before this one: its name (`token`), `status` and `purchase`; null where it was known |
/// | `first_token` | the name of the first token: the purchase key |
/// | `known_environment`, `known_replaced` | what the ledger knew |
struct GooglePlayAnswer: Sendable {
    enum Outcome: Sendable {
        case state(GooglePlayState)
        /// 410, or 400: the purchase ended some two months ago or earlier.
        case ended
        /// 404: the API knows no such purchase, which proves nothing. Null: it was not asked.
        case noAnswer
    }

    /// One link of the chain that `linkedPurchaseToken` makes.
    struct Link: Sendable {
        let token: String
        /// nil: the ledger knew the token, so nothing was asked.
        let status: Int?
        let purchase: [UInt8]?
    }

    /// What `init(_:)` reads and `write` writes.
    struct Record: Sendable {
        let askedAt: Timestamp
        let kind: Purchase.Kind
        let status: Int?
        let purchase: [UInt8]?
        let links: [Link]
        let first: String
        let known: KnownToken?

        func write() -> [UInt8] {
            JSONWriter.object { json in
                json.member("asked_at_ms", askedAt.milliseconds)
                json.member("question", kind == .oneTime ? GooglePlayAnswer.product : GooglePlayAnswer.subscription)
                json.member("status", status)
                json.key("purchase")
                GooglePlayAnswer.write(purchase, to: &json)
                json.member("links", objects: links) { link, json in
                    json.member("token", link.token)
                    json.member("status", link.status)
                    json.key("purchase")
                    GooglePlayAnswer.write(link.purchase, to: &json)
                }
                json.member("first_token", first)
                json.member("known_environment", known?.environment)
                json.member("known_replaced", known?.isReplaced ?? false)
            }
        }
    }

    private static let subscription = "subscription"
    private static let product = "product"

    let askedAt: Timestamp
    let outcome: Outcome
    /// The name of the first token: the purchase key.
    let first: String
    /// nil: neither the API nor the ledger knew it.
    let environment: String?
    /// Whether another purchase has taken the place of this one.
    let isReplaced: Bool
    /// The names of the tokens before this one.
    let links: [String]

    /// Reads what `Record.write` wrote.
    init(_ document: [UInt8]) throws(Unreadable) {
        do throws(Unreadable) {
            try self.init(BodyFields(document))
        } catch {
            throw Unreadable(reason: "in the stored answer of the API, \(error.reason)")
        }
    }

    private init(_ fields: BodyFields) throws(Unreadable) {
        askedAt = try fields.requiredTime(.milliseconds("asked_at_ms"))
        first = try fields.requiredText("first_token")
        var names: [String] = []
        for link in fields.objects("links") { names.append(try link.requiredText("token")) }
        links = names
        let isProduct = try fields.requiredText("question") == Self.product
        let knownEnvironment = try fields.text("known_environment")
        let knownReplaced = fields.flag("known_replaced")
        switch try fields.text("status") {
        case "200":
            let purchase = try fields.requiredObject("purchase")
            let state =
                try isProduct
                ? GooglePlayState(oneTimeProduct: purchase)
                : GooglePlayState(subscription: purchase, askedAt: askedAt)
            outcome = .state(state)
            // A purchase that was recorded stays where it is.
            environment = knownEnvironment ?? state.environment
            isReplaced = knownReplaced || state.isReplaced
        case "410", "400":
            outcome = .ended
            environment = knownEnvironment
            isReplaced = knownReplaced
        case "404", nil:
            outcome = .noAnswer
            environment = knownEnvironment
            isReplaced = knownReplaced
        default: throw Unreadable(reason: "status is none that is stored")
        }
    }

    private static func write(_ purchase: [UInt8]?, to json: inout JSONWriter) {
        if let purchase { json.raw(purchase) } else { json.null() }
    }
}
