import Postgres
import Vocabulary

/// Prunes changes of holders for which no webhook can come any more, by event time and by arrival.
///
/// Of a source whose events may name nobody the newest old link of an anonymous holder stays (Domain.md, "Nameless
/// facts"). It is marked (`is_kept`) and not read again, so a run costs as much as has become old since the last one. A
/// link that becomes old ends the mark's reason: of the two the older one goes, whichever came first.
///
/// The mark is in the row and written in the statement that decides, so a run may be cut short, be done by two daemons
/// at once, or follow a clock that was set back: what was decided stays right, and the rest is found by the next run.
extension Upkeep {
    /// What stays of a source's changes that are old.
    private enum Stay {
        case nothing
        case newestLinks
        /// The source is not configured here. Another daemon may serve it, or this one again later.
        case all
    }

    /// - Returns: the number of changes that were looked at.
    @discardableResult
    func pruneChanges() async throws -> Int64 {
        let sources = try await pool.withSession { session throws(DatabaseError) in
            try session.run(ChangePruneStatements.sources, ())
        }
        var count: Int64 = 0
        for source in sources {
            switch stay(of: source) {
            case .all: continue
            case .newestLinks: count += try await pruneChanges(of: source, keepingLinks: true)
            case .nothing:
                count += try await pruneChanges(of: source, keepingLinks: false)
                count += try await pruneKept(of: source)
            }
        }
        return count
    }

    private func stay(of source: String) -> Stay {
        if mayLackName.contains(source) { return .newestLinks }
        return alwaysNaming.contains(source) ? .nothing : .all
    }

    private func pruneChanges(of source: String, keepingLinks: Bool) async throws -> Int64 {
        var (after, all): (Int64, Int64) = (0, 0)
        while true {
            let wanted = (source, after, Limits.retryHorizonMilliseconds, Self.pruneStep, keepingLinks)
            let step = try await pool.withSession { session throws(DatabaseError) in
                try session.run(ChangePruneStatements.old, wanted).first
            }
            guard let (last, count) = step, let last else { return all }
            (after, all) = (last, all + count)
            if count < Int64(Self.pruneStep) { return all }
        }
    }

    /// Prunes the links that were marked while the source was one whose events may name nobody.
    private func pruneKept(of source: String) async throws -> Int64 {
        var (count, all) = (Int(Self.pruneStep), 0)
        while count == Int(Self.pruneStep) {
            count = try await pool.withSession { session throws(DatabaseError) in
                try session.execute(ChangePruneStatements.kept, (source, Self.pruneStep))
            }
            all += count
        }
        return Int64(all)
    }
}

enum ChangePruneStatements {
    /// The sources that have changes, one look into the index for each.
    static let sources = Statement<(), String>(
        "prune_change_sources",
        """
        WITH RECURSIVE s AS (
            (SELECT source FROM holder_changes ORDER BY source LIMIT 1)
            UNION ALL
            SELECT (SELECT h.source FROM holder_changes h WHERE h.source > s.source ORDER BY h.source LIMIT 1)
            FROM s WHERE s.source IS NOT NULL)
        SELECT source FROM s WHERE source IS NOT NULL
        """)

    /// Takes a source, the arrival to start from (milliseconds since 1970), a least age in milliseconds, a limit, and
    /// whether the newest old link of each anonymous holder stays; returns the last arrival and the number of changes
    /// that were looked at. Each of them is gone or marked afterwards. They are found by the index
    /// `holder_changes_aged`, other links of a holder by `holder_changes_next`: LIMIT and OFFSET ensure one look for
    /// each.
    static let old = Statement<(String, Int64, Int64, Int32, Bool), (Int64?, Int64)>(
        "prune_changes",
        """
        WITH page AS MATERIALIZED (
            SELECT id, source, app, environment, subject, at_ms, received_at,
                   $5 AND kind = 'login' AND subject LIKE 'anon:%' AS is_link
            FROM holder_changes
            WHERE source = $1 AND NOT is_kept AND received_at >= timestamptz 'epoch' + $2 * interval '1 millisecond'
                AND received_at < now() - $3 * interval '1 millisecond'
                AND at_ms < extract(epoch FROM now() - $3 * interval '1 millisecond') * 1000
                AND applied_through IS NULL
            ORDER BY received_at LIMIT $4),
        newest AS MATERIALIZED (
            SELECT id FROM page p WHERE is_link AND (
                SELECT true FROM holder_changes n
                WHERE n.subject = p.subject AND n.source = p.source AND n.app = p.app
                    AND n.environment = p.environment AND (n.kind = 'login')
                    AND n.at_ms < extract(epoch FROM now() - $3 * interval '1 millisecond') * 1000
                    AND (n.at_ms, n.id) > (p.at_ms, p.id) LIMIT 1) IS NULL),
        last AS (
            SELECT DISTINCT ON (subject, app, environment) * FROM page WHERE is_link
            ORDER BY subject, app, environment, at_ms DESC, id DESC),
        former AS (
            SELECT o.id FROM last p CROSS JOIN LATERAL (
                SELECT id, is_kept FROM holder_changes o
                WHERE o.subject = p.subject AND o.source = p.source AND o.app = p.app
                    AND o.environment = p.environment AND (o.kind = 'login') AND (o.at_ms, o.id) < (p.at_ms, p.id)
                OFFSET 0) AS o
            WHERE o.is_kept),
        marked AS (UPDATE holder_changes SET is_kept = true WHERE id = ANY (ARRAY (SELECT id FROM newest))),
        gone AS (
            DELETE FROM holder_changes WHERE id = ANY (ARRAY (
                (SELECT id FROM page EXCEPT SELECT id FROM newest) UNION ALL SELECT id FROM former)))
        SELECT floor(extract(epoch FROM max(received_at)) * 1000)::bigint, count(*) FROM page
        """)

    /// Takes a source and a limit.
    static let kept = Statement<(String, Int32), ()>(
        "prune_kept_changes",
        """
        DELETE FROM holder_changes WHERE id = ANY (ARRAY (
            SELECT id FROM holder_changes WHERE source = $1 AND is_kept LIMIT $2))
        """)
}
