internal import JSONText
package import Vocabulary

/// A Real-time Developer Notification in the Pub/Sub push that carries it
/// (developer.android.com/google/play/billing/rtdn-reference; cloud.google.com/pubsub/docs/push, "Receive messages").
///
/// It names a purchase by its token, and nothing of the user, the state, the end or the environment.
package struct GooglePlayNotice: Sendable {
    enum Subject: Hashable, Sendable {
        /// `notificationType`.
        case subscription(Int64)
        /// `notificationType`.
        case oneTimeProduct(Int64)
        /// The kind is nil for a `productType` that is not documented. Whole: not only a part of the quantity.
        case voidedPurchase(Purchase.Kind?, isWhole: Bool)
        case pendingRefundReview
        case test
        /// A notification that is not documented, by the name of its member.
        case unknown(String)
    }

    /// Pub/Sub's id of the message: the same at each delivery, unique in its topic. It is the event's id.
    package let messageID: String
    /// `eventTimeMillis`.
    package let occurredAt: Timestamp
    /// The app. The API is asked about its purchases under this name.
    package let packageName: String
    let subject: Subject
    /// nil: the notification is about no purchase.
    package let token: GooglePlayToken?
    /// The product, where an older or a one-time notification names it.
    let product: String?
    /// The one payment that was voided.
    let orderID: String?
    /// The notification: a JSON object, byte for byte.
    let document: [UInt8]

    /// Reads a push. The error says where it cannot be read and never quotes it.
    package init(_ body: [UInt8]) throws(Unreadable) {
        let push = try BodyFields(body)
        guard push.contains("message") else {
            throw Unreadable(
                reason: "message is missing: switch off payload unwrapping in the push subscription at Pub/Sub")
        }
        let message = try push.requiredObject("message")
        // Both spellings are sent.
        let (camelCase, snakeCase) = (try message.strictText("messageId"), try message.strictText("message_id"))
        guard let messageID = camelCase ?? snakeCase else { throw Unreadable(reason: "message.messageId is missing") }
        let document = try Self.document(in: body)
        let content: Content
        do throws(Unreadable) {
            content = try Content(document)
        } catch {
            throw Unreadable(reason: "in message.data, \(error.reason)")
        }
        self.messageID = messageID
        self.document = document
        occurredAt = content.occurredAt
        packageName = content.packageName
        subject = content.subject
        token = content.token
        product = content.product
        orderID = content.orderID
    }

    /// `message.data`, decoded. Of any length that a body may have.
    private static func document(in body: [UInt8]) throws(Unreadable) -> [UInt8] {
        let data: String?
        do {
            data = try JSONScan.topObject(body, depthMax: Limits.jsonDepthMax).object("message")?.string("data")
        } catch {
            throw Unreadable(reason: "message.data cannot be read: \(error)")
        }
        guard let data, !data.isEmpty else { throw Unreadable(reason: "message.data is missing") }
        guard let document = Base64.decode(data) else { throw Unreadable(reason: "message.data is not base64") }
        return document
    }

    /// Throws unless the notification is about an app of the source: one topic may serve several apps, and the API is
    /// asked about the source's own alone.
    package func requireApp(of source: Source) throws(Unreadable) {
        guard case .googlePlay(let settings) = source.settings else { return }
        guard settings.packages.contains(where: { packageName.hasSameBytes(as: $0) }) else {
            throw Unreadable(reason: "in message.data, packageName is none of the source's packages")
        }
    }

    /// A refund, of all or of a part. Its amount is said nowhere: notifications name none, and the API's answer about a
    /// purchase has its recurring price before discounts and taxes, which is not what was charged.
    var isVoid: Bool {
        if case .voidedPurchase = subject { true } else { false }
    }

    /// The refund of a whole one-time purchase: the end of its token.
    var isWholeVoid: Bool { subject == .voidedPurchase(.oneTime, isWhole: true) }

    /// The notification and the API's answer about it, as one JSON object.
    func decoded(with answer: [UInt8]?) -> [UInt8] {
        JSONWriter.object { json in
            json.key("notification")
            json.raw(document)
            json.key("answer")
            if let answer { json.raw(answer) } else { json.null() }
        }
    }

    /// Of which kind its purchase is; nil: it is about none, or does not say so.
    var kind: Purchase.Kind? {
        switch subject {
        case .subscription: .subscription
        case .oneTimeProduct: .oneTime
        case .voidedPurchase(let kind, _): kind
        case .pendingRefundReview, .test, .unknown: nil
        }
    }
}

