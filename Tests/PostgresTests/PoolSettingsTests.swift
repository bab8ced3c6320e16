import Postgres
import Synchronization
import TestSupport
import Testing

/// A pool whose settings are replaced. Oracle: the database that a session says it is in.
@Suite("A pool with other settings", .timeLimit(.minutes(30))) struct PoolSettingsTests {
    private static let database = Statement<Void, String>("current_database", "SELECT current_database()::text")

    private func name(_ connectionString: String) -> String {
        connectionString.split(separator: "=").last.map(String.init) ?? ""
    }

    private func database(of pool: Pool) async throws -> String {
        try await pool.withSession { session throws(DatabaseError) in try session.run(Self.database, ())[0] }
    }

    @Test("A connection that began to open by the settings before serves nobody beside them")
    func opening() async throws {
        let (one, other) = (try TestCluster.shared.createDatabase(), try TestCluster.shared.createDatabase())
        let (entries, entered) = AsyncStream<Void>.makeStream()
        let (releases, release) = AsyncStream<Void>.makeStream()
        let isFirst = Mutex(true)
        let pool = try pool(
            one, size: 1,
            admission: { _ in
                let waits = isFirst.withLock { first in
                    defer { first = false }
                    return first
                }
                if waits {
                    entered.yield()
                    for await _ in releases { break }
                }
                return nil
            })
        for await _ in entries { break }
        pool.use(try settings(other))
        release.yield()
        #expect(try await database(of: pool) == name(other))
        await pool.close()
    }

    @Test("Settings that are used alone end idle connections at once, and busy ones behind their callers")
    func alone() async throws {
        let (one, other) = (try TestCluster.shared.createDatabase(), try TestCluster.shared.createDatabase())
        let pool = try pool(one, size: 2)
        #expect(try await database(of: pool) == name(one))
        let contact = pool.contact
        #expect(contact != nil)
        pool.use(try settings(one + " application_name=renamed"))
        #expect(pool.contact == contact)
        let replacing = try settings(other)
        let kept = try await pool.withSession { session throws(DatabaseError) in
            pool.use(replacing, alone: true)
            return try session.run(Self.database, ())
        }
        // The caller keeps what it has.
        #expect(kept == [name(one)])
        // Whichever slot serves.
        for _ in 0..<8 { #expect(try await database(of: pool) == name(other)) }
        let left = "SELECT count(*) FROM pg_stat_activity WHERE datname = '\(name(one))'"
        while try TestCluster.shared.psql(left) != "0" { try await Task.sleep(for: .milliseconds(20)) }
        await pool.close()
    }

    @Test("What is opened by equal settings leads alike; another role, password or schema does not")
    func alike() throws {
        let text = "host=h user=u password=p dbname=d"
        let one = try settings(text)
        #expect(one.leadsLike(try settings(text)) && one.user == "u")
        for other in ["host=h user=v password=p dbname=d", "host=h user=u password=q dbname=d"] {
            #expect(!one.leadsLike(try settings(other)))
        }
        let inSchema = try ConnectionSettings(
            text, connectTimeout: .seconds(1), statementTimeout: .seconds(1), deadlineMargin: .seconds(1), schema: "s")
        #expect(!one.leadsLike(inSchema))
    }
}
