package import Postgres
package import Vocabulary

/// What the ledger says of what a line states.
package enum ImportComparison: Sendable, Equatable {
    /// Nothing.
    case new
    case same
    case different(Known)

    /// What differs, as the ledger has it.
    package struct Known: Sendable, Equatable {
        /// Whether the line's holder has the purchase, whatever its end; nil: the ledger knows no such holder of it.
        package var isActive: Bool?
        /// The purchase's end; nil: none is known.
        package var until: Timestamp?
        package var product: String?
        package var plan: String?
        /// Of a link: the user.
        package var user: String?
    }

    /// Compares lines with the ledger, each by itself. It only reads.
    package static func read(_ lines: [ImportLine], in pool: Pool) async throws(DatabaseError) -> [ImportComparison] {
        let purchases = lines.map { line in line.stated.map { KeyHash.purchase($0.purchase, in: line.scope) } }
        let named = zip(lines, purchases).compactMap { line, hash in hash.map { (line.holder.storageKey, $0) } }
        let links = lines.filter(\.isLink)
        let kept = lines.compactMap(\.kept)
        let (held, linked, known) = try await pool.withSession { session throws(DatabaseError) in
            let held =
                named.isEmpty
                ? [] : try session.run(ImportComparisonStatements.purchases, (named.map(\.0), named.map(\.1)))
            let linked =
                links.isEmpty
                ? []
                : try session.run(
                    ImportComparisonStatements.links,
                    (
                        links.map(\.holder.id), links.map(\.scope.source), links.map(\.scope.app),
                        links.map(\.scope.environment)
                    ))
            let known =
                kept.isEmpty
                ? []
                : try session.run(
                    ImportComparisonStatements.kept,
                    (
                        kept.map(\.kind), kept.map(\.subject), kept.map(\.target), kept.map(\.at),
                        kept.map(\.scope.source), kept.map(\.scope.app), kept.map(\.scope.environment)
                    ))
            return (held, linked, known)
        }
        let ofPurchases = Dictionary(firstOf: held.map { (Int($0.line), $0.known) })
        let ofLinks = Dictionary(firstOf: linked.map { (Int($0.0), $0.1) })
        let ofKept = Set(known.map { Int($0) })
        // The database counts from 1.
        var (purchase, link, change) = (0, 0, 0)
        return lines.map { line in
            if line.stated != nil {
                purchase += 1
                return ofPurchases[purchase].map { line.compared(to: $0) } ?? .new
            }
            if line.isLink {
                link += 1
                return ofLinks[link].map { line.compared(to: Known(user: $0)) } ?? .new
            }
            change += 1
            return ofKept.contains(change) ? .same : .new
        }
    }
}

extension ImportLine {
    fileprivate var stated: Stated? {
        if case .purchase(let stated) = subject { stated } else { nil }
    }

    fileprivate var isLink: Bool { if case .link = subject { true } else { false } }

    /// Of a line about what a ledger keeps of holders: the row that would have it.
    fileprivate struct StoredChange {
        /// A kind of change; `first` and `install` stand for tables of their own.
        let kind: String
        let subject: String
        let target: String
        let at: Int64
        let scope: Scope
    }

    fileprivate var kept: StoredChange? {
        func kept(_ kind: String, _ subject: String, _ target: String) -> StoredChange {
            StoredChange(kind: kind, subject: subject, target: target, at: asOf.milliseconds, scope: scope)
        }
        switch subject {
        case .purchase, .link: return nil
        case .first(let identity): return kept("first", holder.id, identity)
        case .install: return kept("install", holder.id, "")
        case .change(let change):
            let subject: String =
                switch change.subject {
                case .holder(let holder): holder.storageKey
                case .transaction(let id): HolderChangeRow.transactionSubject(id)
                }
            return kept(change.kind.rawValue, subject, change.target.storageKey)
        }
    }

    /// What a line leaves out differs from nothing.
    fileprivate func compared(to known: ImportComparison.Known) -> ImportComparison {
        let isSame: Bool
        switch subject {
        case .link(let user, _): isSame = Self.isSame(user, known.user)
        case .change, .first, .install: isSame = true
        case .purchase(let stated):
            isSame =
                (stated.isActive.map { $0 == (known.isActive ?? false) } ?? true)
                && (stated.isActive != true || until == known.until)
                && (stated.purchase.product == nil || Self.isSame(stated.purchase.product, known.product))
                && (stated.purchase.plan == nil || Self.isSame(stated.purchase.plan, known.plan))
        }
        return isSame ? .same : .different(known)
    }

    private static func isSame(_ text: String?, _ other: String?) -> Bool {
        guard let text, let other else { return text == nil && other == nil }
        return text.hasSameBytes(as: other)
    }
}

enum ImportComparisonStatements {
    struct StoredHolder: Sendable {
        /// Counted from 1.
        let line: Int64
        let known: ImportComparison.Known
    }

    private static func held(
        line: Int64, isActive: Bool?, until: Timestamp?, product: String?, plan: String?
    ) -> StoredHolder {
        StoredHolder(
            line: line,
            known: ImportComparison.Known(isActive: isActive, until: until, product: product, plan: plan))
    }

    /// Holders and hashes of purchases; no row: there is no such purchase.
    static let purchases = Statement<([String], [Identifier]), StoredHolder>(
        "import_compare_purchases",
        """
        SELECT w.line, e.active, t.effective_next_renewal_at_ms, p.product, p.plan
        FROM unnest($1, $2) WITH ORDINALITY AS w (holder, hash, line)
        CROSS JOIN LATERAL (SELECT * FROM purchases WHERE coalesce(hash, id) = w.hash LIMIT 1) AS p
        LEFT JOIN entitlements e ON e.purchase = p.id AND e.holder = w.holder
        \(AccessEnd.newestTransaction(of: "p.id"))
        """, row: held)

    static let links = Statement<([String], [String], [String], [String]), (Int64, String?)>(
        "import_compare_links",
        """
        SELECT w.line, l.user_id
        FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS w (anonymous, source, app, environment, line)
        JOIN holder_links l ON l.anonymous_user_id = w.anonymous AND l.source = w.source AND l.app = w.app
            AND l.environment = w.environment
        """)

    /// Those that are there: kinds, subjects, targets, times, sources, apps, environments.
    static let kept = Statement<([String], [String], [String], [Int64], [String], [String], [String]), Int64>(
        "import_compare_kept",
        """
        SELECT w.line
        FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY
            AS w (kind, subject, target, at_ms, source, app, environment, line)
        WHERE CASE w.kind
            WHEN 'first' THEN EXISTS (
                SELECT FROM install_identities i WHERE i.identity = w.target AND i.source = w.source
                    AND i.app = w.app AND i.environment = w.environment AND i.install = w.subject)
            WHEN 'install' THEN EXISTS (
                SELECT FROM installs i WHERE i.install = w.subject AND i.source = w.source AND i.app = w.app
                    AND i.environment = w.environment)
            ELSE EXISTS (
                SELECT FROM holder_changes c WHERE c.subject = w.subject AND c.source = w.source AND c.app = w.app
                    AND c.environment = w.environment AND (c.kind = 'login') = (w.kind = 'login')
                    AND c.at_ms = w.at_ms AND c.kind = w.kind AND c.target = w.target) END
        """)
}
