internal import JSONText
package import Vocabulary

/// Bodies in RevenueCat's own shape: derived ones for `format = "source"`, invented ones for `posthouse send`.
extension RevenueCat {
    /// A transfer about one side: the original's `event` under the transfer's own name, with both sides in the lists
    /// that TRANSFER has. The vendor's own TRANSFER is about customers only, never about one purchase: under that name
    /// a receiver would move everything that they hold.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let object = DerivedBody.object(original)
        let event = DerivedBody.changing(
            "event", of: object,
            [
                ("type", .string(transfer.type)),
                ("id", .string(transfer.eventID)),
                ("app_user_id", .string(transfer.messageHolder.id)),
                ("transferred_from", DerivedBody.texts([transfer.from.id])),
                ("transferred_to", DerivedBody.texts([transfer.to.id])),
            ] + Self.purchaseFields(of: transfer))
        return JSONEdit.apply([("event", event)], to: object)
    }

    /// The fields of the purchase, because a TRANSFER names none.
    private static func purchaseFields(of transfer: DerivedTransfer) -> DerivedBody.Changes {
        guard let purchase = transfer.unnamedPurchase else { return [] }
        let fields: [(String, String?)] = [
            ("product_id", purchase.product), ("transaction_id", transfer.unnamedTransaction?.storeTransactionID),
            ("original_transaction_id", purchase.key),
        ]
        return fields.compactMap { name, value in value.map { (key: name, change: .string($0)) } }
    }

    package func sample(_ request: SampleRequest) -> [UInt8] {
        return JSONWriter.object { body in
            body.key("event")
            body.object { event in
                event.member("event_timestamp_ms", request.occurredAt.nearestWritable.milliseconds)
                event.member("type", request.eventName)
                if let eventID = request.eventID { event.member("id", eventID) }
                event.member("app_id", "app1234567890")
                let isOfCurrency = request.eventName == RevenueCatNames.virtualCurrency
                event.member(isOfCurrency ? "purchase_environment" : "environment", request.environment)
                event.member("store", "APP_STORE")
                if request.eventName == RevenueCatNames.transfer {
                    writePassing(from: "transferred_from", to: "transferred_to", of: request, to: &event)
                } else if request.eventName == RevenueCatNames.redeemed {
                    writePassing(from: "redeemed_from", to: "redeemed_by", of: request, to: &event)
                    event.member("redemption_outcome", "transfer")
                } else {
                    writeCustomer(of: request, to: &event)
                    if isOfCurrency {
                        event.member("transaction_id", request.storeTransactionID)
                    } else if ![RevenueCatNames.test, RevenueCatNames.alias].contains(request.eventName) {
                        writePurchase(of: request, to: &event)
                    }
                }
            }
            body.member("api_version", "1.0")
        }
    }

    package var sampleTransfers: [SampleTransfer] {
        [RevenueCatNames.transfer, RevenueCatNames.redeemed].map { SampleTransfer(eventName: $0, role: .gets) }
    }

    /// Writes that everything passes from the counterpart, or an invented customer, to the holder.
    private func writePassing(
        from fromKey: String, to toKey: String, of request: SampleRequest, to event: inout JSONWriter
    ) {
        let from = request.counterpart ?? .anonymous("before-the-transfer")
        for (key, holder) in [(fromKey, from), (toKey, request.holder)] {
            event.member(key, strings: [RevenueCatNames.id(of: holder)])
        }
    }

    private func writeCustomer(of request: SampleRequest, to event: inout JSONWriter) {
        let id = RevenueCatNames.id(of: request.holder)
        event.member("app_user_id", id)
        event.member("original_app_user_id", id)
        event.member("aliases", strings: [id])
        event.key("subscriber_attributes")
        event.object { _ in }
    }

    private func writePurchase(of request: SampleRequest, to event: inout JSONWriter) {
        let isOneTime = request.eventName == "NON_RENEWING_PURCHASE"
        let purchasedAt = request.occurredAt.advanced(byMilliseconds: -4_000)
        let expiresAt = purchasedAt.advanced(byMilliseconds: 30 * Self.dayMilliseconds)
        event.member("product_id", isOneTime ? "com.example.app.lifetime" : "com.example.app.monthly")
        event.member("period_type", "NORMAL")
        event.member("purchased_at_ms", purchasedAt.nearestWritable.milliseconds)
        event.member("expiration_at_ms", isOneTime ? nil : expiresAt.nearestWritable.milliseconds)
        event.member("transaction_id", request.storeTransactionID)
        event.member("original_transaction_id", request.purchaseID)
        event.member("is_family_share", false)
        event.member("entitlement_ids", strings: ["premium"])
        event.member("presented_offering_id", "default")
        event.member("country_code", "FR")
        event.member("currency", "EUR")
        event.key("price")
        event.raw("10.89".utf8)
        event.key("price_in_purchased_currency")
        event.raw("9.99".utf8)
        writeParticulars(of: request.eventName, expiresAt: expiresAt, to: &event)
    }

    private func writeParticulars(of eventName: String, expiresAt: Timestamp, to event: inout JSONWriter) {
        switch eventName {
        case "RENEWAL": event.member("is_trial_conversion", false)
        case "CANCELLATION": event.member("cancel_reason", "UNSUBSCRIBE")
        case "EXPIRATION": event.member("expiration_reason", "UNSUBSCRIBE")
        case RevenueCatNames.productChange: event.member("new_product_id", "com.example.app.yearly")
        case "BILLING_ISSUE":
            let graceEnd = expiresAt.advanced(byMilliseconds: 16 * Self.dayMilliseconds)
            event.member("grace_period_expiration_at_ms", graceEnd.nearestWritable.milliseconds)
        case "SUBSCRIPTION_PAUSED":
            let resumesAt = expiresAt.advanced(byMilliseconds: 30 * Self.dayMilliseconds)
            event.member("auto_resume_at_ms", resumesAt.nearestWritable.milliseconds)
        default: return
        }
    }

    private static let dayMilliseconds: Int64 = 86_400_000
}
