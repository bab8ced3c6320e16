import Postgres
import Vocabulary

/// How access is read: an entitlement row says whether somebody has it, the purchase since when, where the row was not
/// written again (`KnownAccess`).
enum KnownAccessStatements {
    /// Event time that the access of the row `entitlement` is as of; its purchase is the row `purchase`.
    static func asOf(_ entitlement: SQL, of purchase: SQL) -> SQL {
        "coalesce((\(entry(entitlement, of: purchase)) ->> 1)::bigint, \(entitlement).as_of_ms)"
    }

    /// Row of the event that the access follows from.
    static func event(_ entitlement: SQL, of purchase: SQL) -> SQL {
        "coalesce((\(entry(entitlement, of: purchase)) ->> 2)::bigint, \(entitlement).event)"
    }

    /// When it was recorded, in milliseconds since 1970.
    static func changedAt(_ entitlement: SQL, of purchase: SQL) -> SQL {
        """
        coalesce((\(entry(entitlement, of: purchase)) ->> 3)::bigint,
            (extract(epoch FROM \(entitlement).changed_at) * 1000)::bigint)
        """
    }

    private static func entry(_ entitlement: SQL, of purchase: SQL) -> SQL {
        "(\(entries(of: purchase)) -> \(entitlement).holder)"
    }

    /// The entries of a purchase; null: there are none, or they belong to another state. Of a damaged state, whose
    /// checksum is not that of its lines (`PurchaseState.bytes`), what was known last is right until it is repaired.
    private static func entries(of purchase: SQL) -> SQL {
        """
        CASE WHEN \(purchase).access IS NULL THEN NULL
            WHEN convert_to(\(purchase).access ->> 'state', 'UTF8') = substring(\(purchase).state FROM 3 FOR 16)
                THEN \(purchase).access -> 'of'
            WHEN substring(\(purchase).state FOR 1) <> '1' AND substring(\(purchase).state FROM 3 FOR 16)
                <> convert_to(left(encode(sha256(substring(\(purchase).state FROM 20)), 'hex'), 16), 'UTF8')
                THEN \(purchase).access -> 'of' END
        """
    }

    private static let entriesOfPurchase = entries(of: "p")

    /// Writes the rows of locked purchases as new as their access is, and leaves everything to them: before their
    /// states are written by other rules than those of recording.
    static let write = Statement<[Identifier], ()>(
        "known_access_write",
        """
        WITH written AS (
            UPDATE entitlements e
            SET as_of_ms = (k.entry ->> 1)::bigint, event = (k.entry ->> 2)::bigint,
                changed_at = coalesce(to_timestamp((k.entry ->> 3)::numeric / 1000), now())
            FROM purchases p CROSS JOIN LATERAL jsonb_each(\(entriesOfPurchase)) AS k (holder, entry)
            WHERE p.id = ANY ($1) AND e.purchase = p.id AND e.holder = k.holder AND (k.entry ->> 2) IS NOT NULL)
        UPDATE purchases SET access = NULL WHERE id = ANY ($1) AND access IS NOT NULL
        """)
}
