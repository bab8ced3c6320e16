internal import JSONText
package import Vocabulary

/// Bodies in Stripe's own shape: derived ones for `format = "source"`, invented ones for `posthouse send`.
extension Stripe {
    /// A transfer as an event of this vendor, who sends none: another type and id, and both sides in members of the
    /// event that Stripe does not have. Where the object names one of the two users, it names the one that the event is
    /// about.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let object = DerivedBody.object(original)
        let (holder, other) = (transfer.messageHolder, transfer.otherHolder)
        var changes: DerivedBody.Changes = [("type", .string(transfer.type)), ("id", .string(transfer.eventID))]
        let inObject = Self.holderFields(in: object, of: transfer)
        if !inObject.isEmpty {
            let data = DerivedBody.inner("data", of: object)
            let changed = DerivedBody.changing("object", of: data, inObject)
            changes.append(("data", DerivedBody.changing("data", of: object, [("object", changed)])))
        }
        changes.append((holder.fieldName, .string(holder.id)))
        changes.append((transfer.otherPrefix + other.fieldName, .string(other.id)))
        return JSONEdit.apply(changes + Self.purchaseFields(of: transfer), to: object)
    }

    /// The changes of `data.object`: a session's `client_reference_id`, and the metadata that name one of the two
    /// users, under whatever key.
    private static func holderFields(in event: JSONObject, of transfer: DerivedTransfer) -> DerivedBody.Changes {
        let object = DerivedBody.inner("object", of: DerivedBody.inner("data", of: event))
        let holder = transfer.messageHolder
        var changes: DerivedBody.Changes = []
        if isUser(object, "client_reference_id", transfer) {
            changes.append(("client_reference_id", holder.isAnonymous ? .set(Array("null".utf8)) : .string(holder.id)))
        }
        let metadata = DerivedBody.inner("metadata", of: object)
        var inMetadata: DerivedBody.Changes = []
        for key in metadata.keys where isUser(metadata, key, transfer) {
            inMetadata.append((key, holder.isAnonymous ? .remove : .string(holder.id)))
        }
        if !inMetadata.isEmpty {
            changes.append(("metadata", DerivedBody.changing("metadata", of: object, inMetadata)))
        }
        return changes
    }

    /// Whether a member is the id of a user on either side.
    private static func isUser(_ object: JSONObject, _ key: String, _ transfer: DerivedTransfer) -> Bool {
        guard let text = try? object.string(key) else { return false }
        return [transfer.from, transfer.to].contains(Holder.user(text))
    }

    /// The fields of the purchase, because an event about a customer names none.
    private static func purchaseFields(of transfer: DerivedTransfer) -> DerivedBody.Changes {
        guard let purchase = transfer.unnamedPurchase else { return [] }
        let fields: [(String, String?)] = [
            (purchase.kind == .oneTime ? "payment_intent" : "subscription", purchase.key),
            ("product", purchase.product), ("price", purchase.plan),
            ("invoice", transfer.unnamedTransaction?.storeTransactionID),
        ]
        return fields.compactMap { name, value in value.map { (key: name, change: .string($0)) } }
    }

    /// A user is named in the metadata under the default key, and by a session's `client_reference_id`; an anonymous
    /// holder is the customer.
    package func sample(_ request: SampleRequest) -> [UInt8] { StripeSample(request).body }
}
