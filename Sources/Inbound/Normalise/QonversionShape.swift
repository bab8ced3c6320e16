internal import JSONText
package import Vocabulary

/// Bodies in Qonversion's own shape: derived ones for `format = "source"`, invented ones for `posthouse send`.
extension Qonversion {
    /// A transfer as an event of this vendor, who sends none: an install is under `user_id` and an identity under
    /// `identity_id` as in all its bodies, and the other side under the same two names after `transferred_from_` or
    /// `transferred_to_`.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let messageHolder = transfer.messageHolder
        let other = transfer.otherHolder
        let otherField = transfer.otherPrefix + Self.field(of: other)
        var changes: DerivedBody.Changes = [
            ("event_name", .string(transfer.type)), ("event_id", .string(transfer.eventID)),
            ("user_id", .string(messageHolder.isAnonymous ? messageHolder.id : "")),
            ("identity_id", .string(messageHolder.isAnonymous ? "" : messageHolder.id)),
        ]
        for prefix in ["transferred_to_", "transferred_from_"] {
            for field in ["user_id", "identity_id"] where prefix + field != otherField {
                changes.append((prefix + field, .remove))
            }
        }
        changes.append((otherField, .string(other.id)))
        return JSONEdit.apply(changes, to: DerivedBody.object(original))
    }

    private static func field(of holder: Holder) -> String { holder.isAnonymous ? "user_id" : "identity_id" }

    /// The field set of the documented sample. The counterpart is the other one of install and identity, so that
    /// `--anonymous INSTALL --counterpart-user IDENTITY` is a purchase of a logged-in install.
    package func sample(_ request: SampleRequest) -> [UInt8] {
        let parties = [request.holder, request.counterpart].compactMap { $0 }
        return JSONWriter.object { body in
            body.member("event_name", request.eventName)
            body.member("user_id", parties.first(where: \.isAnonymous)?.id ?? "")
            body.member("custom_user_id", "")
            body.member("identity_id", parties.first { !$0.isAnonymous }?.id ?? "")
            body.member("advertiser_id", "00000000-0000-0000-0000-000000000000")
            body.member("time", Self.seconds(request.occurredAt))
            body.member("created_at", Self.seconds(request.occurredAt))
            body.member("product_id", "com.example.app.monthly")
            writeMoney(to: &body)
            body.key("transaction")
            body.object { writeTransaction(of: request, to: &$0) }
            body.key("properties")
            body.object { _ in }
            body.member("device_id", "0F6A1C9E-0000-4000-8000-000000000001")
            body.member("environment", request.environment.lowercased())
            body.member("platform", "iOS")
            body.member("ip", "192.0.2.1")
        }
    }

    package var sampleTransferNote: String {
        "No event does. --counterpart-user is the identity of the install."
    }

    private func writeMoney(to body: inout JSONWriter) {
        for key in ["revenue", "price"] {
            body.key(key)
            body.object { money in
                money.key("value")
                money.raw("9.99".utf8)
                money.key("value_usd")
                money.raw("9.99".utf8)
                money.member("currency", "USD")
                guard key == "revenue" else { return }
                money.member("is_proceed", 0)
                money.member("proceeds_rate", 70)
            }
        }
    }

    private func writeTransaction(of request: SampleRequest, to transaction: inout JSONWriter) {
        transaction.identifier("transaction_id", request.storeTransactionID)
        transaction.identifier("original_transaction_id", request.purchaseID)
        let isOver = QonversionNames.meaning(of: request.eventName)?.fact == .loss
        let isOneTime = QonversionNames.purchaseKind(of: request.eventName, expires: true) == .oneTime
        let paid: Int64 = isOver ? 0 : 30 * 86_400_000
        let expires = isOneTime ? nil : Self.seconds(request.occurredAt.advanced(byMilliseconds: paid))
        transaction.member("expires", expires)
        transaction.member("grace_period_expires", Int64?.none)
    }

    private static func seconds(_ time: Timestamp) -> Int64 { time.nearestWritable.milliseconds / 1_000 }
}

extension JSONWriter {
    /// Writes an id; one of digits alone is a number in this vendor's bodies.
    fileprivate mutating func identifier(_ key: String, _ id: String) {
        self.key(key)
        let isNumber = !id.isEmpty && id.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 } && id.utf8.first != 0x30
        if isNumber { raw(id.utf8) } else { string(id) }
    }
}
