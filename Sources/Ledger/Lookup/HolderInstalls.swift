import Postgres
package import Vocabulary

/// An install of a source with ownership `install_and_identity`: registered by name, or known by its webhooks.
package struct KnownInstall: Sendable {
    package let id: String
    package let environment: String
    /// When it was registered. Of one that only webhooks named: the oldest time that is known of it or of a purchase
    /// that it had before any transfer.
    package let createdAt: Timestamp

    package init(id: String, environment: String, createdAt: Timestamp) {
        self.id = id
        self.environment = environment
        self.createdAt = createdAt
    }
}

/// The identities of an install.
package struct InstallIdentity: Sendable {
    /// The identity logged in now.
    package let current: String?
    /// The identity that this install was the first to identify as; of several, the oldest.
    package let own: String?
    /// The event time that `current` is as of, which may be a logout's; nil: nobody ever logged in on it.
    package let asOf: Timestamp?
}

/// A purchase that the app's backend granted, or nothing yet.
package struct GrantedPurchase: Sendable {
    /// The event time of the newest statement about it; nil: there is none.
    package let asOf: Timestamp?
    /// Everybody who holds, or held, it.
    package let holdings: [GrantHolding]

    /// The newest event time of all that is known of it.
    package var newestTime: Timestamp? { (holdings.map(\.asOf) + [asOf].compactMap { $0 }).max() }
}

/// A purchase that the app's backend granted, for one of its holders.
package struct GrantHolding: Sendable {
    package let holder: Holder
    /// Whether it has access, also where its time is over: nothing is stored when time passes.
    package let hasAccess: Bool
    /// Whether it has access and its time is not over.
    package let isActive: Bool
    package let asOf: Timestamp
    /// The newest grant.
    package let transaction: Transaction?
}

extension HolderLookup {
    /// The install with the environment that it is known in; production before others.
    ///
    /// - Parameter environment: only this one; nil: any.
    package func install(
        _ id: String, of source: String, app: String, environment: String?
    ) async throws(LookupFailure) -> KnownInstall? {
        try await read { session throws(DatabaseError) in
            try session.run(
                HolderInstallStatements.known, (id, source, app, Holder.anonymous(id).storageKey, environment)
            )
            .first.map { KnownInstall(id: id, environment: $0, createdAt: $1) }
        }
    }

    package func identity(ofInstall id: String, in scope: Scope) async throws(LookupFailure) -> InstallIdentity {
        try await read { session throws(DatabaseError) in
            try session.run(HolderInstallStatements.identity, (id, scope.source, scope.app, scope.environment)).first
                ?? InstallIdentity(current: nil, own: nil, asOf: nil)
        }
    }

    /// The newest event time of the install: of its identity, of what it holds or held, and of the purchases that it
    /// restores.
    ///
    /// - Parameters:
    ///   - transactions: what the install restores, as a restore names it.
    ///   - limit: what is held as of a later time is left out, because a source may state times far ahead.
    package func newestTime(
        ofInstall id: String, restoring transactions: [String] = [], in scope: Scope, heldUntil limit: Timestamp
    ) async throws(LookupFailure) -> Timestamp? {
        // The placeholder id of imports without a transaction matches no real transaction.
        let names = transactions.filter { $0 != ImportLine.unnamedTransaction }
        return try await read { session throws(DatabaseError) in
            let own: Timestamp? =
                try session.run(
                    HolderInstallStatements.newestTime,
                    (id, scope.source, scope.app, scope.environment, Holder.anonymous(id).storageKey, limit)
                ).first ?? nil
            if names.isEmpty { return own }
            let named: Timestamp? =
                try session.run(
                    HolderInstallStatements.newestTimeOfNamed,
                    (names, scope.source, scope.app, scope.environment, limit)
                ).first ?? nil
            return [own, named].compactMap { $0 }.max()
        }
    }

    /// The install that was the first to identify as `identity`, with the environment; production before others.
    ///
    /// - Parameter environment: only this one; nil: any.
    package func install(
        identifiedAs identity: String, of source: String, app: String, environment: String?
    ) async throws(LookupFailure) -> (id: String, environment: String)? {
        try await read { session throws(DatabaseError) in
            try session.run(HolderInstallStatements.identified, (identity, source, app, environment)).first
                .map { id, environment in (id, environment) }
        }
    }

