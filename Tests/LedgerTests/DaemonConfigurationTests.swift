import Testing

@testable import Ledger

/// Oracle: what was written, and psql.
@Suite("What daemons say of their configuration", .serialized, .timeLimit(.minutes(30)))
struct DaemonConfigurationTests {
    private static let digests = ["integration crm": "0123456789abcdef", "source shop": "fedcba9876543210"]

    @Test("A configuration is read as it was written, replaced by a later one, and an empty one is not a missing one")
    func written() async throws {
        try await TestLedger.run { ledger in
            let (one, other) = (try await ledger.daemon(), try await ledger.daemon())
            func write(_ digests: [String: String]) async throws {
                try await DaemonConfiguration.write(digests, by: one.registration, in: one.pool)
            }
            func read() async throws -> [DaemonConfiguration] {
                try await DaemonConfiguration.read(from: other.pool)
            }
            #expect(try await read().isEmpty)
            try await write(Self.digests)
            let stored = "SELECT configuration ->> 'source shop' FROM daemons WHERE id = \(one.lease)"
            #expect(try ledger.psql(stored) == "fedcba9876543210")
            #expect(try await read() == [DaemonConfiguration(version: "test", digests: Self.digests)])
            let replaced = ["integration crm": "0000000000000000"]
            try await write(replaced)
            #expect(try await read().map(\.digests) == [replaced])
            try await write([:])
            #expect(try await read().map(\.digests) == [[:]])
        }
    }

    @Test("Daemons of an older version, and those whose lease has run out, are passed over")
    func passedOver() async throws {
        try await TestLedger.run { ledger in
            let (one, gone) = (try await ledger.daemon(), try await ledger.daemon())
            for daemon in [one, gone] {
                try await DaemonConfiguration.write(Self.digests, by: daemon.registration, in: one.pool)
            }
            #expect(try await DaemonConfiguration.read(from: one.pool).count == 2)
            // As a daemon registers that does not know the column.
            try ledger.psql(
                """
                INSERT INTO daemons (version, expires_at, state_form)
                VALUES ('old', now() + interval '1 hour', \(LedgerForm.current.rawValue))
                """)
            try ledger.expire(gone)
            #expect(
                try await DaemonConfiguration.read(from: one.pool)
                    == [DaemonConfiguration(version: "test", digests: Self.digests)])
            #expect(try await LedgerStatus.read(from: one.pool).daemons.count == 2)
        }
    }

    @Test("Under a lease that is gone nothing is written, and the next lease begins without a configuration")
    func lost() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            func write() async throws {
                try await DaemonConfiguration.write(Self.digests, by: daemon.registration, in: daemon.pool)
            }
            try ledger.psql("DELETE FROM daemons")
            try await write()
            #expect(try await !daemon.queue.keepAlive())
            #expect(try await DaemonConfiguration.read(from: daemon.pool).isEmpty)
            try await write()
            #expect(try await DaemonConfiguration.read(from: daemon.pool).count == 1)
        }
    }

    /// A restore, or a promotion that lost commits, leaves an older configuration in the row.
    @Test("A second write changes a row with another configuration, none with the same, and none of another daemon")
    func again() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            func write() async throws {
                try await DaemonConfiguration.write(Self.digests, by: daemon.registration, in: daemon.pool)
            }
            let version = "SELECT xmin FROM daemons"
            try await write()
            let before = try ledger.psql(version)
            try await write()
            #expect(try ledger.psql(version) == before)
            try ledger.psql("UPDATE daemons SET configuration = '{}'")
            try await write()
            #expect(try await DaemonConfiguration.read(from: daemon.pool).map(\.digests) == [Self.digests])
            try ledger.psql("UPDATE daemons SET configuration = '{}', key = gen_random_uuid()")
            try await write()
            #expect(try ledger.psql("SELECT configuration FROM daemons") == "{}")
        }
    }
}
