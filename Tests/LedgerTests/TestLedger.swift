import Foundation
import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// A migrated database of its own on the shared cluster, and as many daemons on it as a test wants.
final class TestLedger: Sendable {
    let connectionString: String
    let database: String
    private let cluster: TestCluster
    private let daemons = Mutex<[Daemon]>([])

    /// Migrated once for the tests that have one ledger: a copy costs far less. Copies have the same mark, salt and
    /// OIDs; a test that compares ledgers makes each by `init`.
    private static let template = Task { try await TestLedger().database }

    init(
        on cluster: TestCluster? = nil, isMigrated: Bool = true, encoding: String? = nil, copyOf template: String? = nil
    ) async throws {
        self.cluster = try cluster ?? TestCluster.shared
        if let encoding {
            let name = "encoded_\(encoding.lowercased())"
            try self.cluster.psql(
                "CREATE DATABASE \(name) ENCODING '\(encoding)' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
            connectionString = self.cluster.connectionString(database: name)
        } else {
            connectionString = try self.cluster.createDatabase(copyOf: template)
        }
        database = String(connectionString.split(separator: "=").last ?? "")
        guard isMigrated, template == nil else { return }
        let connection = try await connect()
        _ = try await connection.withSession { session throws(DatabaseError) in try Migrator.migrate(on: session) }
            .get()
        await connection.close()
    }

    /// Runs `body` and closes every pool, however it ends.
    static func run(
        on cluster: TestCluster? = nil, encoding: String? = nil, _ body: (TestLedger) async throws -> Void
    ) async throws {
        let template = cluster == nil && encoding == nil ? try await Self.template.value : nil
        let ledger = try await TestLedger(on: cluster, encoding: encoding, copyOf: template)
        let result: Result<Void, any Error>
        do { result = .success(try await body(ledger)) } catch { result = .failure(error) }
        for daemon in ledger.daemons.withLock({ $0 }) { await daemon.pool.close() }
        try result.get()
    }

    static func settings(
        _ connectionString: String, schema: String? = nil, lockWait: Duration? = nil
    ) throws -> ConnectionSettings {
        try ConnectionSettings(
            connectionString, connectTimeout: .seconds(120), statementTimeout: .seconds(120),
            deadlineMargin: .seconds(60),
            // Hundreds of tests share the processors: one of them may wait for its turn inside a transaction, another
            // for its lock.
            idleTransactionTimeout: .seconds(300), lockWait: lockWait, schema: schema)
    }

    func connect() async throws -> Connection { try await Connection.open(Self.settings(connectionString)) }

    /// Runs `body` while somebody else holds what `lock` locks, and waits for it in the end.
    /// - Parameter meanwhile: once a session of this database waits for a lock.
    func holding<Value: Sendable>(
        _ lock: @escaping @Sendable (borrowing Session) throws(DatabaseError) -> Void,
        _ body: @escaping @Sendable () async throws -> Value, meanwhile: () async throws -> Void = {}
    ) async throws -> Value {
        let holder = try await connect()
        let gate = Gate()
        async let held: Void = holder.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                try lock(session)
                gate.open()
                gate.waitForClose()
            }
        }
        await gate.opened()
        let isOver = Mutex(false)
        let running = Task {
            defer { isOver.withLock { $0 = true } }
            return try await body()
        }
        let waiting = """
            SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            """
        while !isOver.withLock({ $0 }), try psql(waiting) == "0" { try await Task.sleep(for: .milliseconds(20)) }
        #expect(!isOver.withLock { $0 }, "it waited for nobody")
        try await meanwhile()
        gate.close()
        try await held
        await holder.close()
        return try await running.value
    }

    /// What a daemon does beside its service, and `posthouse migrate`. Again where the session was ended: the server
    /// does so where this process stands still for a second with whole tables locked.
    func migrateIndexes() async throws -> IndexMigration.Outcome {
        var (losses, looks) = (0, 0)
        while true {
            do {
                let outcome = try await migrateIndexesOnce()
                looks += 1
                // The session before may still have the lock for a moment.
                if outcome != .taken || losses == 0 || looks > 1_000 { return outcome }
            } catch let error as DatabaseError where error.isTemporary && losses < 5 {
                losses += 1
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private func migrateIndexesOnce() async throws -> IndexMigration.Outcome {
        let connection = try await connect()
        let outcome = try await connection.withSession { session throws(DatabaseError) in
            try IndexMigration.run(on: session)
        }
        await connection.close()
        return outcome
    }

    /// Runs `body` while a transaction of another connection is open that has run `sql`.
    func during<Value>(_ sql: String, _ body: () async throws -> Value) async throws -> Value {
        let holder = try await connect()
        let gate = Gate()
        async let held: Void = holder.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                try session.script(sql)
                gate.open()
                gate.waitForClose()
            }
        }
        await gate.opened()
        let result: Result<Value, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        gate.close()
        try await held
        await holder.close()
        return try result.get()
    }

    /// A daemon that has registered and routes to `integrations`.
    func daemon(
        _ integrations: [Integration] = [], key: Identifier? = nil, slotsPerLane: Int = Limits.laneDeliveriesMax,
        bytesPerLane: Int = Limits.laneBytesMax, copiedEventsMin: Int = 1,
        changePurchasesMax: Int = Limits.changePurchasesMax, settings: ConnectionSettings? = nil
    ) async throws -> Daemon {
        let daemon = try await Daemon(
            settings ?? Self.settings(connectionString), integrations: integrations, key: key,
            slotsPerLane: slotsPerLane, bytesPerLane: bytesPerLane, copiedEventsMin: copiedEventsMin,
            changePurchasesMax: changePurchasesMax)
        daemons.withLock { $0.append(daemon) }
        return daemon
    }

    /// As if the daemon had not renewed its lease in time.
    func expire(_ daemon: Daemon) throws {
        try psql("UPDATE daemons SET expires_at = now() - interval '1 second' WHERE id = \(daemon.lease)")
    }

    /// As a ledger was before `LedgerForm.timedKeys`: keys and ids are hashes.
    func writeWithoutTimedKeys() throws {
        try writePlain()
        try psql("ALTER TABLE identities ADD PRIMARY KEY (key)")
    }

    /// As a ledger was before `LedgerForm.periods`: daemons of versions before register.
    func admitOlderDaemons() throws { try psql("ALTER TABLE daemons DROP CONSTRAINT IF EXISTS reads_periods") }

    /// As a ledger without webhooks was before `LedgerForm.periods`: events and messages are plain tables.
    func writePlain() throws {
        try psql(
            """
            CREATE TABLE plain_events (LIKE events INCLUDING DEFAULTS);
            CREATE TABLE plain_messages (LIKE messages INCLUDING DEFAULTS);
            DROP TABLE events, messages;
            ALTER TABLE plain_events RENAME TO events;
            ALTER TABLE plain_messages RENAME TO messages;
            ALTER TABLE events ADD CONSTRAINT events_pkey PRIMARY KEY (id);
            CREATE INDEX events_purchase ON events (purchase, id) WHERE purchase IS NOT NULL;
            ALTER TABLE messages ADD CONSTRAINT messages_pkey PRIMARY KEY (id),
                ADD CONSTRAINT messages_key_key UNIQUE (key);
            CREATE INDEX messages_event ON messages (event);
            DELETE FROM periods;
            SELECT setval('event_ids', 1, false), setval('message_ids', 1, false)
            """)
        try admitOlderDaemons()
    }

    /// Lets rows have ids that lie below every period, as those of a ledger from before there were any.
    /// - Parameters:
    ///   - ids: in partitions that begin there.
    ///   - isAlone: without a period behind it.
    func allowIDsBefore(splitAt ids: [Int64] = [], isAlone: Bool = false) throws {
        for table in PeriodTables.names {
            if isAlone { try psql("DROP TABLE \(table)_1") }
            var start: Int64?
            for (number, end) in (ids + [Period.firstID(1)]).enumerated() {
                let name = "\(table)_\(PeriodTables.before)\(number == 0 ? "" : "\(number)")"
                try psql(
                    PeriodTables.creation(name, in: table)
                        + PeriodTables.attaching(name, to: table, from: start, below: end))
                start = end
            }
        }
    }

    /// What is recorded next lies below every period, as after the switch until the sequences are moved.
    func recordBeforePeriods() throws {
        try allowIDsBefore()
        try psql("SELECT setval('event_ids', 1, false), setval('message_ids', 1, false)")
    }

    /// What `IndexMigration` does once no daemon of a version before lives.
    func switchToTimedKeys() throws { try psql(FormSwitch.statement) }

    /// What the rows of `entitlements` would say if each webhook wrote them (`KnownAccess`).
    static let access = """
        (SELECT n.holder, n.purchase, n.active,
                coalesce((q.access -> 'of' -> n.holder ->> 1)::bigint, n.as_of_ms) AS as_of_ms,
                coalesce((q.access -> 'of' -> n.holder ->> 2)::bigint, n.event) AS event,
                coalesce((q.access -> 'of' -> n.holder ->> 3)::bigint,
                    (extract(epoch FROM n.changed_at) * 1000)::bigint) AS changed_ms
         FROM entitlements n JOIN purchases q ON q.id = n.purchase)
        """

    /// Lets midnight (UTC) pass where it is near, for tests that count days from the database's today.
    func awayFromMidnight() async throws {
        let isNear = "SELECT (now() AT TIME ZONE 'UTC')::time > '23:57'"
        while try psql(isNear) == "t" { try await Task.sleep(for: .seconds(1)) }
    }

    /// Asks by libpq, which is not ours: rows by lines, columns by `|`.
    /// - Parameter isKept: as for `Query.rows`; false: in a session that begins now.
    @discardableResult
    func psql(_ sql: String, inKeptSession isKept: Bool = true) throws -> String {
        try cluster.psql(sql, database: database, inKeptSession: isKept)
    }
}

