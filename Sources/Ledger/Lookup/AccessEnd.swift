import Postgres
package import Vocabulary

/// The leeway of each source, as look-ups need it. Of sources that are not configured here it is off: whatever it was,
/// access must not end by a change of the file.
package struct Leeways: Sendable {
    /// Of all sources: only webhooks end access.
    package static let off = Leeways(of: [:])

    private let bySource: [String: Leeway]
    /// Two columns of a parameter.
    let names: [String]
    /// Nil: off.
    let milliseconds: [Int64?]

    package init(_ sources: [Source]) {
        self.init(of: Dictionary(firstOf: sources.map { ($0.name, $0.leeway) }))
    }

    /// Of a source without rules it is off, as of one that is not configured.
    init(_ rules: [String: SourceRules]) { self.init(of: rules.mapValues(\.leeway)) }

    private init(of bySource: [String: Leeway]) {
        self.bySource = bySource
        let sorted = bySource.sorted { $0.key < $1.key }
        names = sorted.map(\.key)
        milliseconds = sorted.map(\.value.milliseconds)
    }

    package subscript(source: String) -> Leeway { bySource[source] ?? .off }
}

/// The rule of `TimedAccess` in SQL, for pages that are cut and counted in the database.
enum AccessEnd {
    /// The database's time in milliseconds.
    static let now: SQL = "(extract(epoch FROM now()) * 1000)::bigint"
    /// The same as the statement began that it is in, not the transaction: behind locks that may be later.
    static let nowBehindLocks: SQL = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

    /// The newest transaction of a purchase, by the time of purchase, as `t`. Its end is the purchase's, whatever else
    /// older transactions state later. One of which nothing is known but that it was revoked is the oldest: that of a
    /// former period, which was voided. So is an order of Google Play's of which nothing at all is known: its
    /// notification names a former order, and the API answers for the newest alone. Of another store it may be one
    /// without an end.
    ///
    /// Where the time of purchase is not known, the newest known one of its renewals stands for it, else the first time
    /// at which one of them was heard of or ended (`Event.yieldedTransaction` is no such time); of those alike the end
    /// decides. So renewals whose period is not known to have begun (Google Play's) come behind a plan that was changed
    /// to in mid-period, and among themselves in their order.
    ///
    /// An import's line may state an end without naming its transaction (`ImportLine.unnamedTransaction`). It is of no
    /// period of its own: it counts until a transaction is bought after it, or the newest one states, after it, an end
    /// that was to come then (`counts_ms`): a late word about a period that was over is no news.
    static func newestTransaction(of purchase: SQL) -> SQL {
        """
        LEFT JOIN LATERAL (
            (SELECT *, CASE WHEN NOT \(isVoided(of: purchase)) THEN greatest(\(began), CASE
                WHEN effective_next_renewal_at_ms > (\(unnamedAsOf(of: purchase))) THEN as_of_ms END)
                END AS counts_ms, false AS is_unnamed
             FROM transactions WHERE purchase = \(purchase) AND store_transaction_id <> 'posthouse.import'
             WINDOW renewals AS (PARTITION BY coalesce(store_original_transaction_id, store_transaction_id))
             ORDER BY \(isVoided(of: purchase)), \(began) DESC,
                CASE WHEN bool_or(purchased_at_ms IS NULL) OVER renewals THEN effective_next_renewal_at_ms END
                    DESC NULLS LAST, as_of_ms DESC, store_transaction_id DESC LIMIT 1)
            UNION ALL
            SELECT *, as_of_ms, true FROM transactions
            WHERE purchase = \(purchase) AND store_transaction_id = 'posthouse.import'
            ORDER BY counts_ms DESC NULLS LAST, is_unnamed DESC LIMIT 1
        ) AS t ON true
        """
    }

    /// The same of a transaction as its event states it.
    static func isVoided(_ transaction: Transaction, at store: String) -> Bool {
        guard transaction.purchasedAt == nil, transaction.effectiveNextRenewalAt == nil else { return false }
        return transaction.status.map { $0 == SharedVocabulary.Status.revoked } ?? (store == SharedVocabulary.google)
    }

    /// Whether nothing is known of a transaction (its columns) but that it was voided.
    static func isVoided(of purchase: SQL) -> SQL {
        """
        (purchased_at_ms IS NULL AND effective_next_renewal_at_ms IS NULL AND CASE
            WHEN status IS NULL THEN 'GOOGLE_PLAY_STORE'
                = (SELECT bought.store FROM purchases AS bought WHERE bought.id = \(purchase))
            ELSE status = 'REVOKED' END)
        """
    }

    /// The time of the purchase's line that names no transaction: no row where there is none.
    private static func unnamedAsOf(of purchase: SQL) -> SQL {
        """
        SELECT line.as_of_ms FROM transactions AS line
            WHERE line.purchase = \(purchase) AND line.store_transaction_id = 'posthouse.import'
        """
    }

    private static let began: SQL = """
        coalesce(purchased_at_ms, max(purchased_at_ms) OVER renewals,
            min(least(effective_next_renewal_at_ms - 1, nullif(as_of_ms, 0))) OVER renewals, 0)
        """

    /// Whether access by the purchase `p` with the newest transaction `t` goes on, if it was granted.
    /// - Parameters:
    ///   - sources: the parameter with `Leeways.names`.
    ///   - leeways: the parameter with `Leeways.milliseconds`.
    static func goesOn(sources: SQL, leeways: SQL, at now: SQL = now) -> SQL {
        """
        (t.effective_next_renewal_at_ms <= \(now) - \(leeway(sources: sources, leeways: leeways))) IS NOT TRUE
        """
    }

    /// Whether the stated end of the purchase `p` with the newest transaction `t` has passed, if access was granted.
    static let hasPassed = hasPassed(at: now)

    static func hasPassed(at now: SQL) -> SQL {
        "(t.effective_next_renewal_at_ms <= \(now) AND p.store <> 'MANUAL') IS TRUE"
    }

    /// Milliseconds; null, also of a source that is not among them: off.
    private static func leeway(sources: SQL, leeways: SQL) -> SQL {
        """
        CASE WHEN p.store = 'MANUAL' THEN 0 ELSE (
            SELECT l.leeway FROM unnest(\(sources), \(leeways)) AS l (source, leeway) WHERE l.source = p.source) END
        """
    }
}
