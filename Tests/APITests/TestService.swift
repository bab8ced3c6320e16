import Dispatch
import Foundation
import HTTPServer
import Ledger
import Postgres
import Synchronization
import TestSupport
import Vocabulary

@testable import API

/// A migrated database of its own, a recorder at work on it, and the API before both: requests go in as the HTTP server
/// would hand them over, webhooks as their sources' files would.
final class TestService: Sendable {
    static let reader = "reader-0123456789abcdef"
    static let writer = "writer-0123456789abcdef"
    static let bound = "bound-to-shop-0123456789"

    let pool: Pool
    let queue = RecordQueue()
    let clock = DatabaseClock()
    let api: API
    let log = Log()
    private let database: String
    private let recording: Task<Void, Never>

    /// Migrated once: a copy costs far less.
    private static let template: Task<String, any Error> = Task {
        let connectionString = try TestCluster.shared.createDatabase()
        let connection = try await Connection.open(settings(connectionString))
        _ = try await connection.withSession { session throws(DatabaseError) in try Migrator.migrate(on: session) }
            .get()
        await connection.close()
        return name(of: connectionString)
    }

    private static func name(of connectionString: String) -> String {
        String(connectionString.split(separator: "=").last ?? "")
    }

    private static func settings(_ connectionString: String) throws -> ConnectionSettings {
        try ConnectionSettings(
            connectionString, connectTimeout: .seconds(120), statementTimeout: .seconds(120),
            deadlineMargin: .seconds(60))
    }

    private init(sources: [Source], groups: [SubscriptionGroup]) async throws {
        let connectionString = try await TestCluster.shared.createDatabase(copyOf: Self.template.value)
        database = Self.name(of: connectionString)
        let pool = Pool(
            try Self.settings(connectionString), size: 4, waiting: Pool.Waiting(waitersMax: 100, limit: .seconds(120)),
            backoff: .milliseconds(20)...(.milliseconds(200)))
        pool.start()
        self.pool = pool
        let (clock, log) = (clock, log)
        let registration = Registration(
            pool: pool, key: nil, version: "test", clock: clock, leaseDuration: .seconds(3_600))
        try await registration.register()
        let recorder = Recorder(
            queue: queue, pool: pool, dispatchBuffer: DispatchBuffer(), registration: registration,
            routes: Routes(RouteTable()),
            rules: SourceRuleBook(
                Dictionary(
                    uniqueKeysWithValues: sources.map {
                        (
                            $0.name,
                            SourceRules(
                                shape: NoShape(), ownership: $0.ownership, mayLackName: $0.kind.traits.mayLackName)
                        )
                    })), clock: clock, observe: { log.note($0) })
        recording = Task { await recorder.run() }
        api = API(
            tokens: Self.tokens, sources: sources, subscriptionGroups: groups,
            lookup: HolderLookup(pool: pool, leeways: Leeways(sources)), queue: queue, bodyBytesMax: 1 << 16,
            gate: LookupGate(ofConnections: 3), now: { clock.now }, observe: { log.note($0) })
    }

    static let tokens = [
        APIToken(name: "reader", token: Secret(Array(reader.utf8)), scopes: [.read], source: nil),
        APIToken(name: "writer", token: Secret(Array(writer.utf8)), scopes: [.read, .write], source: nil),
        APIToken(name: "bound", token: Secret(Array(bound.utf8)), scopes: [.read, .write], source: "shop"),
    ]

    /// `shared` is the one source in which installs and identities hold together; `shop` has one holder at a time.
    static let sources = [
        Source.named("shared", ownership: .installAndIdentity), Source.named("shop"),
    ]

    static let groups = [
        SubscriptionGroup(name: "premium", products: ["gold", "silver"]),
        SubscriptionGroup(name: "extras", products: ["themes"]),
    ]

    /// Runs `body` and ends everything, however it ends.
    static func run(
        sources: [Source] = sources, groups: [SubscriptionGroup] = groups, _ body: (TestService) async throws -> Void
    ) async throws {
        let service = try await TestService(sources: sources, groups: groups)
        let result: Result<Void, any Error>
        do { result = .success(try await body(service)) } catch { result = .failure(error) }
        service.queue.close()
        await service.recording.value
        await service.pool.close()
        try result.get()
    }

    /// Records events in their order, each committed before the next.
    func record(_ events: Event...) async { for event in events { await record(event) } }

    /// Sends it again where it was not stored in time, as a platform does: the machine may be busy.
    private func record(_ event: Event) async {
        for _ in 0..<20 {
            let answer = await withCheckedContinuation { continuation in
                queue.submit(.event(event)) { continuation.resume(returning: $0) }
            }
            guard case .unavailable = answer else { return }
        }
    }

    /// What SQL gives as psql prints it, or what went wrong.
    @discardableResult
    func psql(_ sql: String) -> String {
        do {
            return try TestCluster.shared.psql(sql, database: database, inKeptSession: true)
        } catch {
            return "\(error)"
        }
    }

