import Postgres
import Vocabulary

/// What is known of the tokens that a batch's events name, and what these events add to it.
///
/// An event states what it does by what was known of its token before its transaction, often together with what a
/// store's API answered then. What another batch recorded meanwhile may have made that untrue. So it is compared again
/// behind the locks of the purchases: an event that does not fit any more is refused, and is made anew from its body.
struct KnownTokens {
    private struct Key: Hashable {
        /// Its name's UTF-8.
        let source: [UInt8]
        let token: Identifier

        init(_ source: String, _ token: Identifier) {
            self.source = Array(source.utf8)
            self.token = token
        }
    }

    /// How far a stated time may be ahead of the database's. A later one would outrank all newer statements until then.
    private static let aheadMaxMilliseconds: Int64 = 10_000

    private var rows: [Key: KnownToken] = [:]
    private var added: [Key: RecordTables.TokenRow] = [:]

    /// The rows of some tokens. The arrays have one source for each token.
    static let statement = Statement<([String], [Identifier]), RecordTables.TokenRow>(
        "record_tokens",
        """
        SELECT w.source, t.token, t.first, t.environment, t.is_replaced
        FROM unnest($1, $2) AS w (source, token)
        CROSS JOIN LATERAL (
            SELECT token, first, environment, is_replaced FROM purchase_tokens p
            WHERE p.source = w.source AND p.token = w.token LIMIT 1) AS t
        """, row: row)

    private static func row(
        source: String, token: Identifier, first: String, environment: String?, isReplaced: Bool
    ) -> RecordTables.TokenRow {
        RecordTables.TokenRow(
            source: source,
            known: KnownToken(token: token, first: first, environment: environment, isReplaced: isReplaced))
    }

    /// Nothing is known.
    init() {}

    init(_ answer: [RecordTables.TokenRow]) {
        for row in answer { rows[Key(row.source, row.known.token)] = row.known }
    }

    /// Adds what an event says of tokens.
    ///
    /// It does not fit, and nothing of it is added, if its token belongs to another purchase or environment than it
    /// presumes, or has been replaced. Nor does it if it replaces a token and something newer than the API's answer is
    /// known of the purchase: that may be the replaced token's end, which would outlast what the event states. A line
    /// of an export says what became of tokens, and nothing by them.
    ///
    /// - Parameters:
    ///   - newest: the time of the newest statement about the event's purchase; nil: there is none.
    ///   - now: the database's time.
    /// - Returns: whether the event fits.
    mutating func admit(_ event: Event, newest: Timestamp?, now: Timestamp) -> Bool {
        var changed: [Key: RecordTables.TokenRow] = [:]
        for (index, token) in event.tokens.enumerated() {
            let key = Key(event.scope.source, token.token)
            var joined = token
            if let known = changed[key]?.known ?? added[key]?.known ?? rows[key] {
                guard fits(token, known, isOwn: index == 0 && !event.isImport) else { return false }
                joined = known.joined(by: token)
                if joined == known { continue }
            }
            changed[key] = RecordTables.TokenRow(source: event.scope.source, known: joined)
        }
        if event.answer != nil, let newest, event.asOf < newest,
            newest <= now.advanced(byMilliseconds: Self.aheadMaxMilliseconds),
            changed.values.contains(where: { $0.known.isReplaced })
        {
            return false
        }
        added.merge(changed) { $1 }
        return true
    }

    private func fits(_ token: KnownToken, _ known: KnownToken, isOwn: Bool) -> Bool {
        guard known.first.hasSameBytes(as: token.first) else { return false }
        if let environment = known.environment, let presumed = token.environment {
            guard environment.hasSameBytes(as: presumed) else { return false }
        }
        return !isOwn || token.isReplaced || !known.isReplaced
    }

    /// The rows to be written: each token once, in one order everywhere.
    var newRows: [RecordTables.TokenRow] {
        added.sorted { left, right in
            left.key.source == right.key.source
                ? left.key.token < right.key.token
                : left.key.source.lexicographicallyPrecedes(right.key.source)
        }.map(\.value)
    }
}
