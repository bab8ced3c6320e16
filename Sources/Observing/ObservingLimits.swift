/// Limits of the journal and of the metrics that no configuration key moves.
package enum ObservingLimits {
    /// Refused requests that get an entry of their own in one second; the rest are summed up per source and status. As
    /// many may be the first of a source and status, which have an entry in any case.
    package static let refusalEntriesPerSecond = 20
    /// The same of requests that name no source.
    package static let strangerEntriesPerSecond = 5
    /// Sums (integrations, sources, source and status) of one second; what comes beyond is summed up as `other`.
    package static let sumsPerSecondMax = 1_024
    /// Values of one metric's first label; further ones are counted as `other`: a name may come from outside.
    package static let labelValuesMax = 1_024
    /// Entries that the sink is given at once.
    package static let journalBatchEntriesMax = 256
    /// How often sums, and drops, are logged.
    package static let journalTick: Duration = .seconds(1)
    /// How long the end of the process waits for the journal to take what is queued.
    package static let journalCloseTimeout: Duration = .seconds(3)
    /// Parts that the counters are split into, so that event loops and lanes seldom meet on one lock.
    package static let metricStripes = 8
    /// The name under which names beyond a bound are counted.
    package static let otherName = "other"
}