/// What one process of the relay has of the ledger, without its background tasks: the tests take every step by hand.
final class Daemon: Sendable {
    let pool: Pool
    let clock = DatabaseClock()
    let registration: Registration
    let dispatchBuffer: DispatchBuffer
    let routes = Routes(RouteTable())
    let queue: Queue
    let log = Log()
    /// What was handed to the lanes, in order.
    let inbox = Inbox()
    let rows: [String: Int32]
    let poolStates: AsyncStream<PoolState>
    /// 1: every batch is copied, so that these tests hold for it; that small ones are inserted the scenarios show.
    private let copiedEventsMin: Int
    private let changePurchasesMax: Int

    init(
        _ settings: ConnectionSettings, integrations: [Integration], key: Identifier?, slotsPerLane: Int,
        bytesPerLane: Int, copiedEventsMin: Int, changePurchasesMax: Int
    ) async throws {
        self.copiedEventsMin = copiedEventsMin
        self.changePurchasesMax = changePurchasesMax
        let (states, changed) = AsyncStream<PoolState>.makeStream()
        poolStates = states
        pool = Pool(
            settings, size: 3, waiting: Pool.Waiting(waitersMax: 100, limit: .seconds(120)),
            backoff: .milliseconds(20)...(.milliseconds(200)), onStateChange: { changed.yield($0) })
        pool.start()
        // Nobody renews it, and on a busy machine a test takes longer than a lease lasts. `TestLedger.expire` ends it.
        registration = Registration(pool: pool, key: key, version: "test", clock: clock, leaseDuration: .seconds(3_600))
        dispatchBuffer = DispatchBuffer(slotsPerLane: slotsPerLane, bytesPerLane: bytesPerLane)
        let log = log
        queue = Queue(
            pool: pool, dispatchBuffer: dispatchBuffer, registration: registration, routes: routes,
            observe: { log.note($0) })
        try await registration.register()
        let routed = try await queue.route(integrations)
        rows = Dictionary(uniqueKeysWithValues: routed.map { ($0.integration.name, $0.row) })
    }

