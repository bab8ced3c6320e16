import Postgres
import Vocabulary

/// The tables that recording fills, each column with its value.
enum RecordTables {
    static let events = Table<EventRow>(
        "events",
        [
            Column("id", \.id), Column("key", \.key), Column("source", \.scope.source), Column("app", \.scope.app),
            Column("environment", \.scope.environment), Column("vendor_event_id", \.vendorEventID),
            Column("name", \.name), Column("type", \.type), Column("holder", \.holder),
            Column("occurred_at_ms", \.occurredAt.milliseconds), Column("purchase", \.purchase),
            Column("store_transaction_id", \.storeTransactionID), Column("body", \.body),
            Column("stray", \.isStray), Column("answer", \.answer),
        ])

    static let purchases = Table<PurchaseRow>(
        "purchases",
        [
            Column("id", \.id), Column("hash", \.hash), Column("source", \.source), Column("app", \.app),
            Column("environment", \.environment), Column("store", \.store), Column("key", \.key),
        ] + purchaseValues)

    /// What further webhooks can change of a purchase.
    private static let purchaseValues: [Column<PurchaseRow>] = [
        Column("kind", \.kind), Column("product", \.product), Column("plan", \.plan),
        Column("subscription_id", \.subscriptionID), Column("as_of_ms", \.asOf), Column("state", \.state),
        Column("access", \.access),
    ]

    /// Inserts purchases that are new. Fewer rows than requested mean that another batch created one first.
    static let purchasesIfAbsent = Statement<[PurchaseRow], ()>(
        "record_purchases_if_absent", insertInto: purchases, "ON CONFLICT DO NOTHING")

    static let updatePurchases = Statement<[PurchaseRow], ()>(
        "record_update_purchases",
        """
        UPDATE purchases p
        SET kind = new.kind, product = new.product, plan = new.plan, subscription_id = new.subscription_id,
            as_of_ms = new.as_of_ms, state = new.state, access = new.access
        FROM
        """, new: [Column("id", \.id)] + purchaseValues, "WHERE p.id = new.id")

    static let transactions = Table<BatchPlan.TransactionRow>(
        "transactions",
        [
            Column("store_transaction_id", \.transaction.storeTransactionID), Column("purchase", \.purchase),
            Column("store_original_transaction_id", \.transaction.storeOriginalTransactionID),
            Column("purchased_at_ms", \.transaction.purchasedAt?.milliseconds),
            Column("effective_next_renewal_at_ms", \.transaction.effectiveNextRenewalAt?.milliseconds),
            Column("offer_type", \.transaction.offerType), Column("status", \.transaction.status),
            Column("as_of_ms", \.asOf.milliseconds), Column("as_of_event", \.asOfEvent),
        ],
        onConflict: """
            ON CONFLICT (store_transaction_id, purchase) DO UPDATE
            SET store_original_transaction_id = excluded.store_original_transaction_id,
                purchased_at_ms = excluded.purchased_at_ms,
                effective_next_renewal_at_ms = excluded.effective_next_renewal_at_ms,
                offer_type = excluded.offer_type, status = excluded.status,
                as_of_ms = excluded.as_of_ms, as_of_event = excluded.as_of_event
            WHERE (transactions.as_of_ms, transactions.as_of_event) < (excluded.as_of_ms, excluded.as_of_event)
            """)

    static let entitlements = Table<BatchPlan.EntitlementRow>(
        "entitlements",
        [
            Column("holder", \.holder.storageKey), Column("purchase", \.purchase), Column("active", \.access.isActive),
            Column("as_of_ms", \.access.asOf.milliseconds), Column("event", \.event),
        ],
        onConflict: """
            ON CONFLICT (holder, purchase) DO UPDATE
            SET active = excluded.active, as_of_ms = excluded.as_of_ms, event = excluded.event, changed_at = now()
            WHERE (entitlements.active, entitlements.as_of_ms) IS DISTINCT FROM (excluded.active, excluded.as_of_ms)
            """)

    static let transfers = Table<BatchPlan.TransferRow>(
        "transfers",
        [
            Column("id", \.id), Column("purchase", \.purchase), Column("from_holder", \.from.storageKey),
            Column("to_holder", \.to.storageKey), Column("ordinal") { Int32($0.ordinal) }, Column("event", \.event),
            Column("store_transaction_id", \.storeTransactionID),
        ])

    static let messages = Table<MessageRow>(
        "messages",
        [
            Column("id", \.id), Column("key", \.key), Column("event", \.event), Column("type", \.type),
            Column("transfer", \.transfer), Column("envelope", \.envelope), Column("derived_body", \.derivedBody),
            Column("integrations", \.integrations), Column("access", \.access),
        ])

