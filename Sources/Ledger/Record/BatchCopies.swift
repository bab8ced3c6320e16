import Postgres
import Vocabulary

/// The rows of a wide batch, by COPY, for the tables that `RecordStatements` fills with one statement each. It does not
/// check whether a row exists already: if one does, the batch fails on a unique index and is run again with those
/// statements.
enum BatchCopies {
    static let events = CopyIn<BatchPlan.New>(
        "record_copy_events",
        """
        COPY events (id, key, source, app, environment, vendor_event_id, name, type, holder, occurred_at_ms, purchase,
                     store_transaction_id, body) FROM STDIN (FORMAT binary)
        """, columns: 13
    ) { new, row in
        let event = new.event
        row.add(new.row)
        row.add(new.key)
        row.add(event.scope.source)
        row.add(event.scope.app)
        row.add(event.scope.environment)
        row.add(event.vendorEventID)
        row.add(event.name)
        row.add(event.type)
        row.add(event.holder.storageKey)
        row.add(event.occurredAt.milliseconds)
        row.add(new.purchase)
        row.add(event.transaction?.storeTransactionID)
        row.add(event.body)
    }

    static let purchases = CopyIn<(Identifier, BatchPlan.PurchaseRow, StateForm)>(
        "record_copy_purchases",
        """
        COPY purchases (id, source, app, environment, store, key, kind, product, plan, subscription_id, as_of_ms, state)
        FROM STDIN (FORMAT binary)
        """, columns: 12
    ) { new, row in
        let purchase = new.1.purchase
        row.add(new.0)
        row.add(new.1.scope.source)
        row.add(new.1.scope.app)
        row.add(new.1.scope.environment)
        row.add(purchase.store)
        row.add(purchase.key)
        row.add(purchase.kind.rawValue)
        row.add(purchase.product)
        row.add(purchase.plan)
        row.add(purchase.subscriptionID)
        row.add(new.1.asOf.milliseconds)
        row.add(new.1.state.bytes(new.2))
    }

    /// Transactions of new purchases.
    static let transactions = CopyIn<BatchPlan.TransactionRow>(
        "record_copy_transactions",
        """
        COPY transactions (store_transaction_id, purchase, store_original_transaction_id, purchased_at_ms,
                           effective_next_renewal_at_ms, offer_type, status, as_of_ms, as_of_event)
        FROM STDIN (FORMAT binary)
        """, columns: 9
    ) { new, row in
        let transaction = new.transaction
        row.add(transaction.storeTransactionID)
        row.add(new.purchase)
        row.add(transaction.storeOriginalTransactionID)
        row.add(transaction.purchasedAt?.milliseconds)
        row.add(transaction.effectiveNextRenewalAt?.milliseconds)
        row.add(transaction.offerType)
        row.add(transaction.status)
        row.add(new.asOf.milliseconds)
        row.add(new.asOfEvent)
    }

    /// Entitlements of new purchases.
    static let entitlements = CopyIn<(BatchPlan.EntitlementKey, BatchPlan.EntitlementRow)>(
        "record_copy_entitlements",
        "COPY entitlements (holder, purchase, active, as_of_ms, event) FROM STDIN (FORMAT binary)", columns: 5
    ) { new, row in
        row.add(new.0.holder.storageKey)
        row.add(new.0.purchase)
        row.add(new.1.access.isActive)
        row.add(new.1.access.asOf.milliseconds)
        row.add(new.1.event)
    }

    /// Messages, with the row of each and of its event.
    static let messages = CopyIn<(row: Int64, event: Int64, message: BatchPlan.MessageRow)>(
        "record_copy_messages",
        "COPY messages (id, key, event, type, transfer, envelope, derived_body) FROM STDIN (FORMAT binary)", columns: 7
    ) { new, row in
        row.add(new.row)
        row.add(new.message.key)
        row.add(new.event)
        row.add(new.message.type)
        row.add(new.message.transfer)
        row.add(new.message.envelope)
        row.add(new.message.derivedBody)
    }

    static let deliveries = CopyIn<DeliveryRow>(
        "record_copy_deliveries",
        "COPY deliveries (id, message, integration, purchase, blocked, leased_by) FROM STDIN (FORMAT binary)",
        columns: 6
    ) { delivery, row in
        row.add(delivery.id)
        row.add(delivery.message)
        row.add(delivery.integration)
        row.add(delivery.purchase)
        row.add(delivery.isBlocked)
        row.add(delivery.leasedBy)
    }

    struct DeliveryRow {
        var id: Int64
        var message: Int64
        var integration: Int32
        var purchase: Identifier?
        var isBlocked: Bool
        var leasedBy: Int64?
    }
}