    /// A granted purchase, given by its hash.
    package func grant(_ purchase: Identifier) async throws(LookupFailure) -> GrantedPurchase {
        let rows = try await read { session throws(DatabaseError) in
            let hasTimedKeys = try LedgerForm.readByAll(on: session) >= .timedKeys
            return try session.run(
                hasTimedKeys ? HolderInstallStatements.grant : HolderInstallStatements.grantBeforeTimedKeys, purchase)
        }
        return GrantedPurchase(asOf: rows.first?.asOf, holdings: rows.compactMap(\.holding))
    }
}

enum HolderInstallStatements {
    /// `$4` is the install as a holder. A part of what it holds, and of a long history, is enough to know it by. Events
    /// are dropped, and links and access are newer after each change: of a purchase there are times that stay. If the
    /// first transfer that names the install is one to it, the purchase was another's before: the install had it then.
    static let known = Statement<(String, String, String, String, String?), (String, Timestamp)>(
        "lookup_install",
        """
        SELECT environment, coalesce(min(created_at_ms) FILTER (WHERE is_registered), min(created_at_ms)) FROM (
            SELECT environment, (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms, true AS is_registered
            FROM installs WHERE install = $1 AND source = $2 AND app = $3
            UNION ALL
            SELECT environment, (extract(epoch FROM linked_at) * 1000)::bigint, false
            FROM install_identities WHERE install = $1 AND source = $2 AND app = $3
            UNION ALL
            SELECT environment, as_of_ms, false
            FROM holder_links WHERE anonymous_user_id = $1 AND source = $2 AND app = $3
            UNION ALL
            (SELECT p.environment, least(\(KnownAccessStatements.changedAt("e", of: "p")), coalesce(
                 (SELECT CASE WHEN t.to_holder = $4 THEN (extract(epoch FROM t.told_at) * 1000)::bigint END
                  FROM transfers t WHERE t.purchase = e.purchase AND (t.from_holder = $4 OR t.to_holder = $4)
                  ORDER BY t.told_at, t.event, t.from_holder = $4 LIMIT 1),
                 (SELECT min(coalesce(purchased_at_ms, nullif(as_of_ms, 0))) FROM transactions
                  WHERE purchase = e.purchase))), false
             FROM entitlements e JOIN purchases p ON p.id = e.purchase
             WHERE e.holder = $4 AND p.source = $2 AND p.app = $3 LIMIT 1000)
            UNION ALL
            (SELECT p.environment, (extract(epoch FROM own.received_at) * 1000)::bigint, false
             FROM entitlements n JOIN purchases p ON p.id = n.purchase CROSS JOIN LATERAL (
                SELECT received_at FROM events WHERE purchase = n.purchase AND holder = $4 ORDER BY id LIMIT 1) AS own
             WHERE n.holder = $4 AND p.source = $2 AND p.app = $3 LIMIT 1000)
            UNION ALL
            (SELECT environment, (extract(epoch FROM received_at) * 1000)::bigint, false
             FROM events WHERE holder = $4 AND stray AND source = $2 AND app = $3 ORDER BY id LIMIT 1000)
        ) AS k
        WHERE $5 IS NULL OR environment = $5
        GROUP BY environment ORDER BY environment <> 'PRODUCTION', environment
        """)

    static let identity = Statement<(String, String, String, String), InstallIdentity>(
        "lookup_install_identity",
        """
        SELECT CASE WHEN l.until_ms IS NULL OR l.until_ms > (extract(epoch FROM now()) * 1000)::bigint
                    THEN l.user_id END,
               (SELECT identity FROM install_identities
                WHERE install = $1 AND source = $2 AND app = $3 AND environment = $4
                ORDER BY linked_at, event LIMIT 1),
               l.as_of_ms
        FROM (VALUES (1)) AS one
        LEFT JOIN holder_links l ON l.anonymous_user_id = $1 AND l.source = $2 AND l.app = $3 AND l.environment = $4
        """, row: InstallIdentity.init)

