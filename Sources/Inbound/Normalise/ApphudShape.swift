internal import JSONText
package import Vocabulary

/// Bodies in Apphud's own shape: derived ones for `format = "source"`, invented ones for `posthouse send`.
extension Apphud {
    /// A transfer as an event of this vendor, who sends none: another name and id under the user that it is about, and
    /// the other side in the event's properties.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let object = DerivedBody.object(original)
        let event = DerivedBody.inner("event", of: object)
        let otherField = transfer.otherPrefix + transfer.otherHolder.fieldName
        var properties: DerivedBody.Changes = []
        for prefix in ["transferred_to_", "transferred_from_"] {
            for field in ["user_id", "anonymous_user_id"] where prefix + field != otherField {
                properties.append((prefix + field, .remove))
            }
        }
        properties.append((otherField, .string(transfer.otherHolder.id)))
        let changes: DerivedBody.Changes = [
            ("id", .string(transfer.eventID)), ("name", .string(transfer.type)),
            ("properties", DerivedBody.changing("properties", of: event, properties)),
        ]
        return JSONEdit.apply(
            [
                ("event", DerivedBody.changing("event", of: object, changes)),
                ("user", DerivedBody.changing("user", of: object, [("user_id", .string(transfer.messageHolder.id))])),
            ], to: object)
    }

    /// The field set of the documented sample. Every user is a known one here, whatever the request names.
    package func sample(_ request: SampleRequest) -> [UInt8] {
        return JSONWriter.object { body in
            body.key("app")
            body.object { app in
                app.member("uid", "89a4b2c1")
                app.member("bundle_id", "com.example.app")
                app.member("package_name", "com.example.app.android")
            }
            body.key("event")
            body.object { writeEvent(of: request, to: &$0) }
            body.key("user")
            body.object { writeUser(of: request, to: &$0) }
        }
    }

    private static let product = "com.example.app.monthly"

    private func isOfPurchase(_ request: SampleRequest) -> Bool {
        !ApphudNames.notOfPurchases.contains(request.eventName)
    }

    private func isOneTime(_ request: SampleRequest) -> Bool {
        ApphudNames.purchaseKind(of: request.eventName) == .oneTime
    }

    private func writeEvent(of request: SampleRequest, to event: inout JSONWriter) {
        event.member("id", request.eventID)
        event.member("created_at", request.occurredAt.nearestWritable.iso8601)
        event.member("name", request.eventName)
        event.member("store", isOfPurchase(request) ? "app_store" : nil)
        event.key("properties")
        event.object { properties in
            guard isOfPurchase(request) else { return }
            properties.member("product_id", Self.product)
            properties.member("family_shared", false)
        }
        guard isOfPurchase(request) else { return }
        let offer = ApphudNames.offer(of: request.eventName)
        event.key("receipt")
        event.object { receipt in
            receipt.member("id", "106103fc-0000-4000-8000-000000000001")
            receipt.member("product_id", Self.product)
            receipt.member("transaction_id", request.storeTransactionID)
            receipt.member("original_transaction_id", request.purchaseID)
            receipt.member("purchased_at", request.occurredAt.nearestWritable.iso8601)
            receipt.member("trial_period", offer == SharedVocabulary.Offer.freeTrial)
            receipt.member("intro_period", offer == SharedVocabulary.Offer.intro)
            receipt.member("currency", "EUR")
            for (key, number) in [("price", "9.99"), ("price_usd", "10.89"), ("proceeds_usd", "9.2565")] {
                receipt.key(key)
                receipt.raw(number.utf8)
            }
            receipt.member("quantity", 1)
        }
    }

    private func writeUser(of request: SampleRequest, to user: inout JSONWriter) {
        user.member("user_id", request.holder.id)
        user.member("uid", "36c21695")
        user.member("created_at", request.occurredAt.nearestWritable.iso8601)
        user.key("subscriptions")
        user.array { subscriptions in
            guard isOfPurchase(request), !isOneTime(request) else { return }
            subscriptions.object { writeLine(of: request, to: &$0) }
        }
    }

    private func writeLine(of request: SampleRequest, to line: inout JSONWriter) {
        let isOver = ApphudNames.meaning(of: request.eventName)?.fact == .loss
        let expiresAt = request.occurredAt.advanced(byMilliseconds: isOver ? 0 : 30 * 86_400_000)
        line.member("id", "800e21d3-0000-4000-8000-000000000001")
        line.member("product_id", Self.product)
        line.member("original_transaction_id", request.purchaseID)
        line.member("status", isOver ? "expired" : "regular")
        line.member("environment", request.environment.lowercased())
        line.member("started_at", request.occurredAt.nearestWritable.iso8601)
        line.member("expires_at", expiresAt.nearestWritable.iso8601)
        line.member("autorenew_enabled", !isOver)
        line.member("store", "app_store")
    }
}
