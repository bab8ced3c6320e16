import Postgres
import TestSupport

/// Settings as the relay uses them. The waits are against hanging alone, longer than a busy machine stands still.
func settings(
    _ connectionString: String, statementTimeout: Duration = .seconds(300), deadlineMargin: Duration = .seconds(60)
) throws -> ConnectionSettings {
    try ConnectionSettings(
        connectionString, connectTimeout: .seconds(120), statementTimeout: statementTimeout,
        deadlineMargin: deadlineMargin)
}

/// A connection to a fresh database of the shared cluster.
func freshConnection() async throws -> Connection {
    try await Connection.open(settings(TestCluster.shared.createDatabase()))
}

func pool(
    _ connectionString: String, size: Int = 4, waitersMax: Int = 100, limit: Duration = .seconds(300),
    backoff: ClosedRange<Duration> = .milliseconds(20)...(.milliseconds(200)),
    admission: @escaping Pool.Admission = { _ in nil },
    onStateChange: @escaping @Sendable (PoolState) -> Void = { _ in }
) throws -> Pool {
    let pool = Pool(
        try settings(connectionString), size: size, waiting: Pool.Waiting(waitersMax: waitersMax, limit: limit),
        backoff: backoff, admission: admission, onStateChange: onStateChange)
    pool.start()
    return pool
}

/// What `body` threw as a `DatabaseError`; nil if it did not.
func databaseError(_ body: () async throws -> Void) async -> DatabaseError? {
    do {
        try await body()
        return nil
    } catch {
        return error as? DatabaseError
    }
}

enum Sample {
    static let one = Statement<Void, Int32>("one", "SELECT 1")
    static let processID = Statement<Void, Int32>("process_id", "SELECT pg_backend_pid()")
    static let sleep = Statement<Double, Void>("sleep", "SELECT pg_sleep($1)")
    /// With the SQLSTATE by which a COMMIT says that no standby has confirmed it.
    static let warning = Statement<Void, Void>("warning", "DO $$BEGIN RAISE WARNING 'of a statement'; END$$")
    /// A warning with the same SQLSTATE, which nothing but its place tells from one of COMMIT.
    static let unlock = Statement<Void, Bool>("unlock", "SELECT pg_advisory_unlock(1)")
    static let createTable = "CREATE TABLE items (id int8 PRIMARY KEY, note text NOT NULL)"
    static let insert = Statement<(Int64, String), Void>("insert", "INSERT INTO items VALUES ($1, $2)")
    static let count = Statement<Void, Int64>("count", "SELECT count(*) FROM items")
}

/// Keeps what a pool publishes and lets a test wait for it.
final class StateLog: Sendable {
    let changes: AsyncStream<PoolState>
    private let continuation: AsyncStream<PoolState>.Continuation

    init() { (changes, continuation) = AsyncStream.makeStream() }

    func publish(_ change: PoolState) { continuation.yield(change) }

    func first(where matches: (PoolState) -> Bool) async -> PoolState? { await changes.first(where: matches) }
}