    func row(_ name: String) -> Int32 { rows[name] ?? -1 }

    var lease: Int64 { registration.id ?? -1 }

    /// Begins to take deliveries into `inbox`.
    func open(_ names: String...) {
        for name in names { dispatchBuffer.open(row(name)) { [inbox] in inbox.put($0) } }
    }

    /// Everything handed in before the recorder looks: one batch while there are at most 500, and one writer.
    @discardableResult
    func record(_ events: [Event], writers: Int = 1) async -> [RecordQueue.Answer] {
        await record(events.map { .event($0) }, writers: writers)
    }

    /// Sends again what was not stored, as a source does: a busy machine may be slower than a limit of the database.
    @discardableResult
    func record(_ items: [RecordQueue.Item], writers: Int = 1) async -> [RecordQueue.Answer] {
        var answers = await recordOnce(items, writers: writers)
        for _ in 0..<3 {
            let left = answers.indices.filter { answers[$0] == .unavailable }
            if left.isEmpty { break }
            let again = await recordOnce(left.map { items[$0] }, writers: writers)
            for (index, answer) in zip(left, again) { answers[index] = answer }
        }
        return answers
    }

    @discardableResult
    func recordOnce(_ items: [RecordQueue.Item], writers: Int = 1) async -> [RecordQueue.Answer] {
        let answers = Mutex<[Int: RecordQueue.Answer]>([:])
        let queue = RecordQueue(writers: writers)
        await withTaskGroup { group in
            for (index, item) in items.enumerated() {
                queue.submit(item) { answer in answers.withLock { $0[index] = answer } }
            }
            queue.close()
            group.addTask { await self.recorder(queue).run() }
        }
        return answers.withLock { answers in items.indices.compactMap { answers[$0] } }
    }

