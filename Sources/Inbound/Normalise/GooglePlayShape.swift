internal import Crypto
internal import JSONText
package import Vocabulary

/// Bodies of Google Play: derived ones for `format = "source"`, invented ones for `posthouse send`.
extension GooglePlay {
    package var isSealed: Bool { true }

    /// A transfer in the shape of the format `standard`: a notification has no place for a holder, so a transfer in its
    /// own shape would name nobody.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let notice = try? GooglePlayNotice(original)
        return JSONWriter.object { json in
            json.member("type", transfer.type)
            json.member("timestamp", notice?.occurredAt.iso8601)
            json.key("data")
            json.object { data in
                data.member("event_id", transfer.eventID)
                data.member("event_name", transfer.type)
                data.member("holder", object: transfer.messageHolder) { $1.member($0.fieldName, $0.id) }
                data.key("transfer")
                data.object { sides in
                    sides.member("from", object: transfer.from) { $1.member($0.fieldName, $0.id) }
                    sides.member("to", object: transfer.to) { $1.member($0.fieldName, $0.id) }
                }
                data.key("original")
                if notice == nil { data.null() } else { data.raw(original) }
            }
        }
    }

    /// A push about an app of the name that the vendor's own examples have.
    package func sample(_ request: SampleRequest) -> [UInt8] { sample(request, packageName: "com.example.app") }

    /// A push as Pub/Sub sends it. It names no holder and no environment; the token is the request's `purchaseID`.
    /// - Parameter packageName: one of the source's packages; a notification about another app is quarantined.
    package func sample(_ request: SampleRequest, packageName: String) -> [UInt8] {
        let occurredAt = request.occurredAt.nearestWritable
        let notification = JSONWriter.object { json in
            json.member("version", Self.version)
            json.member("packageName", packageName)
            json.member("eventTimeMillis", String(occurredAt.milliseconds))
            writeSubject(of: request, to: &json)
        }
        let messageID = request.eventID ?? Self.messageID(of: notification)
        return JSONWriter.object { push in
            push.key("message")
            push.object { message in
                message.member("data", Base64.encode(notification))
                for key in ["messageId", "message_id"] { message.member(key, messageID) }
                for key in ["publishTime", "publish_time"] { message.member(key, occurredAt.iso8601) }
            }
            push.member("subscription", "projects/example/subscriptions/posthouse")
        }
    }

    package var sampleTransferNote: String { "A notification names no holder: only the API's answer does." }

    private static let version = "1.0"

    /// An id of the sample's own, so that the same sample is the same message.
    private static func messageID(of notification: [UInt8]) -> String {
        String(Identifier(bytes: SHA256.hash(data: notification)).high)
    }

    private func writeSubject(of request: SampleRequest, to json: inout JSONWriter) {
        switch GooglePlayNames.subject(named: request.eventName) {
        case .subscription(let number):
            json.member("subscriptionNotification", object: number) { number, inner in
                inner.member("version", Self.version)
                inner.member("notificationType", number)
                inner.member("purchaseToken", request.purchaseID)
            }
        case .oneTimeProduct(let number):
            json.member("oneTimeProductNotification", object: number) { number, inner in
                inner.member("version", Self.version)
                inner.member("notificationType", number)
                inner.member("purchaseToken", request.purchaseID)
                inner.member("sku", "com.example.app.lifetime")
            }
        case .voidedPurchase:
            json.member("voidedPurchaseNotification", object: request) { request, inner in
                inner.member("purchaseToken", request.purchaseID)
                inner.member("orderId", request.storeTransactionID)
                inner.member("productType", 2)
                inner.member("refundType", 1)
            }
        case .pendingRefundReview:
            json.member("pendingRefundReviewNotification", object: request) { request, inner in
                inner.member("version", Self.version)
                inner.member("pendingRefundToken", "prt-example")
                inner.member("orderId", request.storeTransactionID)
                inner.member("refundReason", 7)
            }
        case .test: json.member("testNotification", object: Self.version) { $1.member("version", $0) }
        case .unknown(let name):
            let member = name.hasSuffix("Notification") ? name : name + "Notification"
            json.member(member, object: Self.version) { $1.member("version", $0) }
        }
    }
}
