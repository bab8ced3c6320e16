internal import Ledger
internal import Vocabulary

/// Limits of the API, with units; those shared with the rest of Posthouse are in Vocabulary/Limits.
enum APILimits {
    /// Default number of entries of a page.
    static let pageEntries = 100
    /// Largest number of entries of a page.
    static let pageEntriesMax = HolderLookup.entriesMax
    /// Subscription groups that one request can query.
    static let groupsMax = 100
    /// Transactions that one restore can name.
    static let restoreTransactionsMax = 1_000
    /// Bytes of a query, percent-encoded: less than a head may have, so that the answer can say what is wrong.
    static let queryBytesMax = 15 << 10
    /// From the first byte of a request to its answer.
    static let answerTimeout = Limits.acknowledgementTimeout
    /// How far the times of statements may be ahead of the database's clock, which may have been set back.
    static let clockLeadMax: Duration = .seconds(5)
    /// A statement about an install is dated after what the install holds or restores, because a platform's clock may
    /// be ahead; but not after what is dated further ahead of the database's clock than this.
    static let heldAheadMax: Duration = .seconds(60)
    /// Retry-After of a 503 for the client.
    static let retryAfterSeconds = 1
}