    /// `$5` is the install as a holder.
    static let newestTime = Statement<(String, String, String, String, String, Timestamp), Timestamp?>(
        "lookup_install_newest_time",
        """
        SELECT greatest(
            (SELECT as_of_ms FROM holder_links
             WHERE anonymous_user_id = $1 AND source = $2 AND app = $3 AND environment = $4),
            (SELECT max(h.as_of_ms) FROM (
                SELECT \(KnownAccessStatements.asOf("e", of: "p")) AS as_of_ms
                FROM entitlements e JOIN purchases p ON p.id = e.purchase
                WHERE e.holder = $5 AND p.source = $2 AND p.app = $3 AND p.environment = $4) AS h
             WHERE h.as_of_ms <= $6))
        """)

    /// The newest access of whoever holds or held the purchases that a restore means by the names $1.
    static let newestTimeOfNamed = Statement<([String], String, String, String, Timestamp), Timestamp?>(
        "lookup_named_newest_time",
        """
        SELECT max(h.as_of_ms) FROM (
            SELECT \(KnownAccessStatements.asOf("e", of: "p")) AS as_of_ms
            FROM (SELECT t.purchase FROM unnest($1) AS w (name)
                  JOIN transactions t ON t.store_transaction_id = w.name
                  UNION
                  SELECT n.id FROM unnest($1) AS w (name) JOIN purchases n ON n.key = w.name) AS named (id)
            JOIN purchases p ON p.id = named.id AND p.source = $2 AND p.app = $3 AND p.environment = $4
            JOIN entitlements e ON e.purchase = p.id) AS h
        WHERE h.as_of_ms <= $5
        """)

    /// An identity known only from webhooks, or whose first install was erased, belongs to the install that they name
    /// first.
    static let identified = Statement<(String, String, String, String?), (String, String)>(
        "lookup_identified_install",
        """
        SELECT install, environment FROM (
            SELECT install, environment, 0 AS rank, 0 AS as_of_ms FROM install_identities
            WHERE identity = $1 AND source = $2 AND app = $3 AND NOT \(EraseStatements.isStandIn(install: "install"))
            UNION ALL
            SELECT anonymous_user_id, environment, 1, as_of_ms FROM holder_links
            WHERE user_id = $1 AND source = $2 AND app = $3
        ) AS i
        WHERE $4 IS NULL OR environment = $4
        ORDER BY environment <> 'PRODUCTION', environment, rank, as_of_ms, install LIMIT 1
        """)

    /// A granted purchase, as of `asOf`, and one of its holders; nil: it has none.
    typealias GrantRow = (asOf: Timestamp, holding: GrantHolding?)

    private static func granted(
        purchaseAsOf: Timestamp, holder: String?, hasAccess: Bool?, isActive: Bool?, asOf: Timestamp?,
        transaction: String?, purchasedAt: Timestamp?, effectiveNextRenewalAt: Timestamp?, offerType: String?,
        status: String?
    ) -> GrantRow {
        guard let holder, let hasAccess, let isActive, let asOf else { return (purchaseAsOf, nil) }
        let holding = GrantHolding(
            holder: Holder(column: holder), hasAccess: hasAccess, isActive: isActive, asOf: asOf,
            transaction: transaction.map {
                Transaction(
                    storeTransactionID: $0, storeOriginalTransactionID: nil, purchasedAt: purchasedAt,
                    effectiveNextRenewalAt: effectiveNextRenewalAt, offerType: offerType, status: status)
            })
        return (purchaseAsOf, holding)
    }

    static let grant = Statement<Identifier, GrantRow>(
        "lookup_grant", holdings(of: "(SELECT id FROM purchases WHERE coalesce(hash, id) = $1)"), row: granted)

    /// Before `LedgerForm.timedKeys`: the hash is the id, and the index over hashes may not be there.
    static let grantBeforeTimedKeys = Statement<Identifier, GrantRow>(
        "lookup_grant_before_timed_keys", holdings(of: "$1"), row: granted)

    private static func holdings(of purchase: SQL) -> SQL {
        """
        SELECT p.as_of_ms, e.holder, e.active,
               e.active AND coalesce(t.effective_next_renewal_at_ms
                   > (extract(epoch FROM now()) * 1000)::bigint, true),
               \(KnownAccessStatements.asOf("e", of: "p")), t.store_transaction_id, t.purchased_at_ms,
               t.effective_next_renewal_at_ms, t.offer_type, t.status
        FROM purchases p LEFT JOIN entitlements e ON e.purchase = p.id
        \(AccessEnd.newestTransaction(of: "p.id"))
        WHERE p.id = \(purchase) ORDER BY e.holder
        """
    }
}