    /// Inserts messages and returns the new ones. A message that exists already is not delivered again: a transfer's,
    /// or one of an event whose key was pruned and that came again. Two batches never write one at the same time: they
    /// meet at its event key or at its purchase.
    static let messagesIfAbsent = Statement<[MessageRow], Int64>(
        "record_messages_if_absent", insertInto: messages,
        "WHERE (SELECT true FROM messages m WHERE m.key = new.key LIMIT 1) IS NULL RETURNING id")

    /// What is known of a token stays as it was written first, until more is known. A row that says something else is
    /// not written, and not counted.
    static let tokens = Table<TokenRow>(
        "purchase_tokens",
        [
            Column("source", \.source), Column("token", \.known.token), Column("first", \.known.first),
            Column("environment", \.known.environment), Column("is_replaced", \.known.isReplaced),
        ],
        onConflict: """
            ON CONFLICT (source, token) DO UPDATE
            SET environment = coalesce(purchase_tokens.environment, excluded.environment),
                is_replaced = purchase_tokens.is_replaced OR excluded.is_replaced
            WHERE purchase_tokens.first = excluded.first
                AND coalesce(purchase_tokens.environment = excluded.environment, true)
            """)

    static let deliveries = Table<DeliveryRow>(
        "deliveries",
        [
            Column("id", \.id), Column("message", \.message), Column("integration", \.integration),
            Column("purchase", \.purchase), Column("blocked", \.isBlocked), Column("leased_by", \.leasedBy),
        ])
}

/// Their rows, where the plan does not have them as they are written.
extension RecordTables {
    struct EventRow {
        let id: Int64
        let key: Identifier
        let scope: Scope
        let vendorEventID: String?
        let name: String
        let type: String
        /// A storage key; empty for an event of the relay itself, which is nobody's.
        let holder: String
        let occurredAt: Timestamp
        let purchase: Identifier?
        let storeTransactionID: String?
        let body: [UInt8]
        /// Whether the holder has no entitlement row for the purchase: it is then found by its holder
        /// (`EventsOfHolder`).
        let isStray: Bool
        let answer: [UInt8]?
    }

    struct TokenRow {
        let source: String
        let known: KnownToken
    }

    /// As it is written and read.
    struct PurchaseRow {
        let id: Identifier
        /// `KeyHash.purchase`; nil: the id is the hash (before `LedgerForm.timedKeys`).
        let hash: Identifier?
        let source: String
        let app: String
        let environment: String
        let store: String
        let key: String
        let kind: String
        let product: String?
        let plan: String?
        let subscriptionID: String?
        /// Milliseconds since 1970.
        let asOf: Int64
        let state: [UInt8]
        /// `KnownAccess`.
        let access: JSONColumn?

        var scope: Scope { Scope(source: source, app: app, environment: environment) }
        var purchaseKind: Purchase.Kind { Purchase.Kind(rawValue: kind) ?? .subscription }
    }

    struct MessageRow {
        let id: Int64
        /// Nil: it passes an event on, and has the event's key.
        let key: Identifier?
        /// Row of its event.
        let event: Int64
        let type: String
        let transfer: Identifier?
        let envelope: [UInt8]
        let derivedBody: [UInt8]?
        /// `MessageReceivers`
        let integrations: String
        /// `MessageAccess`
        let access: [UInt8]?
    }

    struct DeliveryRow {
        let id: Int64
        /// Row of its message.
        let message: Int64
        let integration: Int32
        let purchase: Identifier?
        /// Blocked by an unsettled delivery of its ordering key.
        let isBlocked: Bool
        let leasedBy: Int64?
    }
}

extension RecordTables.EventRow {
    init(_ new: BatchPlan.PlannedEvent, isStray: Bool) {
        let event = new.event
        self.init(
            id: new.row, key: new.key, scope: event.scope, vendorEventID: event.vendorEventID, name: event.name,
            type: new.type, holder: event.holder?.storageKey ?? "", occurredAt: event.occurredAt,
            purchase: new.purchase, storeTransactionID: event.transaction?.storeTransactionID, body: event.body,
            isStray: isStray, answer: event.answer)
    }
}

extension BatchPlan.PurchaseRow {
    func written(as id: Identifier, knowing access: KnownAccess?, in form: LedgerForm) -> RecordTables.PurchaseRow {
        let bytes = state.bytes(form)
        return RecordTables.PurchaseRow(
            id: id, hash: hash == id ? nil : hash, source: scope.source, app: scope.app,
            environment: scope.environment,
            store: purchase.store,
            key: purchase.key, kind: purchase.kind.rawValue, product: purchase.product, plan: purchase.plan,
            subscriptionID: purchase.subscriptionID, asOf: asOf.milliseconds, state: bytes,
            access: access?.column(of: bytes))
    }
}