    static let rules = [
        "shop": SourceRules(shape: TestShape()), "moving": SourceRules(shape: TestShape()),
        "shared": SourceRules(shape: TestShape(), ownership: .installAndIdentity),
        "sealed": SourceRules(shape: TestShape(isSealed: true)),
        "store": SourceRules(shape: TestShape(), mayLackName: true),
    ]

    func recorder(_ recordQueue: RecordQueue) -> Recorder {
        Recorder(
            queue: recordQueue, pool: pool, dispatchBuffer: dispatchBuffer, registration: registration, routes: routes,
            rules: SourceRuleBook(Self.rules), clock: clock, copiedEventsMin: copiedEventsMin,
            changePurchasesMax: changePurchasesMax,
            observe: { [log] in log.note($0) })
    }

    /// Looks at the whole queue once.
    /// - Returns: what is leased and was not held.
    @discardableResult
    func sweep(_ sweep: inout Sweep, blocks: Int64 = Limits.sweepStepBlocks) async throws -> Set<Int64> {
        var found: Set<Int64> = []
        while true {
            found = sweep.found
            let isDone = try await queue.look(&sweep, blocks: blocks)
            if isDone { return found }
        }
    }

    @discardableResult
    func sweep() async throws -> Set<Int64> {
        var sweep = Sweep()
        return try await self.sweep(&sweep)
    }

    /// Ends the leases of others that have run out, and reclaims what they had.
    func endExpiredLeases() async throws {
        try await queue.endExpiredLeases()
        try await sweep()
    }

    /// All that is due in one lane, as a lane would take it.
    func claimAll(_ name: String, step: Int = 256) async throws -> [Delivery] {
        var cursor = ClaimCursor()
        var claimed: [Delivery] = []
        while true {
            let (deliveries, isDrained) = try await queue.claim(row(name), upTo: step, cursor: &cursor)
            claimed += deliveries
            dispatchBuffer.release(row(name), deliveries.count, bytes: deliveries.reduce(0) { $0 + $1.message.bytes })
            if isDrained || deliveries.isEmpty { return claimed }
        }
    }
}

extension Queue {
    /// Ends the leases of others that have run out, without the looks at them that `expireLeases` waits for.
    func endExpiredLeases() async throws {
        try await end(try await otherLeases().filter(\.hasRunOut))
    }
}

extension Upkeep {
    /// `prune`, again where it fails for a while, as it is run every hour: the server ends a session where this process
    /// stands still for a second with whole tables locked. Not where two of them end each other: none may.
    func pruneInTheEnd() async throws {
        for _ in 0..<5 {
            do {
                return try await prune()
            } catch let error as DatabaseError where error.isTemporary {
                if case .refused(let refusal) = error, refusal.sqlState == "40P01" { throw error }
            }
        }
        try await prune()
    }
}

final class Log: Sendable {
    private let observations = Mutex<[Observation]>([])

    func note(_ observation: Observation) { observations.withLock { $0.append(observation) } }

    func all<Value: Sendable>(_ pick: (Observation) -> Value?) -> [Value] {
        observations.withLock { $0.compactMap(pick) }
    }

    var warnings: [String] { all { if case .warning(let text) = $0 { text } else { nil } } }
    var transfers: [TransferTrail] { all { if case .transferResolved(let trail) = $0 { trail } else { nil } } }
    var differing: [EventTrail] { all { if case .duplicateDiffers(let trail) = $0 { trail } else { nil } } }
    var reclaimed: [Int] { all { if case .leasesReclaimed(_, let count) = $0, count > 0 { count } else { nil } } }

    func recorded(duplicate: Bool) -> [EventTrail] {
        all { if case .eventRecorded(let trail, duplicate) = $0 { trail } else { nil } }
    }
}

final class Inbox: Sendable {
    private let deliveries = Mutex<[Delivery]>([])

    func put(_ more: [Delivery]) { deliveries.withLock { $0 += more } }

    func take() -> [Delivery] {
        deliveries.withLock { deliveries in
            defer { deliveries = [] }
            return deliveries
        }
    }
}

/// States what it was asked for, so that a test can read it.
struct TestShape: SourceShape {
    var isSealed = false

    func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let texts = [transfer.type, transfer.from.id, transfer.to.id, transfer.eventID].map { "\"\($0)\"" }
        return Array("[\(texts.joined(separator: ","))]".utf8)
    }

    func signatureHeaders(
        body: [UInt8], unixSeconds: Int64, authentication: Source.Authentication, secret: Secret
    ) -> [(name: String, value: String)] { [] }
}
