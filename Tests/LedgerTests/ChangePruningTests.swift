import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, which also writes the changes with their times.
@Suite("Pruning changes of holders", .serialized)
struct ChangePruningTests {
    private static let hour: Int64 = 3_600
    /// Seconds. Times lie hours apart, so that a busy machine does not change their order.
    private static let old = Limits.retryHorizonMilliseconds / 1_000 + 10 * hour

    private func upkeep(_ daemon: Daemon, naming: [String] = [], store: [String] = ["store"]) -> Upkeep {
        let day = Duration.seconds(86_400)
        return Upkeep(
            pool: daemon.pool, retention: Retention(attempts: day * 30, events: day * 30, duplicates: day * 30),
            alwaysNaming: naming, mayLackName: store)
    }

    /// Writes a link for each number, so many seconds ago by event time and by arrival.
    private func link(
        _ ledger: TestLedger, _ numbers: ClosedRange<Int> = 1...1, source: String = "store", to user: String,
        stated: Int64, arrived: Int64
    ) throws {
        try ledger.psql(
            """
            INSERT INTO holder_changes (source, app, environment, subject, kind, target, at_ms, event, received_at)
            SELECT '\(source)', '', '', 'anon:c' || i, 'login', 'user:\(user)',
                   (extract(epoch FROM now() - interval '\(stated) s') * 1000)::bigint, 1,
                   now() - interval '\(arrived) s'
            FROM generate_series(\(numbers.lowerBound), \(numbers.upperBound)) AS i
            """)
    }

    private func links(_ ledger: TestLedger) throws -> String {
        try ledger.psql(
            """
            SELECT string_agg(source || ' ' || subject || ' ' || target, ', ' ORDER BY source, subject, at_ms, id)
            FROM holder_changes
            """)
    }

    @Test("A run looks at what has become old since the last one, and not at the links that stay")
    func cost() async throws {
        try await TestLedger.run { ledger in
            let upkeep = upkeep(try await ledger.daemon())
            let count = Int64(Upkeep.pruneStep) + 1
            try link(ledger, 1...Int(count), to: "a", stated: Self.old, arrived: Self.old)
            #expect(try await upkeep.pruneChanges() == count)
            #expect(try await upkeep.pruneChanges() == 0)
            try link(ledger, 1...3, to: "b", stated: Self.old - Self.hour, arrived: Self.old - Self.hour)
            #expect(try await upkeep.pruneChanges() == 3)
            #expect(try await upkeep.pruneChanges() == 0)
            #expect(try ledger.psql("SELECT count(*) FROM holder_changes") == "\(count)", "each has one link")
            #expect(try ledger.psql("SELECT count(*) FROM holder_changes WHERE target = 'user:b'") == "3")
        }
    }

    @Test("The newest link stays, in whichever order links come, and until the one after it is old")
    func newest() async throws {
        let (old, hour) = (Self.old, Self.hour)
        let times = [("a", old + 2 * hour, old + 2 * hour), ("b", old + hour, old), ("late", old + 3 * hour, hour)]
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
            try await TestLedger.run { ledger in
                let upkeep = upkeep(try await ledger.daemon())
                for index in order {
                    let (user, stated, arrived) = times[index]
                    try link(ledger, to: user, stated: stated, arrived: arrived)
                    try await upkeep.pruneChanges()
                }
                #expect(try links(ledger) == "store anon:c1 user:late, store anon:c1 user:b")
                // What came late becomes old by its arrival, too.
                try ledger.psql("UPDATE holder_changes SET received_at = now() - interval '\(Self.old) s'")
                try link(ledger, to: "new", stated: 10, arrived: 10)
                try await upkeep.pruneChanges()
                #expect(try links(ledger) == "store anon:c1 user:b, store anon:c1 user:new")
            }
        }
    }

    @Test("Of links that two daemons look at together, the newest of each holder stays")
    func together() async throws {
        try await TestLedger.run { ledger in
            let (first, second) = (upkeep(try await ledger.daemon()), upkeep(try await ledger.daemon()))
            for (number, user) in ["a", "b", "c"].enumerated() {
                let age = Self.old + (5 - Int64(number)) * Self.hour
                try link(ledger, 1...200, to: user, stated: age, arrived: age)
            }
            for round in 0..<3 {
                async let one = first.pruneChanges()
                async let two = second.pruneChanges()
                _ = try await (one, two)
                if round < 2 { try link(ledger, 1...200, to: "d", stated: Self.old, arrived: Self.old) }
            }
            let left = "SELECT count(*), count(DISTINCT subject), min(target), max(target) FROM holder_changes"
            #expect(try ledger.psql(left) == "200|200|user:d|user:d")
        }
    }

    @Test("What is no link of an anonymous holder goes, and so does everything of a source that always names somebody")
    func others() async throws {
        try await TestLedger.run { ledger in
            let upkeep = upkeep(try await ledger.daemon(), naming: ["shop"])
            for source in ["store", "shop"] {
                try link(ledger, 1...3, source: source, to: "a", stated: Self.old, arrived: Self.old)
            }
            try ledger.psql(
                """
                UPDATE holder_changes SET kind = 'native' WHERE subject = 'anon:c2';
                UPDATE holder_changes SET subject = 'user:c3' WHERE subject = 'anon:c3'
                """)
            try await upkeep.pruneChanges()
            #expect(try links(ledger) == "store anon:c1 user:a")
        }
    }

    @Test("What is stored of a source that is not configured here stays: another daemon may serve it")
    func removed() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try link(ledger, 1...2, to: "a", stated: Self.old, arrived: Self.old)
            try await upkeep(daemon).pruneChanges()
            try link(ledger, source: "moving", to: "b", stated: Self.old, arrived: Self.old)
            let before = try links(ledger)
            try ledger.psql(
                """
                INSERT INTO source_names (name, heard_at)
                VALUES ('store', now() - interval '\(Self.old) s'), ('moving', NULL)
                """)
            #expect(try await upkeep(daemon, naming: ["shop"], store: []).pruneChanges() == 0)
            #expect(try links(ledger) == before)
        }
    }
}
