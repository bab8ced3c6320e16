internal import Glibc

/// Every wait and size of the private cluster, with its unit.
enum ClusterLimits {
    /// The oldest PostgreSQL that Posthouse runs on.
    static let majorVersionMin = 15
    /// How long a server that starts may do nothing. While it works it is waited for: recovery after a crash replays
    /// all since the last checkpoint, and one that is cut short begins anew.
    static let idleStartTimeout: Duration = .seconds(600)
    /// Bytes of shared_buffers. The checkpoint of a stop writes what has changed in them; the page cache of the kernel
    /// serves the rest.
    static let sharedBuffers: ClosedRange<UInt64> = (128 << 20)...(2 << 30)
    /// max_connections is at least the first, which is PostgreSQL's own default, and larger than the daemon's pool by
    /// the second: for its other connections, for commands beside it, for whoever looks with psql, and for the three
    /// that PostgreSQL keeps to a superuser.
    static let connectionsMin = 100
    static let connectionsBeside = 20
    /// Bytes of max_wal_size: the disk that the log may take between checkpoints, and what a recovery replays.
    static let walBytes: ClosedRange<UInt64> = (512 << 20)...(4 << 30)
    /// How often a start or a stop that takes long is logged.
    static let progressInterval: Duration = .seconds(5)
    /// How often readiness is checked while the server starts.
    static let readyPoll: Duration = .milliseconds(50)
    /// How often the postmaster is checked while it runs: one read of /proc/PID/stat.
    static let watchInterval: Duration = .milliseconds(250)
    /// A postmaster that was found running must answer on its socket within this.
    static let answerTimeout: Duration = .seconds(5)
    /// How many times a postmaster that was found running is probed before it counts as stuck.
    static let answerAttempts = 3
    /// A fast shutdown (SIGINT) writes a checkpoint; after this the immediate one (SIGQUIT) follows. What a cut
    /// checkpoint has not written the next start recovers.
    static let fastStopTimeout: Duration = .seconds(600)
    /// The same for a server that is stopped to be started again: it is stuck, or could not start.
    static let stuckStopTimeout: Duration = .seconds(20)
    /// An immediate shutdown has nothing to write; after this only SIGKILL is left. PostgreSQL itself kills its
    /// processes that have not ended after 5 s (postmaster.c, SIGKILL_CHILDREN_AFTER_SECS), which must come first.
    static let immediateStopTimeout: Duration = .seconds(10)
    /// Server processes that outlived their postmaster end by themselves when idle; after this they are killed.
    static let orphanStopTimeout: Duration = .seconds(2)
    /// One that even SIGKILL does not end (it hangs in the kernel, on a dead disk) is an error after this.
    static let orphanTimeout: Duration = .seconds(30)
    /// The gap before a dead server is started again: at first the lower bound, doubling up to the upper one.
    static let restartBackoff: ClosedRange<Duration> = .milliseconds(100)...(.seconds(10))
    /// A server that ran for this long begins the backoff anew when it dies.
    static let restartBackoffReset: Duration = .seconds(60)
    /// Bytes of the server's log; a longer one is emptied.
    static let logBytesMax = 16 << 20
    /// How often the log's size is checked, in watch intervals (one minute).
    static let logCheckTicks = 240
    /// How often, and how far apart, the removal of an unfinished cluster is tried.
    static let removalAttempts = 20
    static let removalGap: Duration = .milliseconds(100)
    /// Bytes and lines of the server's log that an error quotes.
    static let logTailBytesMax = 8 << 10
    static let logTailLinesMax = 8
    /// Bytes of the output of initdb that an error may quote from.
    static let outputBytesMax = 256 << 10
    /// Bytes of PG_VERSION, postmaster.pid and /proc files that are read.
    static let smallFileBytesMax = 64 << 10
    /// `sun_path` of unix(7) without its closing zero.
    static let socketPathBytesMax = 107
    /// PostgreSQL's MAXPGPATH (1024) less the longest name it appends.
    static let dataPathBytesMax = 900
}

/// How long a server that starts is waited for; pure, so that it can be tested without a server.
struct StartTimeout {
    private var work: [pid_t: UInt64] = [:]
    private var lastWork: ContinuousClock.Instant

    init(begin: ContinuousClock.Instant) { lastWork = begin }

    /// - Parameter work: as `ServerProcesses.work` has it now.
    mutating func isOver(at now: ContinuousClock.Instant, work: [pid_t: UInt64]) -> Bool {
        if work != self.work { (self.work, lastWork) = (work, now) }
        return now - lastWork > ClusterLimits.idleStartTimeout
    }
}

/// The gap before the next start of a server that died; pure, so that it can be tested without a server.
struct RestartBackoff {
    private var next = ClusterLimits.restartBackoff.lowerBound

    /// `uptime` is how long the server ran before it died; nil when it did not come up at all.
    mutating func gap(uptime: Duration?) -> Duration {
        if let uptime, uptime >= ClusterLimits.restartBackoffReset { next = ClusterLimits.restartBackoff.lowerBound }
        defer { next = min(next * 2, ClusterLimits.restartBackoff.upperBound) }
        return next
    }
}
