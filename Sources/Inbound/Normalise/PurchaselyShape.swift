internal import JSONText
package import Vocabulary

/// Bodies in Purchasely's own shape: derived ones for `format = "source"`, invented ones for `posthouse send`.
extension Purchasely {
    /// A transfer about one side. No SUBSCRIPTION_RECEIVED sample is published: it mirrors TRANSFERRED, about the new
    /// holder and naming the old one.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let messageHolder = transfer.messageHolder
        let other = transfer.otherHolder
        let otherField = transfer.otherPrefix + other.fieldName
        var changes: DerivedBody.Changes = [
            ("event_name", .string(transfer.type)),
            ("event_id", .string(transfer.eventID)),
        ]
        for field in Self.holderFields where field != messageHolder.fieldName && field != otherField {
            changes.append((field, .remove))
        }
        changes.append((messageHolder.fieldName, .string(messageHolder.id)))
        changes.append((otherField, .string(other.id)))
        return JSONEdit.apply(changes, to: DerivedBody.object(original))
    }

    /// Also with `auth = "none"`: a proxy may have verified the webhook, and its receiver verifies the signature still.
    package func signatureHeaders(
        body: [UInt8], unixSeconds: Int64, authentication: Source.Authentication, secret: Secret
    ) -> [(name: String, value: String)] {
        PurchaselySignature.headers(body: body, unixSeconds: unixSeconds, secret: secret)
    }

    private static let holderFields = [
        "user_id", "anonymous_user_id", "transferred_to_user_id", "transferred_to_anonymous_user_id",
        "transferred_from_user_id", "transferred_from_anonymous_user_id",
    ]

    /// The field set of api_version 3, including prices under their dynamic keys.
    package func sample(_ request: SampleRequest) -> [UInt8] {
        return JSONWriter.object { body in
            body.member("api_version", 3)
            body.member("event_name", request.eventName)
            if let eventID = request.eventID { body.member("event_id", eventID) }
            body.time("event_created_at", request.occurredAt)
            body.member(request.holder.fieldName, request.holder.id)
            if let (field, id) = counterpartField(of: request) { body.member(field, id) }
            body.member("environment", request.environment)
            writePurchase(of: request, to: &body)
            body.member("offer_type", "NONE")
            body.member("previous_offer_type", "NONE")
            body.member("is_family_shared", false)
            body.member("customer_currency", "EUR")
            body.number("plan_price_in_eur", "9.99")
            body.number("plan_price_in_customer_currency", "9.99")
            body.number("cumulated_revenues_in_eur", "9.99")
            body.member("device_type", "PHONE")
            body.member("placement", "onboarding")
        }
    }

    package var sampleTransfers: [SampleTransfer] { SampleTransfer.native }

    package var sampleTransferNote: String {
        "ACTIVATE of another holder on the same --purchase: that holder gets it."
    }

    private func writePurchase(of request: SampleRequest, to body: inout JSONWriter) {
        let isOneTime =
            request.purchaseID.hasPrefix("otp_") || request.eventName.hasPrefix(PurchaselyNames.oneTimePrefix)
        let purchasedAt = request.occurredAt.advanced(byMilliseconds: -4_000)
        body.member(isOneTime ? "purchasely_one_time_purchase_id" : "purchasely_subscription_id", request.purchaseID)
        body.member("purchase_type", isOneTime ? "NON_CONSUMABLE" : "RENEWING_SUBSCRIPTION")
        body.member("product", "premium")
        body.member("plan", isOneTime ? "lifetime" : "premium_monthly")
        body.member("store", "APPLE_APP_STORE")
        body.member("store_country", "FR")
        body.member("store_product_id", isOneTime ? "com.example.app.lifetime" : "com.example.app.monthly")
        body.member("store_app_bundle_id", "com.example.app")
        body.member("store_transaction_id", request.storeTransactionID)
        body.member("store_original_transaction_id", request.storeTransactionID)
        body.time("purchased_at", purchasedAt)
        body.time("original_purchased_at", purchasedAt)
        guard !isOneTime else { return }
        let renewalAt = purchasedAt.advanced(byMilliseconds: 30 * 86_400_000)
        body.time("next_renewal_at", renewalAt)
        body.time("effective_next_renewal_at", renewalAt)
        body.member("subscription_status", status(for: request.eventName))
    }

    private func counterpartField(of request: SampleRequest) -> (field: String, id: String)? {
        guard let counterpart = request.counterpart else { return nil }
        return switch PurchaselyNames.factKind(of: request.eventName) {
        case .transferred: ("transferred_to_" + counterpart.fieldName, counterpart.id)
        case .received: ("transferred_from_" + counterpart.fieldName, counterpart.id)
        case .gain, .loss, .naming, .said, .passed, nil: nil
        }
    }

    /// The status in Purchasely's own samples.
    private func status(for eventName: String) -> String {
        switch eventName {
        case "RENEWAL_DISABLED": "AUTO_RENEWING_CANCELED"
        case PurchaselyNames.deactivate, "SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_TERMINATED", "SUBSCRIPTION_EXPIRED":
            "DEACTIVATED"
        case "SUBSCRIPTION_REFUNDED_REVOKED": "REVOKED"
        case "GRACE_PERIOD_STARTED": "IN_GRACE_PERIOD"
        case "ENTERED_BILLING_RETRY": "ON_HOLD"
        case "SUBSCRIPTION_PAUSED": "PAUSED"
        default: "AUTO_RENEWING"
        }
    }
}

extension JSONWriter {
    /// Writes both of Purchasely's spellings of a time: ISO 8601 and, under `_ms`, milliseconds.
    fileprivate mutating func time(_ key: String, _ time: Timestamp) {
        member(key, time.nearestWritable.iso8601)
        member(key + "_ms", time.nearestWritable.milliseconds)
    }

    fileprivate mutating func number(_ key: String, _ text: String) {
        self.key(key)
        raw(text.utf8)
    }
}