/// What the notification itself says.
private struct Content {
    let packageName: String
    let occurredAt: Timestamp
    let subject: GooglePlayNotice.Subject
    private(set) var token: GooglePlayToken?
    private(set) var product: String?
    private(set) var orderID: String?

    private static let subscription = "subscriptionNotification"
    private static let oneTimeProduct = "oneTimeProductNotification"
    private static let voidedPurchase = "voidedPurchaseNotification"
    private static let pendingRefundReview = "pendingRefundReviewNotification"
    private static let test = "testNotification"
    private static let documented = [subscription, oneTimeProduct, voidedPurchase, pendingRefundReview, test]
    /// The end of the name of every such member.
    private static let suffix = "Notification"

    init(_ document: [UInt8]) throws(Unreadable) {
        let fields = try BodyFields(document)
        packageName = try fields.requiredName("packageName")
        occurredAt = try Self.time(in: fields)
        let member = try Self.member(of: document, fields)
        let inner = try fields.requiredObject(member)
        switch member {
        case Self.subscription:
            subject = .subscription(try Self.number("notificationType", in: inner))
            token = GooglePlayToken(try inner.requiredText("purchaseToken"))
            product = try inner.text("subscriptionId")
        case Self.oneTimeProduct:
            subject = .oneTimeProduct(try Self.number("notificationType", in: inner))
            token = GooglePlayToken(try inner.requiredText("purchaseToken"))
            product = try inner.text("sku")
        case Self.voidedPurchase:
            subject = .voidedPurchase(
                try Self.kind(ofProductType: inner.text("productType")),
                isWhole: try Self.isWhole(refundType: inner.text("refundType")))
            token = GooglePlayToken(try inner.requiredText("purchaseToken"))
            orderID = try inner.text("orderId")
        case Self.pendingRefundReview: subject = .pendingRefundReview
        case Self.test: subject = .test
        default: subject = .unknown(member)
        }
    }

    /// The one member that is a notification: a documented one, else the first of that name.
    private static func member(of document: [UInt8], _ fields: BodyFields) throws(Unreadable) -> String {
        let known = documented.filter { fields.object($0) != nil }
        guard known.count <= 1 else {
            throw Unreadable(reason: "there are several notifications: \(known.joined(separator: ", "))")
        }
        let others = DerivedBody.object(document).keys.filter { $0.hasSuffix(suffix) && fields.object($0) != nil }
        guard let member = known.first ?? others.first else { throw Unreadable(reason: "there is no notification") }
        guard member.utf8.count <= Limits.identifierBytesMax else {
            throw Unreadable(reason: "the notification's name is longer than \(Limits.identifierBytesMax) bytes")
        }
        return member
    }

    /// Google documents a number and sends a string; both are taken.
    private static func time(in fields: BodyFields) throws(Unreadable) -> Timestamp {
        let time = Timestamp(milliseconds: try number("eventTimeMillis", in: fields))
        guard Timestamp.writable.contains(time) else {
            throw Unreadable(reason: "eventTimeMillis lies outside the years 0000 to 9999")
        }
        return time
    }

    private static func number(_ key: String, in fields: BodyFields) throws(Unreadable) -> Int64 {
        guard let number = Int64(try fields.requiredText(key)) else {
            throw Unreadable(reason: "\(key) is not an integer of 64 bits")
        }
        return number
    }

    private static func kind(ofProductType type: String?) -> Purchase.Kind? {
        switch type {
        case "1": .subscription
        case "2": .oneTime
        default: nil
        }
    }

    /// Older notifications have no `refundType`; they were all of the whole.
    private static func isWhole(refundType type: String?) -> Bool { type == nil || type == "1" }
}
