import Postgres
package import Vocabulary

/// A link that says which user an anonymous holder is or was.
package struct IdentityLink: Sendable {
    package let scope: Scope
    package let anonymousID: String
    /// Nil: no known user any more.
    package let userID: String?
    /// The event time that this is as of.
    package let asOf: Timestamp
    /// End of a session; nil: it holds until something else is stated.
    package let until: Timestamp?
    /// Whether it is this user now, by the database's clock.
    package let isActive: Bool
    fileprivate let digest: Identifier
}

extension HolderLookup {
    /// The links of a user or of an anonymous holder, the newest first, ended ones included.
    package func identities(
        of holder: Holder, in scope: LookupScope, after cursor: LookupCursor? = nil, limit: Int
    ) async throws(LookupFailure) -> LookupPage<IdentityLink> {
        let user: String? = if case .user(let id) = holder { id } else { nil }
        let anonymous: String? = if case .anonymous(let id) = holder { id } else { nil }
        let found = try await read { session throws(DatabaseError) in
            let place = cursor ?? .greatest
            return try session.run(
                HolderIdentityStatements.links,
                (user, anonymous, scope.environment, scope.source, place.number, place.identifier, Int32(limit + 1))
            )
        }
        return LookupPage(found, limit: limit) {
            LookupCursor(number: $0.asOf.milliseconds, identifier: $0.digest)
        }
    }
}

enum HolderIdentityStatements {
    private static func link(
        source: String, app: String, environment: String, anonymousID: String, userID: String?, asOf: Timestamp,
        until: Timestamp?, isActive: Bool, digest: Identifier
    ) -> IdentityLink {
        IdentityLink(
            scope: Scope(source: source, app: app, environment: environment), anonymousID: anonymousID,
            userID: userID, asOf: asOf, until: until, isActive: isActive, digest: digest)
    }

    /// A digest of the whole key orders links of equal time.
    static let links = Statement<(String?, String?, String, String?, Int64, Identifier, Int32), IdentityLink>(
        "lookup_identity_links",
        """
        SELECT * FROM (
            SELECT source, app, environment, anonymous_user_id, user_id, as_of_ms, until_ms,
                   user_id IS NOT NULL
                       AND (until_ms IS NULL OR until_ms > (extract(epoch FROM now()) * 1000)::bigint),
                   encode(substring(sha256(convert_to(
                       jsonb_build_array(anonymous_user_id, source, app, environment)::text, 'UTF8')) FOR 16), 'hex'
                   )::uuid AS digest
            FROM holder_links
            WHERE (user_id = $1 OR anonymous_user_id = $2) AND environment = $3 AND ($4 IS NULL OR source = $4)
              AND as_of_ms <= $5
        ) AS l
        WHERE (as_of_ms, digest) < ($5, $6) ORDER BY as_of_ms DESC, digest DESC LIMIT $7
        """, row: link)
}
