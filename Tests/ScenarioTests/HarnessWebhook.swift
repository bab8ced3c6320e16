import Crypto
import Foundation
import Vocabulary

/// A webhook in the shape that Purchasely publishes for api_version 3 (docs.purchasely.com/docs/webhook), with values
/// of our own. What older versions leave out (`event_id`, `purchase_type`) is left out unless a test sets it.
struct Webhook: Sendable {
    var name: String
    var holder: Holder
    /// The other side, of the native transfer events.
    var counterpart: Holder?
    var eventID: String?
    /// `event_created_at_ms`
    var at: Int64
    /// `subs_…` or `otp_…`
    var purchase: String
    var transaction: String
    var purchaseType: String?
    var environment = "PRODUCTION"
    var purchasedAt: Int64
    var renewsAt: Int64?
    var status: String?

    /// A time that all scenarios start from: 2026-01-15T08:00:00Z. Nothing in the relay depends on today.
    static let epoch: Int64 = 1_768_464_000_000
    static let day: Int64 = 86_400_000

    init(
        _ name: String, _ holder: Holder, to counterpart: Holder? = nil, purchase: String, transaction: String? = nil,
        at: Int64 = Webhook.epoch, eventID: String? = nil, paidDays: Int64 = 30
    ) {
        self.name = name
        self.holder = holder
        self.counterpart = counterpart
        self.eventID = eventID
        self.at = at
        self.purchase = purchase
        self.transaction = transaction ?? "7000" + purchase.filter(\.isNumber)
        purchasedAt = at - 4_000
        renewsAt = purchase.hasPrefix("otp_") ? nil : purchasedAt + paidDays * Self.day
        status = purchase.hasPrefix("otp_") ? nil : "AUTO_RENEWING"
    }

    var body: [UInt8] {
        var members: [(String, String)] = [
            ("api_version", "3"), ("event_name", Self.quoted(name)),
            ("event_created_at", Self.quoted(Timestamp(milliseconds: at).iso8601)), ("event_created_at_ms", "\(at)"),
            (holder.fieldName, Self.quoted(holder.id)), ("environment", Self.quoted(environment)),
            ("store", Self.quoted("APPLE_APP_STORE")), ("store_country", "null"),
            ("store_app_bundle_id", Self.quoted("com.example.app")),
            ("store_product_id", Self.quoted("com.example.app.monthly")), ("product", Self.quoted("premium")),
            ("plan", Self.quoted("premium_monthly")), ("offer_type", Self.quoted("NONE")),
            ("is_family_shared", "false"), ("store_transaction_id", Self.quoted(transaction)),
            ("store_original_transaction_id", Self.quoted("7000")), ("purchased_at_ms", "\(purchasedAt)"),
            ("plan_price_in_eur", "9.99"), ("customer_currency", Self.quoted("EUR")),
        ]
        let isOneTime = purchase.hasPrefix("otp_")
        members.append(
            (isOneTime ? "purchasely_one_time_purchase_id" : "purchasely_subscription_id", Self.quoted(purchase)))
        if let eventID { members.append(("event_id", Self.quoted(eventID))) }
        if let purchaseType { members.append(("purchase_type", Self.quoted(purchaseType))) }
        if let status { members.append(("subscription_status", Self.quoted(status))) }
        if let renewsAt {
            members.append(("next_renewal_at_ms", "\(renewsAt)"))
            members.append(("effective_next_renewal_at_ms", "\(renewsAt)"))
        }
        if let counterpart {
            let prefix = name.hasSuffix("_RECEIVED") ? "transferred_from_" : "transferred_to_"
            members.append((prefix + counterpart.fieldName, Self.quoted(counterpart.id)))
        }
        return Array(("{" + members.map { "\(Self.quoted($0.0)):\($0.1)" }.joined(separator: ",") + "}").utf8)
    }

    /// JSON text of the ids that tests use: they need no escapes.
    private static func quoted(_ text: String) -> String { "\"\(text)\"" }
}

/// The sending side: signs and posts as Purchasely does.
struct Source: Sendable {
    var name = "purchasely"
    var secret = "source-secret"
    let port: UInt16

    var path: String { "/ingest/\(name)" }

    /// HMAC-SHA256(secret, timestamp ++ body) in hex, beside the timestamp.
    func signatureHeaders(
        _ body: [UInt8], secret: String? = nil, timestamp: String? = nil
    ) -> [(String, String)] {
        let timestamp = timestamp ?? String(Int(Date().timeIntervalSince1970))
        let signature = Self.signature(body, secret: secret ?? self.secret, timestamp: timestamp)
        return [("X-PURCHASELY-TIMESTAMP", timestamp), ("X-PURCHASELY-REQUEST-SIGNATURE", signature)]
    }

    static func signature(_ body: [UInt8], secret: String, timestamp: String) -> String {
        var code = HMAC<SHA256>(key: SymmetricKey(data: Array(secret.utf8)))
        code.update(data: Array(timestamp.utf8))
        code.update(data: body)
        return code.finalize().map { String(format: "%02x", $0) }.joined()
    }

    /// A kept-alive connection for one thread.
    func connect() -> SourceConnection { SourceConnection(self) }

    /// Posts on a connection of its own, and again while it is answered 503 (`insisting`).
    /// - Returns: the status it was answered with.
    @discardableResult
    func post(_ body: [UInt8]) throws -> Int { try connect().insist(on: body).status }

    @discardableResult
    func post(_ webhook: Webhook) throws -> Int { try post(webhook.body) }

    /// Where 503 is an answer like the others.
    @discardableResult
    func postOnce(_ webhook: Webhook) throws -> Int { try connect().post(webhook.body).status }
}

/// One kept-alive connection of a source. Used by one thread at a time.
final class SourceConnection {
    let source: Source
    private let client: HTTPClient

    init(_ source: Source) {
        self.source = source
        client = HTTPClient(port: source.port)
    }

    /// Throws when there is no answer: whether the webhook was stored is not known then.
    func post(_ body: [UInt8]) throws -> HTTPMessage { try post(body, headers: source.signatureHeaders(body)) }

    /// The same, and again while it is answered 503 (`insisting`).
    /// - Parameter headers: nil: signed each time.
    func insist(on body: [UInt8], headers: [(String, String)]? = nil) throws -> HTTPMessage {
        try insisting { try post(body, headers: headers ?? source.signatureHeaders(body)) }
    }

    func post(_ body: [UInt8], headers: [(String, String)]) throws -> HTTPMessage {
        try client.request(
            "POST", source.path, headers: [("content-type", "application/json")] + headers, body: body)
    }
}
