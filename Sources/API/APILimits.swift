internal import Ledger
internal import Vocabulary

/// What bounds the API, with units; what it shares with the rest of the relay stands in Vocabulary/Limits.
package enum APILimits {
    /// Look-ups under way at once, a connection each: the rest of the pool is for recording and delivering.
    package static let lookupsMax = 2

    /// At least one connection of a small pool is never taken by a look-up.
    package static func lookups(ofConnections connections: Int) -> Int { max(1, min(lookupsMax, connections - 1)) }

    /// Requests that wait for their turn; more are answered 503.
    package static let waitingMax = 256
    /// Entries of a page, unless the request says less or more.
    static let pageEntries = 100
    /// Entries of a page at most.
    static let pageEntriesMax = HolderLookup.entriesMax
    /// Subscription groups that one request can ask for.
    static let groupsMax = 100
    /// Transactions that one restore can name.
    static let restoreTransactionsMax = 1_000
    /// Bytes of a query, percent-encoded: less than a head may have, so that the answer can say what is wrong.
    static let queryBytesMax = 15 << 10
    /// From the first byte of a request to its answer.
    static let answerTimeout = Limits.acknowledgementTimeout
    /// What a 503 asks the client to wait.
    static let retryAfterSeconds = 1
}
