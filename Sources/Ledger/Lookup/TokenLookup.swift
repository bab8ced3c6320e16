package import Postgres
package import Vocabulary

/// What the ledger knows before a store's API is asked about an event.
package struct TokenLookup: Sendable {
    /// One event of a source, about one token.
    package struct Subject: Sendable {
        package let source: String
        /// The vendor's id of the event: with the source it is the event key.
        package let eventID: String
        package let occurredAt: Timestamp
        /// `KnownToken.token`.
        package let token: Identifier

        package init(source: String, eventID: String, occurredAt: Timestamp, token: Identifier) {
            self.source = source
            self.eventID = eventID
            self.occurredAt = occurredAt
            self.token = token
        }
    }

    package struct Answer: Sendable {
        /// The event is stored: nothing needs to be asked.
        package let isRecorded: Bool
        /// nil: nothing is known of its token.
        package let known: KnownToken?
        /// The database's time, but later than everything that is stated about the token's purchase.
        package let now: Timestamp

        package init(isRecorded: Bool, known: KnownToken?, now: Timestamp) {
            self.isRecorded = isRecorded
            self.known = known
            self.now = now
        }
    }

    struct TokenRow {
        let first: String
        let environment: String?
        let isReplaced: Bool
    }

    struct SubjectRow {
        let isRecorded: Bool
        let now: Int64
        let first: String?
        let environment: String?
        let isReplaced: Bool?
    }

    /// The event keys of `Subject` in both forms (`LedgerForm.timedKeys`), its source and its token.
    static let subject = Statement<(Identifier, Identifier, String, Identifier), SubjectRow>(
        "token_subject",
        """
        SELECT EXISTS (SELECT FROM identities WHERE key = $1 OR key = $2),
               greatest(
                   (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
                   (SELECT max(p.as_of_ms) + 1 FROM purchases p WHERE p.source = $3 AND p.key = t.first)),
               t.first, t.environment, t.is_replaced
        FROM (SELECT 1) AS one LEFT JOIN purchase_tokens t ON t.source = $3 AND t.token = $4
        """, row: SubjectRow.init)

    static let token = Statement<(String, Identifier), TokenRow>(
        "token_known",
        "SELECT first, environment, is_replaced FROM purchase_tokens WHERE source = $1 AND token = $2",
        row: TokenRow.init)

    private let pool: Pool

    package init(pool: Pool) { self.pool = pool }

    /// What is known of an event and its token.
    package func find(_ subject: Subject) async throws(DatabaseError) -> Answer {
        let scope = Scope(source: subject.source, app: "", environment: "")
        let hash = KeyHash.eventHash(vendorEventID: subject.eventID, in: scope.ofSourceAlone)
        let wanted = (hash, hash.behind(subject.occurredAt), subject.source, subject.token)
        let row = try await pool.withSession { session throws(DatabaseError) in
            try session.run(Self.subject, wanted).first
        }
        guard let row else { throw .protocolViolation(reason: "a statement that has one row had none") }
        var known: KnownToken?
        if let first = row.first {
            known = KnownToken(
                token: subject.token, first: first, environment: row.environment, isReplaced: row.isReplaced ?? false)
        }
        return Answer(isRecorded: row.isRecorded, known: known, now: Timestamp(milliseconds: row.now))
    }

    /// What is known of a token; nil: nothing.
    package func find(_ token: Identifier, of source: String) async throws(DatabaseError) -> KnownToken? {
        let row = try await pool.withSession { session throws(DatabaseError) in
            try session.run(Self.token, (source, token)).first
        }
        return row.map {
            KnownToken(token: token, first: $0.first, environment: $0.environment, isReplaced: $0.isReplaced)
        }
    }
}