    /// Runs `body` while somebody else has locked what `sql` locks, until `body` calls `release`.
    func holding(_ sql: String, _ body: (_ release: () -> Void) async throws -> Void) async throws {
        let (locked, isLocked) = AsyncStream<Void>.makeStream()
        let semaphore = DispatchSemaphore(value: 0)
        let held = Task { [pool] in
            defer { isLocked.finish() }
            try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.script(sql)
                    isLocked.yield()
                    // The limit is against hanging alone.
                    _ = semaphore.wait(timeout: .now() + 300)
                }
            }
        }
        for await _ in locked { break }
        let result: Result<Void, any Error>
        do { result = .success(try await body { semaphore.signal() }) } catch { result = .failure(error) }
        semaphore.signal()
        try await held.value
        try result.get()
    }

    /// Sessions of the database that wait for a lock.
    var waitingSessions: Int {
        let count = psql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
        return Int(count) ?? 0
    }

    /// Waits for a condition; fails after a minute of waiting.
    func wait(until condition: () -> Bool) async throws {
        for _ in 0..<3_000 {
            if condition() { return }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw NotMet()
    }

    private struct NotMet: Error {}

    // MARK: Requests

    func get(_ target: String, token: String = reader, headers: [(String, String)] = []) async -> Reply {
        await send("GET", target, token: token, headers: headers)
    }

    func post(_ target: String, _ body: String = "", token: String = writer) async -> Reply {
        await send("POST", target, token: token, body: body)
    }

    func send(
        _ method: String, _ target: String, token: String = writer, body: String = "",
        headers: [(String, String)] = []
    ) async -> Reply {
        // What is answered 503 because its time is over comes again, as from any backend: the machine may have stood
        // still. Every other 503 is what a test asks for.
        var (reply, isLate) = await once(method, target, token, body, headers)
        for _ in 1..<3 where isLate { (reply, isLate) = await once(method, target, token, body, headers) }
        Description.shared.hold(reply, to: method, target)
        return reply
    }

    private func once(
        _ method: String, _ target: String, _ token: String, _ body: String, _ headers: [(String, String)]
    ) async -> (reply: Reply, isLate: Bool) {
        let began = ContinuousClock.now
        let reply = await api.reply(
            method, target, headers: [("authorization", "Bearer \(token)")] + headers, body: Array(body.utf8))
        // A lock is waited for by the shortest of the limits.
        return (reply, reply.status == 503 && .now - began >= Limits.lockWait)
    }
}

extension API {
    /// What the HTTP server would send: a refusal by the head first, else the answer.
    func reply(
        _ method: String, _ target: String, headers: [(String, String)] = [], body: [UInt8] = []
    ) async -> Reply {
        let head = IncomingHead(method: method, target: target, headers: headers)
        switch admit(head) {
        case .refuse(let answer): return Reply(answer)
        case .accept: return Reply(await answer(head, body: body))
        }
    }
}

/// An answer, its JSON read by Foundation, which is not ours.
struct Reply {
    let status: Int
    let headers: [String: String]
    let body: [UInt8]

    init(_ answer: HTTPAnswer) {
        status = answer.status
        headers = Dictionary(answer.headers, uniquingKeysWith: { first, _ in first })
        body = answer.body
    }

    var object: [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:]
    }

    var data: [[String: Any]] { object["data"] as? [[String: Any]] ?? [] }
    var next: String? { object["next"] as? String }

    /// Of each entry of `data`: a member, as text; `-` for null.
    func column(_ key: String) -> [String] {
        data.map { entry in
            switch entry[key] {
            case let text as String: text
            case let number as NSNumber: "\(number)"
            case let object as [String: String]: object.map { "\($0.key):\($0.value)" }.joined()
            default: "-"
            }
        }
    }

    var errorCode: String { (object["error"] as? [String: Any])?["code"] as? String ?? "" }
    var errorType: String { (object["error"] as? [String: Any])?["type"] as? String ?? "" }
    var message: String { (object["error"] as? [String: Any])?["message"] as? String ?? "" }
}

final class Log: Sendable {
    private let observations = Mutex<[Observation]>([])

    func note(_ observation: Observation) { observations.withLock { $0.append(observation) } }

    /// Under whose name each refusal is counted.
    var refusedSources: [String] {
        observations.withLock { observations in
            observations.compactMap { if case .refused(let source, _, _) = $0 { source } else { nil } }
        }
    }

    /// `status reason` of each refusal.
    var refusals: [String] {
        observations.withLock { observations in
            observations.compactMap {
                if case .refused(_, let status, let reason) = $0 { "\(status) \(reason)" } else { nil }
            }
        }
    }
}

private struct NoShape: SourceShape {
    func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] { original }

    func signatureHeaders(
        body: [UInt8], unixSeconds: Int64, authentication: Source.Authentication, secret: Secret
    ) -> [(name: String, value: String)] { [] }
}
