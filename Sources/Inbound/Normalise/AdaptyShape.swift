internal import JSONText
package import Vocabulary

/// Bodies in Adapty's own shape: derived ones for `format = "source"`, invented ones for `posthouse send`.
extension Adapty {
    /// A transfer in the vendor's envelope, which has none of its own: about one side, and naming the other by the
    /// vendor's own keys.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let messageHolder = transfer.messageHolder
        let other = transfer.otherHolder
        let object = DerivedBody.object(original)

        var changes: DerivedBody.Changes = [("event_type", .string(transfer.type))]
        // The original's profile stays only if it belongs to the holder that this message is about.
        let isOwn = !messageHolder.isAnonymous && (try? object.digits("customer_user_id")) == messageHolder.id
        if !isOwn {
            changes.append((messageHolder.isAnonymous ? "customer_user_id" : "profile_id", .remove))
            changes.append((messageHolder.adaptyKey, .string(messageHolder.id)))
        }
        var inside: DerivedBody.Changes = [("profile_event_id", .string(transfer.eventID))]
        if messageHolder.isAnonymous { inside.append(("profile_id", .string(messageHolder.id))) }
        if !messageHolder.isAnonymous && !isOwn { inside.append(("profile_id", .remove)) }
        changes.append(("event_properties", DerivedBody.changing("event_properties", of: object, inside)))
        changes.append((transfer.otherPrefix + other.adaptyKey, .string(other.id)))
        return JSONEdit.apply(changes, to: object)
    }

    package func sample(_ request: SampleRequest) -> [UInt8] {
        // The invented profile of a known user belongs to that user alone.
        let profile = request.holder.isAnonymous ? request.holder.id : "profile-of-\(request.holder.id)"
        return JSONWriter.object { body in
            body.member("profile_id", profile)
            body.member("customer_user_id", request.holder.isAnonymous ? nil : request.holder.id)
            body.member("event_type", request.eventName)
            body.adaptyTime("event_datetime", request.occurredAt)
            body.key("event_properties")
            body.object { properties in
                properties.member("profile_id", profile)
                if let eventID = request.eventID { properties.member("profile_event_id", eventID) }
                properties.adaptyTime("event_datetime", request.occurredAt)
                properties.member("environment", Self.spelled(environment: request.environment))
                writePurchase(of: request, to: &properties)
            }
            body.member("event_api_version", 1)
            body.member("profiles_sharing_access_level", strings: [])
            body.key("user_attributes")
            body.object { _ in }
        }
    }

    private func writePurchase(of request: SampleRequest, to properties: inout JSONWriter) {
        let isOneTime = request.eventName.hasPrefix(AdaptyNames.oneTimePrefix)
        let purchasedAt = request.occurredAt.advanced(byMilliseconds: -4_000)
        let expiresAt = purchasedAt.advanced(byMilliseconds: 30 * 86_400_000)
        properties.member("store", "app_store")
        properties.member("store_country", "FR")
        properties.member("vendor_product_id", isOneTime ? "com.example.app.lifetime" : "com.example.app.monthly")
        properties.member("transaction_id", request.storeTransactionID)
        properties.member("original_transaction_id", request.purchaseID)
        properties.adaptyTime("purchase_date", purchasedAt)
        properties.adaptyTime("original_purchase_date", purchasedAt)
        if !isOneTime { properties.adaptyTime("subscription_expires_at", expiresAt) }
        properties.member("currency", "EUR")
        properties.key("price_local")
        properties.raw("9.99".utf8)
        if request.eventName.hasPrefix("trial_") { properties.member("trial_duration", "7 days") }
        if request.eventName.hasSuffix("_refunded") { properties.member("cancellation_reason", "refund") }
        guard request.eventName == AdaptyNames.accessLevel else { return }
        properties.member("access_level_id", "premium")
        properties.adaptyTime("activated_at", purchasedAt)
        properties.adaptyTime("expires_at", expiresAt)
        properties.member("is_active", true)
        properties.member("is_lifetime", false)
        properties.member("is_refund", false)
        properties.member("is_in_grace_period", false)
        properties.member("will_renew", true)
        properties.member("profile_has_access_level", true)
    }

    /// The vendor's spelling of the two environments: a capital, then lower case.
    private static func spelled(environment: String) -> String {
        switch environment {
        case SharedVocabulary.production: "Production"
        case SharedVocabulary.sandbox: "Sandbox"
        default: environment
        }
    }
}

extension Holder {
    fileprivate var adaptyKey: String { isAnonymous ? "profile_id" : "customer_user_id" }
}

extension JSONWriter {
    /// The vendor's spelling of times: with microseconds, and an offset without a colon.
    fileprivate mutating func adaptyTime(_ key: String, _ time: Timestamp) {
        member(key, "\(time.nearestWritable.iso8601.dropLast())000+0000")
    }
}
