import Postgres
import TestSupport
import Testing

@Suite("Pipelined statements", .timeLimit(.minutes(30))) struct PipelineTests {
    private static let tooFew = DatabaseError.protocolViolation(reason: "too few rows")
    private static let mark = Statement<Void, Void>("mark", "UPDATE items SET note = note || '.'")

    private func connection() async throws -> Connection {
        let connection = try await freshConnection()
        try await connection.withSession { session throws(DatabaseError) in try session.script(Sample.createTable) }
        return connection
    }

    private func count(_ connection: Connection) async throws -> Int64? {
        try await connection.withSession { session throws(DatabaseError) in try session.run(Sample.count, ()) }.first
    }

    @Test("They run in their order, before whatever comes next: a statement, a script, a copy, COMMIT")
    func order() async throws {
        let connection = try await connection()
        let items = Table<Int64>("items", [Column("id") { $0 }, Column("note") { _ in "copied" }])
        let notes = Statement<Void, (Int64, String)>("notes", "SELECT id, note FROM items ORDER BY id")
        let (early, late) = try await connection.withSession { session throws(DatabaseError) in
            let early = try session.transaction { session throws(DatabaseError) in
                try session.enqueue(Sample.insert, (1, "a"))
                try session.enqueue(Self.mark, ())
                let early = try session.run(Sample.count, ())
                try session.enqueue(Self.mark, ())
                try session.script("INSERT INTO items VALUES (2, 'script')")
                try session.enqueue(Self.mark, ())
                try session.copy([items.copied([3])])
                try session.enqueue(Self.mark, ())
                return early
            }
            return (early, try session.run(notes, ()))
        }
        #expect(early == [1])
        #expect(late.map(\.0) == [1, 2, 3] && late.map(\.1) == ["a....", "script..", "copied."])
    }

    @Test("One row, several and a copy write the same: NULL, nothing, text and bytes")
    func rowsOfATable() async throws {
        typealias Item = (id: Int64, text: String?, bytes: [UInt8]?, number: Int32?)
        let rows: [Item] = [
            (1, nil, nil, nil), (2, "", [], 0), (3, "ä\u{1F600}", [0, 255], -1),
            (4, "x", [UInt8](repeating: 255, count: 300), 7),
        ]
        let items = Table<Item>(
            "wide",
            [
                Column("id") { $0.id }, Column("text") { $0.text }, Column("bytes") { $0.bytes },
                Column("number") { $0.number },
            ], onConflict: "ON CONFLICT (id) DO NOTHING")
        let read = Statement<Void, String>("read_wide", "SELECT string_agg(w::text, ' ' ORDER BY id) FROM wide w")
        let connection = try await freshConnection()
        try await connection.withSession { session throws(DatabaseError) in
            try session.script("CREATE TABLE wide (id int8 PRIMARY KEY, text text, bytes bytea, number int4)")
            var found: [[String]] = []
            for way in 0..<3 {
                try session.script("TRUNCATE wide")
                try session.transaction { session throws(DatabaseError) in
                    switch way {
                    case 0: for row in rows + rows { try session.enqueue(items.inserting([row]), [row]) }
                    case 1: try session.enqueue(items.inserting(rows), rows)
                    default: try session.copy([items.copied(rows)])
                    }
                }
                found.append(try session.run(read, ()))
            }
            #expect(found[0] == found[1] && found[1] == found[2] && found[0].first?.contains("(1,,,)") == true)
        }
        #expect(items.inserting([rows[0]]).name != items.inserting(rows).name)
    }

    @Test("Tables copied together: each has its rows, one without rows is left out, and rows may be of any number")
    func copiedTogether() async throws {
        let connection = try await connection()
        try await connection.withSession { session throws(DatabaseError) in
            try session.script("CREATE TABLE others (id int8 PRIMARY KEY, note text NOT NULL)")
        }
        let note = String(repeating: "x", count: 1_000)
        let items = Table<Int64>("items", [Column("id") { $0 }, Column("note") { _ in note }])
        let others = Table<Int64>("others", [Column("id") { $0 }, Column("note") { _ in note }])
        let sums = Statement<Void, (Int64, Int64)>(
            "sums", "SELECT sum(id)::bigint, sum(length(note))::bigint FROM (TABLE items UNION ALL TABLE others) AS t")
        let found = try await connection.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                try session.enqueue(Sample.insert, (1, "a"))
                try session.copy([
                    others.copied([]), items.copied([2]), others.copied(Array(10..<5_000)), items.copied([]),
                    items.copied([3, 4]),
                ])
                try session.copy([items.copied([])])
                try session.copy([])
                return try session.run(sums, ())
            }
        }
        #expect(found.map(\.0) == [(10..<5_000).reduce(10, +)] && found.map(\.1) == [1 + 3_000 + 4_990_000])
        #expect(connection.isAlive)
    }

    @Test("Of tables copied together each may be refused: nothing of any stays, and the connection goes on")
    func copiedTogetherRefused() async throws {
        let connection = try await connection()
        try await connection.withSession { session throws(DatabaseError) in
            try session.script("CREATE TABLE others (id int8 PRIMARY KEY CHECK (id < 9), note text NOT NULL)")
        }
        let cases: [(rows: [(String, [Int64])], state: SQLState, statement: String)] = [
            ([("items", [1, 1]), ("others", [1])], "23505", "copy_items"),
            ([("items", [1]), ("others", [9]), ("items", [2])], "23514", "copy_others"),
            ([("items", [1]), ("others", [9] + Array(10..<20_000))], "23514", "copy_others"),
            ([("items", [1]), ("others", [1]), ("items", [1])], "23505", "copy_items"),
            ([("items", [1]), ("missing", [1])], "42P01", "copy_missing"),
        ]
        for (rows, state, statement) in cases {
            let error = await databaseError {
                try await connection.withSession { session throws(DatabaseError) in
                    try session.transaction { session throws(DatabaseError) in
                        try session.copy(rows.map { Self.rows($0.1, of: $0.0) })
                    }
                }
            }
            guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); continue }
            #expect(refusal.sqlState == state && refusal.statement == statement)
            #expect(connection.isAlive)
            #expect(try await count(connection) == 0)
        }
    }

    private static func rows(_ ids: [Int64], of table: String) -> CopiedRows {
        let columns = [Column<Int64>("id") { $0 }, Column<Int64>("note") { _ in "copied" }]
        return switch table {
        case "items": Table("items", columns).copied(ids)
        case "others": Table("others", columns).copied(ids)
        default: Table("missing", columns).copied(ids)
        }
    }

    @Test("One that is refused ends the transaction with its own name and reason, whoever waits for the answer")
    func refused() async throws {
        let connection = try await connection()
        for waits in [true, false] {
            let error = await databaseError {
                try await connection.withSession { session throws(DatabaseError) in
                    try session.transaction { session throws(DatabaseError) in
                        try session.enqueue(Sample.insert, (1, "a"))
                        try session.enqueue(Sample.insert, (1, "again"))
                        try session.enqueue(Self.mark, ())
                        if waits { _ = try session.run(Sample.one, ()) }
                    }
                }
            }
            guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
            #expect(refusal.sqlState == "23505" && refusal.statement == "insert")
            #expect(connection.isAlive)
            #expect(try await count(connection) == 0)
        }
    }

    @Test("A check that fails ends the transaction") func check() async throws {
        let connection = try await connection()
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.enqueue(Sample.insert, (1, "a"), check: { $0 == 1 ? nil : Self.tooFew })
                    try session.enqueue(Self.mark, (), check: { $0 == 2 ? nil : Self.tooFew })
                    try session.enqueue(Sample.insert, (3, "c"))
                }
            }
        }
        #expect(error == Self.tooFew)
        #expect(connection.isAlive)
        #expect(try await count(connection) == 0)
    }

    @Test("What was enqueued before the body threw leaves nothing, and the connection goes on")
    func thrown() async throws {
        let connection = try await connection()
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.enqueue(Sample.insert, (1, "a"))
                    throw Self.tooFew
                }
            }
        }
        #expect(error == Self.tooFew)
        #expect(connection.isAlive)
        #expect(try await count(connection) == 0)
    }

    @Test("What was queried is answered in one wait, in any order, and at the latest before COMMIT")
    func enqueuedQueries() async throws {
        let connection = try await connection()
        let notes = Statement<Void, (Int64, String)>("notes", "SELECT id, note FROM items ORDER BY id")
        let (before, after, late) = try await connection.withSession { session throws(DatabaseError) in
            var pending: PendingRows<Int64>?
            let (before, after) = try session.transaction { session throws(DatabaseError) in
                let before = try session.enqueueQuery(Sample.count, ())
                try session.enqueue(Sample.insert, (1, "a"))
                let after = try session.enqueueQuery(notes, ())
                pending = try session.enqueueQuery(Sample.count, ())
                let rows = try session.answer(to: after)
                try session.enqueue(Sample.insert, (2, "b"))
                return (try session.answer(to: before), rows)
            }
            let late = try pending.map { pending throws(DatabaseError) in try session.answer(to: pending) }
            return (before, after, late)
        }
        #expect(before == [0] && after.map(\.1) == ["a"] && late == [1])
        #expect(try await count(connection) == 2)
    }

    @Test("Rows of other types than declared are an error, and nothing is committed") func wrongTypes() async throws {
        let connection = try await connection()
        let wrong = Statement<Void, Int64>("wrong", "SELECT 1::int4")
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.enqueue(Sample.insert, (1, "a"))
                    _ = try session.enqueueQuery(wrong, ())
                }
            }
        }
        guard case .protocolViolation = error else { Issue.record("\(String(describing: error))"); return }
        #expect(try await count(connection) == 0)
    }

    @Test("COMMIT that travels behind a refused statement is not run, and the connection goes on")
    func commitNotRun() async throws {
        let connection = try await connection()
        let deferred = "ALTER TABLE items ADD UNIQUE (note) DEFERRABLE INITIALLY DEFERRED"
        try await connection.withSession { session throws(DatabaseError) in try session.script(deferred) }
        for (second, id) in [(Int64(1), "refused at once"), (2, "a")] {
            let error = await databaseError {
                try await connection.withSession { session throws(DatabaseError) in
                    try session.transaction { session throws(DatabaseError) in
                        try session.enqueue(Sample.insert, (1, "a"))
                        try session.enqueue(Sample.insert, (second, id))
                    }
                }
            }
            // The second is refused by COMMIT itself, whose check is deferred: nothing is in doubt either.
            guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
            #expect(refusal.sqlState == "23505" && refusal.statement == (second == 1 ? "insert" : "commit"))
            #expect(try await count(connection) == 0)
        }
        // What a statement warns of is no doubt about COMMIT.
        try await connection.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                try session.enqueue(Sample.insert, (1, "a"))
                try session.enqueue(Sample.warning, ())
                try session.enqueue(Sample.unlock, ())
            }
        }
        #expect(try await count(connection) == 1)
    }

    @Test("More than may be under way at once, and more bytes, are sent in turns") func many() async throws {
        let connection = try await connection()
        let note = String(repeating: "x", count: 300_000)
        try await connection.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                for id in 0..<300 { try session.enqueue(Sample.insert, (Int64(id), id % 10 == 0 ? note : "short")) }
            }
        }
        #expect(try await count(connection) == 300)
    }

    @Test("Outside a transaction nothing can be enqueued") func outside() async throws {
        let connection = try await connection()
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.enqueue(Sample.insert, (1, "a"))
            }
        }
        #expect(error == .protocolViolation(reason: "insert was enqueued outside a transaction"))
        #expect(try await count(connection) == 0)
    }

    @Test("A connection that ends under them is lost, not refused; where COMMIT travels with them, it is in doubt")
    func lost() async throws {
        let end = Statement<Void, Void>("end", "SELECT pg_terminate_backend(pg_backend_pid())")
        for waits in [true, false] {
            let connection = try await connection()
            let error = await databaseError {
                try await connection.withSession { session throws(DatabaseError) in
                    try session.transaction { session throws(DatabaseError) in
                        try session.enqueue(Sample.insert, (1, "a"))
                        try session.enqueue(end, ())
                        try session.enqueue(Sample.insert, (2, "b"))
                        if waits { _ = try session.run(Sample.one, ()) }
                    }
                }
            }
            switch error {
            case .connectionLost where waits, .commitUnknown where !waits: break
            default: Issue.record("\(waits): \(String(describing: error))")
            }
            #expect(!connection.isAlive)
        }
    }
}
