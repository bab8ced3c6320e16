import Postgres
import TestSupport
import Testing

@Suite("How statements are planned", .timeLimit(.minutes(30))) struct PlanningTests {
    private static let planning = Statement<Void, String>(
        "planning",
        """
        SELECT concat_ws(' ', current_setting('plan_cache_mode'), current_setting('enable_seqscan'),
            current_setting('enable_hashjoin'), current_setting('enable_mergejoin'),
            current_setting('lock_timeout'))
        """)
    private static let byIndex = "force_generic_plan off off off 0"
    private static let eachTime = "force_custom_plan on on on 0"

    /// What is in force in a transaction of that kind; nil: outside one.
    private func inForce(_ planning: Planning?, _ connection: Connection) async throws -> String? {
        try await connection.withSession { session throws(DatabaseError) in
            guard let planning else { return try session.run(Self.planning, ()) }
            return try session.transaction(planning: planning) { session throws(DatabaseError) in
                try session.run(Self.planning, ())
            }
        }.first
    }

    @Test("Each has its own planning, in whatever order they come")
    func mixed() async throws {
        let connection = try await freshConnection()
        let kinds: [Planning?] = [nil, .eachTime, .onceByIndex]
        for first in kinds {
            for second in kinds {
                for third in kinds {
                    for kind in [first, second, third] {
                        let expected = kind == .onceByIndex ? Self.byIndex : Self.eachTime
                        #expect(try await inForce(kind, connection) == expected, "\([first, second, third])")
                    }
                }
            }
        }
    }

    @Test("What did not end in a commit left nothing that is relied on", arguments: [Planning.eachTime, .onceByIndex])
    func undone(before: Planning) async throws {
        let connection = try await freshConnection()
        for planning in [Planning.onceByIndex, .eachTime] {
            for isRefused in [true, false] {
                _ = try await inForce(before, connection)
                let error = await databaseError {
                    try await connection.withSession { session throws(DatabaseError) in
                        try session.decidedTransaction(planning: planning) { session throws(DatabaseError) in
                            try session.script(isRefused ? "SELECT 1 / 0" : "SELECT 1")
                            return .rollBack(())
                        }
                    }
                }
                #expect((error != nil) == isRefused)
                #expect(try await inForce(.onceByIndex, connection) == Self.byIndex)
                #expect(try await inForce(nil, connection) == Self.eachTime)
            }
        }
    }

    @Test("They are sent where they change, not with each transaction") func once() async throws {
        let connection = try await freshConnection()
        _ = try await inForce(.onceByIndex, connection)
        try await connection.withSession { session throws(DatabaseError) in
            try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
                try session.script("SET enable_hashjoin = on")
            }
        }
        #expect(try await inForce(.onceByIndex, connection) == "force_generic_plan off on off 0")
    }

    @Test("A role's own setting is what comes back") func role() async throws {
        let database = try TestCluster.shared.createDatabase()
        let first = try await Connection.open(settings(database))
        try await first.withSession { session throws(DatabaseError) in
            try session.script(
                "DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET enable_mergejoin = off', current_database()); END$$")
        }
        let connection = try await Connection.open(settings(database))
        #expect(try await inForce(.onceByIndex, connection) == Self.byIndex)
        #expect(try await inForce(nil, connection) == "force_custom_plan on on off 0")
    }

    @Test("Where they are planned once, they wait for a lock as long as the connection's settings say")
    func lockWait() async throws {
        let settings = try ConnectionSettings(
            TestCluster.shared.createDatabase(), connectTimeout: .seconds(120), statementTimeout: .seconds(120),
            deadlineMargin: .seconds(60), lockWait: .milliseconds(1_500))
        let connection = try await Connection.open(settings)
        for (kind, expected) in [(nil, "0"), (.onceByIndex, "1500ms"), (.eachTime, "0")] as [(Planning?, String)] {
            #expect(try await inForce(kind, connection)?.hasSuffix(" \(expected)") == true)
        }
    }
}
