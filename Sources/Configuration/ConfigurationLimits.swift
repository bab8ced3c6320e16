internal import Vocabulary

/// The limits of a configuration. Limits of the running relay are in Vocabulary.
package enum ConfigurationLimits {
    /// Bytes of the file.
    package static let fileBytesMax = 4 << 20
    /// Tables and arrays inside one another.
    package static let nestingMax = 32
    /// Dots outside strings in one line: the depth of a dotted key.
    package static let dotsOfLineMax = 16
    /// Bytes of one secret, of a certificate file or of a bundle of them.
    package static let secretBytesMax = 64 << 10
    package static let certificateBytesMax = 1 << 20
    /// Diagnostics of one file; further ones are not reported.
    package static let diagnosticsMax = 200
    /// Characters of a source line that a diagnostic shows.
    package static let excerptCharactersMax = 160
    /// Characters of a value that a message quotes.
    package static let quoteCharactersMax = 64

    /// Characters of the name of a source, an integration, a group or a token.
    package static let nameCharactersMax = 64
    /// Secrets of one source or integration: the old and the new while one is rotated, and some more.
    package static let secretsMax = 8
    /// Bytes of an API token: a request's head must hold it. A shorter one than the second can be guessed.
    package static let tokenBytesMax = 1_024
    package static let tokenBytesSafe = 16
    /// Fields of `headers`, and bytes of one name and one value.
    package static let headersMax = 32
    package static let headerNameBytesMax = 256
    package static let headerValueBytesMax = 8 << 10
    /// Members of `events`, `environments`, `sources`, `permanent`, `products`, `scopes` and of each field of `where`;
    /// names of `event_names`.
    package static let listMembersMax = 512
    /// Gaps of one `schedule`.
    package static let scheduleGapsMax = 64
    /// Characters of an event glob or the name of an environment.
    package static let patternCharactersMax = 128
    /// Bytes of a URL.
    package static let urlBytesMax = 2_048
    /// Bytes of a unix socket's path: `sun_path` has 108, one of them the terminator (unix(7)).
    package static let socketPathBytesMax = 107

    static let bodyBytes = 1_024...Limits.recordQueueBytesMax
    /// `[spool] max`.
    static let spoolBytes = (1 << 20)...(1 << 40)
    static let poolConnections = 2...256
    /// `[database] pool` default.
    package static let poolConnectionsDefault = 8
    /// Bytes of a schema's name (PostgreSQL, "Identifiers and Key Words").
    static let schemaBytesMax = 63
    static let statementTimeout: ClosedRange<Duration> = .milliseconds(100)...(.seconds(3_600))
    static let attemptTimeout: ClosedRange<Duration> = .milliseconds(10)...Limits.attemptTimeoutMax
    static let gap: ClosedRange<Duration> = .milliseconds(1)...(.seconds(30 * 86_400))
    /// `jitter` default.
    static let jitterDefault = 0.2
    static let giveUpAfter: ClosedRange<Duration> = .seconds(1)...(.seconds(365 * 86_400))
    /// The answer must be on its way before the source stops reading.
    static let confirmTimeout: ClosedRange<Duration> = .milliseconds(100)...Limits.confirmTimeoutMax
    static let freshness: ClosedRange<Duration> = .seconds(1)...(.seconds(365 * 86_400))
    static let leeway: ClosedRange<Duration> = .zero...(.seconds(365 * 86_400))
    static let detailPerSecond = 0...100_000
    /// Attempts are dropped by the day.
    static let attemptsKept: ClosedRange<Duration> = .seconds(86_400)...(.seconds(36_500 * 86_400))
    /// An event key must outlive the last retry of its source, or a late retry would be taken for a new event.
    static let duplicatesKept: ClosedRange<Duration> =
        .milliseconds(Limits.retryHorizonMilliseconds)...(.seconds(36_500 * 86_400))
    static let attemptsKeptDefault: Duration = .seconds(30 * 86_400)
    static let eventsKeptDefault: Duration = .seconds(400 * 86_400)
    static let duplicatesKeptDefault: Duration = .seconds(60 * 86_400)
}
