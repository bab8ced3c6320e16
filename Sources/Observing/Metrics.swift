internal import Glibc
package import Linux
internal import Synchronization
package import Vocabulary

/// The state of the queue at the moment of a scrape; the caller of `metricsPage(gauges:)` reads it from the database.
package struct Gauges: Sendable {
    package struct Queue: Sendable {
        package var integration: String
        /// Deliveries that are neither accepted nor dead.
        package var waiting: Int
        /// Age of the oldest of them by database time; nil: none waits.
        package var oldestWaitingSeconds: Double?
        package var deadLetters: Int
        package var isPaused: Bool
        package var breakerIsOpen: Bool

        package init(
            integration: String, waiting: Int, oldestWaitingSeconds: Double?, deadLetters: Int, isPaused: Bool,
            breakerIsOpen: Bool
        ) {
            self.integration = integration
            self.waiting = waiting
            self.oldestWaitingSeconds = oldestWaitingSeconds
            self.deadLetters = deadLetters
            self.isPaused = isPaused
            self.breakerIsOpen = breakerIsOpen
        }
    }

    /// Purchases of a source in an environment whose end has passed without a word.
    package struct Overdue: Sendable {
        package var source: String
        package var environment: String
        /// Those that still give access, by the leeway of the source.
        package var active: Int
        package var lapsed: Int

        package init(source: String, environment: String, active: Int, lapsed: Int) {
            self.source = source
            self.environment = environment
            self.active = active
            self.lapsed = lapsed
        }
    }

    /// The database answers and can commit.
    package var databaseIsUp: Bool
    /// As read last. Empty: not known, so its gauges are absent, not zero.
    package var queues: [Queue]
    /// Empty: not known.
    package var overdue: [Overdue]
    package var recording: Recording
    /// Webhooks on their way into the database.
    package var beingStored: Int

    /// The disk of the private cluster; nil: there is none.
    package var disk: DiskSpace?

    /// What waits in the spool of this daemon; nil: there is none.
    package var spool: Spool?

    package struct Spool: Sendable {
        package var webhooks: Int
        package var bytes: Int
        /// Age of the oldest by this machine's clock; 0: none waits.
        package var oldestSeconds: Double

        package init(webhooks: Int, bytes: Int, oldestSeconds: Double) {
            self.webhooks = webhooks
            self.bytes = bytes
            self.oldestSeconds = oldestSeconds
        }
    }

    /// Distributions since the start.
    package struct Recording: Sendable {
        /// Milliseconds.
        package var commits: Histogram
        package var batches: Histogram

        package init(
            commits: Histogram = Histogram(bounds: []), batches: Histogram = Histogram(bounds: [])
        ) {
            self.commits = commits
            self.batches = batches
        }
    }

    package init(
        databaseIsUp: Bool, queues: [Queue], overdue: [Overdue] = [], recording: Recording = Recording(),
        beingStored: Int = 0, disk: DiskSpace? = nil, spool: Spool? = nil
    ) {
        self.databaseIsUp = databaseIsUp
        self.queues = queues
        self.overdue = overdue
        self.recording = recording
        self.beingStored = beingStored
        self.disk = disk
        self.spool = spool
    }
}

/// Counters and histograms, counted from Observations.
///
/// They are split into stripes, each with its lock, and a thread always uses the same one: counting costs an
/// uncontended lock and one or two dictionary look-ups. A scrape adds the stripes up.
final class Metrics: Sendable {
    private final class Stripe: Sendable {
        let tally = Mutex(MetricsTally())
    }

    private let stripes = (0..<ObservingLimits.metricStripes).map { _ in Stripe() }

    func count(_ observation: Observation) {
        // Addresses of threads differ in their middle bits: the low ones are alignment, the high ones the mapping.
        let thread = UInt(bitPattern: Int(pthread_self())) >> 12
        let stripe = stripes[Int((thread ^ thread >> 8) % UInt(stripes.count))]
        stripe.tally.withLock { $0.count(observation) }
    }

    /// Begins the series of these names with 0; what was counted stays.
    func expect(sources: [String], integrations: [String]) {
        stripes[0].tally.withLock { $0.expect(sources: sources, integrations: integrations) }
    }

    /// The sum of all stripes, at slightly different instants each.
    func total() -> MetricsTally {
        var total = MetricsTally()
        for stripe in stripes { total.add(stripe.tally.withLock { $0 }) }
        return total
    }
}
