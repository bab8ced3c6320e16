import JSONText
import Vocabulary

/// The `standard` payload, one vocabulary for all sources (posthouse-messages(7), "Format standard"): `{type,
/// timestamp, data: {event_id, event_name, source, environment, holder, resolved_user_id, transfer, purchase,
/// transaction, money, original}}`. Absent is null. Of a sealed webhook there is `decoded`, too. It is written once, at
/// recording, so that every attempt and replay sends the same bytes; it ends where the source's own body is embedded
/// unchanged.
enum MessageEnvelope {
    /// What a message states beyond the event that caused it.
    struct Statement {
        var type: String
        var eventID: String
        var eventName: String
        /// nil: the message is about no purchase.
        var holder: Holder?
        /// The user that an anonymous holder is known to be (invariant I5).
        var resolvedUserID: String?
        var transfer: (id: String, from: Holder, to: Holder)?
    }

    /// The purchase that a message is about: the event's own, or one that the event moved without naming it.
    struct Subject {
        let id: Identifier?
        let purchase: Purchase?
        let transaction: Transaction?
        /// What the webhook says of money, a JSON object; nil also for a message that no webhook is.
        let money: [UInt8]?

        /// - Parameter transaction: one that an import's line did not name is left out.
        init(
            id: Identifier? = nil, purchase: Purchase? = nil, transaction: Transaction? = nil, money: [UInt8]? = nil
        ) {
            self.id = id
            self.purchase = purchase
            self.transaction = transaction?.storeTransactionID == ImportLine.unnamedTransaction ? nil : transaction
            self.money = money
        }
    }

    static func write(_ statement: Statement, of subject: Subject, causedBy event: Event) -> [UInt8] {
        write(statement, of: subject, in: event.scope, at: event.occurredAt, decoded: event.decoded)
    }

    /// - Parameter decoded: what a sealed webhook says, a JSON object; nil: the webhook is not sealed.
    static func write(
        _ statement: Statement, of subject: Subject, in scope: Scope, at time: Timestamp, decoded: [UInt8]? = nil
    ) -> [UInt8] {
        var json = JSONWriter(reservingCapacity: 1_024 + (decoded?.count ?? 0) + (subject.money?.count ?? 0))
        json.object { json in
            json.member("type", statement.type)
            json.member("timestamp", time.iso8601)
            json.key("data")
            json.object { json in
                json.member("event_id", statement.eventID)
                json.member("event_name", statement.eventName)
                json.member("source", scope.source)
                json.member("environment", scope.environment)
                json.key("holder")
                if let holder = statement.holder { write(holder, into: &json) } else { json.null() }
                json.member("resolved_user_id", statement.resolvedUserID)
                write(statement.transfer, into: &json)
                write(subject.purchase, app: scope.app, into: &json)
                write(subject.transaction, into: &json)
                json.key("money")
                if let money = subject.money { json.raw(money) } else { json.null() }
                if let decoded {
                    json.key("decoded")
                    json.raw(decoded)
                }
                json.key("original")
            }
        }
        // Removes the two closing braces: `Message.envelopeEnd` follows the original.
        var bytes = json.bytes
        bytes.removeLast(Message.envelopeEnd.count)
        return bytes
    }

    private static func write(_ holder: Holder, into json: inout JSONWriter) {
        json.object { json in json.member(holder.fieldName, holder.id) }
    }

    private static func write(_ transfer: (id: String, from: Holder, to: Holder)?, into json: inout JSONWriter) {
        json.key("transfer")
        guard let transfer else { return json.null() }
        json.object { json in
            json.member("id", transfer.id)
            json.key("from")
            write(transfer.from, into: &json)
            json.key("to")
            write(transfer.to, into: &json)
        }
    }

    private static func write(_ purchase: Purchase?, app: String, into json: inout JSONWriter) {
        json.key("purchase")
        guard let purchase else { return json.null() }
        json.object { json in
            json.member("key", purchase.key)
            json.member("kind", purchase.kind.rawValue)
            json.member("product", purchase.product)
            json.member("plan", purchase.plan)
            json.member("store", purchase.store)
            json.member("app", app)
            json.member("subscription_id", purchase.subscriptionID)
        }
    }

    private static func write(_ transaction: Transaction?, into json: inout JSONWriter) {
        json.key("transaction")
        guard let transaction else { return json.null() }
        json.object { json in
            json.member("store_transaction_id", transaction.storeTransactionID)
            json.member("store_original_transaction_id", transaction.storeOriginalTransactionID)
            json.member("purchased_at_ms", transaction.purchasedAt?.milliseconds)
            json.member("effective_next_renewal_at_ms", transaction.effectiveNextRenewalAt?.milliseconds)
            json.member("offer_type", transaction.offerType)
            json.member("status", transaction.status)
        }
    }
}
