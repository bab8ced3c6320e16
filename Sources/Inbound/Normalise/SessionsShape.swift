internal import JSONText
package import Vocabulary

/// Bodies in the shape of `Sessions`: derived ones for `format = "source"`, invented ones for `posthouse send`.
extension Sessions {
    private static let holderFields = [
        "user_id", "anonymous_user_id", "anonymous_id", "transferred_to_user_id", "transferred_to_anonymous_user_id",
        "transferred_to_anonymous_id", "transferred_from_user_id", "transferred_from_anonymous_user_id",
        "transferred_from_anonymous_id",
    ]

    /// A transfer with its name in `type`, and id and holders in `data` if the original has it, else at the top level;
    /// never in both.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let object = DerivedBody.object(original)
        let hasData = (try? object.object("data")) != nil
        let messageHolder = transfer.messageHolder
        let other = transfer.otherHolder
        let stated: DerivedBody.Changes =
            [
                ("event_id", .string(transfer.eventID)), (messageHolder.fieldName, .string(messageHolder.id)),
                (transfer.otherPrefix + other.fieldName, .string(other.id)),
            ] + Self.purchaseFields(of: transfer)
        let cleared = (Self.holderFields + Self.unreadableEnds(of: original)).map {
            (key: $0, change: JSONEdit.Change.remove)
        }
        // The last of several changes of one key applies.
        var changes: DerivedBody.Changes = [("type", .string(transfer.type)), ("event_name", .remove)]
        changes += cleared
        if hasData {
            let inner = [("event_name", .remove)] + cleared + stated
            changes += [("event_id", .remove), ("data", DerivedBody.changing("data", of: object, inner))]
        } else {
            changes += stated
        }
        return JSONEdit.apply(changes, to: object)
    }

    /// An end that cannot be read and mattered to nobody, such as a loss's: a transfer that had it would be refused.
    private static func unreadableEnds(of original: [UInt8]) -> [String] {
        guard let fields = try? SessionsFields(original) else { return [] }
        do throws(Unreadable) {
            _ = try fields.end(Sessions.endField)
            return []
        } catch {
            return [Sessions.endField, Sessions.endField + "_ms"]
        }
    }

    /// The fields of the purchase, because a login names none.
    private static func purchaseFields(of transfer: DerivedTransfer) -> DerivedBody.Changes {
        guard let purchase = transfer.unnamedPurchase else { return [] }
        let transaction = transfer.unnamedTransaction
        let fields: [(String, String?)] = [
            ("purchase_id", purchase.key), ("purchase_type", purchase.kind == .oneTime ? "ONE_TIME" : "SUBSCRIPTION"),
            ("product", purchase.product), ("plan", purchase.plan), ("store", purchase.store),
            ("store_transaction_id", transaction?.storeTransactionID),
            ("store_original_transaction_id", transaction?.storeOriginalTransactionID),
            ("effective_next_renewal_at", transaction?.effectiveNextRenewalAt?.nearestWritable.iso8601),
        ]
        return fields.compactMap { name, value in value.map { (key: name, change: .string($0)) } }
    }

    /// A sample body. A session event names holder and counterpart, so that `--anonymous A --counterpart-user U` is a
    /// login of both.
    package func sample(_ request: SampleRequest) -> [UInt8] {
        return JSONWriter.object { body in
            body.member("type", request.eventName)
            body.member("timestamp", request.occurredAt.nearestWritable.iso8601)
            body.key("data")
            body.object { data in
                if let eventID = request.eventID { data.member("event_id", eventID) }
                data.member("environment", request.environment)
                if SessionsNames.sessions.contains(request.eventName) {
                    writeSession(of: request, to: &data)
                } else {
                    writePurchase(of: request, to: &data)
                }
            }
        }
    }

    package var sampleTransfers: [SampleTransfer] {
        [SampleTransfer(eventName: SessionsNames.login, role: .logsIn)] + SampleTransfer.native
    }

    package var sampleTransferNote: String { Purchasely().sampleTransferNote }

    private func writeSession(of request: SampleRequest, to data: inout JSONWriter) {
        let parties = [request.holder, request.counterpart].compactMap { $0 }
        let anonymous = parties.first(where: \.isAnonymous)?.id
        let user = parties.first { !$0.isAnonymous }?.id
        if let anonymous { data.member("anonymous_id", anonymous) }
        if let user { data.member("user_id", user) }
        switch request.eventName {
        case SessionsNames.login:
            // A login needs a user.
            if user == nil { data.member("user_id", "user-of-" + request.holder.id) }
            let expiresAt = request.occurredAt.advanced(byMilliseconds: 30 * 86_400_000)
            data.member("expires_at", expiresAt.nearestWritable.iso8601)
        case SessionsNames.anonymousStarted: data.member("reason", "skip")
        case SessionsNames.dataReset: data.member("scope", "all")
        default: break
        }
    }

    private func writePurchase(of request: SampleRequest, to data: inout JSONWriter) {
        let kind = PurchaselyNames.factKind(of: request.eventName)
        let isOneTime =
            request.purchaseID.hasPrefix("otp_") || request.eventName.hasPrefix(PurchaselyNames.oneTimePrefix)
        data.member(request.holder.fieldName, request.holder.id)
        if let other = request.counterpart, kind == .transferred || kind == .received {
            data.member((kind == .received ? "transferred_from_" : "transferred_to_") + other.fieldName, other.id)
        }
        data.member("purchase_id", request.purchaseID)
        data.member("purchase_type", isOneTime ? "NON_CONSUMABLE" : "RENEWING_SUBSCRIPTION")
        data.member("product", "premium")
        data.member("plan", isOneTime ? "lifetime" : "monthly")
        data.member("store_transaction_id", request.storeTransactionID)
        data.member("store_original_transaction_id", request.storeTransactionID)
        data.member("purchased_at", request.occurredAt.nearestWritable.iso8601)
        data.member("offer_type", SharedVocabulary.Offer.none)
        guard !isOneTime else { return }
        let isOver = kind == .loss || kind == .transferred
        let renewalAt = request.occurredAt.advanced(byMilliseconds: 30 * 86_400_000)
        data.member("effective_next_renewal_at", renewalAt.nearestWritable.iso8601)
        data.member("status", isOver ? SharedVocabulary.Status.deactivated : SharedVocabulary.Status.renewing)
    }
}
