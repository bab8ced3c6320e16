import Postgres
import TestSupport
import Testing

/// A type of another target with 16 bytes, as the ledger's identifiers are.
private struct Identity: PostgresScalar, Hashable {
    static var oid: UInt32 { 2950 }
    static var arrayOID: UInt32 { 2951 }
    let bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }

    init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        guard bytes.count == 16 else { throw DecodingFailure(.wrongLength) }
        self.bytes = Array(bytes)
    }

    func encode(into writer: inout ValueWriter) { writer.append(bytes) }
}

/// The oracle is PostgreSQL: it takes what we encode, says what it read as text, and sends it back.
@Suite("Values travel both ways") struct ValueTests {
    private struct Named: Equatable {
        let id: Int32
        let name: String?
        let keys: [Int64]
    }

    private static let named = Statement<Int32, Named>(
        "named", "SELECT $1, NULL::text, ARRAY[1, 2]::bigint[] UNION ALL SELECT $1 + 1, 'n', '{}'", row: Named.init)

    @Test("A row becomes a struct whose fields are its columns, in their order") func structs() async throws {
        let connection = try await freshConnection()
        let rows = try await connection.withSession { session throws(DatabaseError) in
            try session.run(Self.named, 7)
        }
        #expect(rows == [Named(id: 7, name: nil, keys: [1, 2]), Named(id: 8, name: "n", keys: [])])
        await connection.close()
    }

    private static let scalars = Statement<
        (Int16, Int32, Int64, Bool, Double, String, [UInt8], Identity),
        (Int16, Int32, Int64, Bool, Double, String, [UInt8], Identity, String)
    >(
        "scalars",
        "SELECT $1, $2, $3, $4, $5, $6, $7, $8, concat_ws('|', $1, $2, $3, $4, $5, $6, encode($7, 'hex'), $8)")

    @Test("Scalars come back as they went, and PostgreSQL reads them as meant") func scalars() async throws {
        let connection = try await freshConnection()
        let identity = Identity(bytes: Array(1...16))
        let row = try await connection.withSession { session throws(DatabaseError) in
            try session.run(
                Self.scalars, (.min, .max, -2, true, -0.5, "Größe ✓ \"x\"", [0, 255, 10], identity))
        }[0]
        #expect(row.0 == .min && row.1 == .max && row.2 == -2 && row.3 && row.4 == -0.5)
        #expect(row.5 == "Größe ✓ \"x\"" && row.6 == [0, 255, 10] && row.7 == identity)
        #expect(
            row.8 == "-32768|2147483647|-2|t|-0.5|Größe ✓ \"x\"|00ff0a|01020304-0506-0708-090a-0b0c0d0e0f10")
    }

    private static let nulls = Statement<
        (Int64?, String?, [UInt8]?, [Int64]?), (Int64?, String?, [UInt8]?, [Int64]?, Bool)
    >(
        "nulls", "SELECT $1, $2, $3, $4, num_nulls($1, $2, $3, $4) = 4")

    @Test("NULL is nil, and empty is not NULL") func nulls() async throws {
        let connection = try await freshConnection()
        let (absent, empty) = try await connection.withSession { session throws(DatabaseError) in
            (
                try session.run(Self.nulls, (nil, nil, nil, nil)),
                try session.run(Self.nulls, (0, "", [], []))
            )
        }
        #expect(absent[0].0 == nil && absent[0].1 == nil && absent[0].2 == nil && absent[0].3 == nil && absent[0].4)
        #expect(empty[0].0 == 0 && empty[0].1 == "" && empty[0].2 == [] && empty[0].3 == [] && !empty[0].4)
    }

    private static let arrays = Statement<
        ([Int64], [Int32?], [String?], [[UInt8]], [Bool], [Identity?], [Double], [[UInt8]?], [Int16]),
        ([Int64], [Int32?], [String?], [[UInt8]], [Bool], [Identity?], [Double], [[UInt8]?], [Int16], String)
    >(
        "arrays",
        "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, concat_ws('|', $1, $2, $3, $4, $5, $6, $7, $8, $9)")

    @Test("Arrays with NULLs, with nothing, with text that needs quoting") func arrays() async throws {
        let connection = try await freshConnection()
        let identity = Identity(bytes: [UInt8](repeating: 0, count: 15) + [9])
        let row = try await connection.withSession { session throws(DatabaseError) in
            try session.run(
                Self.arrays,
                (
                    [1, .max], [nil, 7], ["a,\"b\"", nil, ""], [[], [1, 2]], [true, false], [identity, nil], [],
                    [nil, [3]], [-1]
                ))
        }[0]
        #expect(row.0 == [1, .max] && row.1 == [nil, 7] && row.2 == ["a,\"b\"", nil, ""])
        #expect(row.3 == [[], [1, 2]] && row.4 == [true, false] && row.5 == [identity, nil])
        #expect(row.6 == [] && row.7 == [nil, [3]] && row.8 == [-1])
        #expect(
            row.9 == #"{1,9223372036854775807}|{NULL,7}|{"a,\"b\"",NULL,""}|{"\\x","\\x0102"}|{t,f}"#
                + #"|{00000000-0000-0000-0000-000000000009,NULL}|{}|{NULL,"\\x03"}|{-1}"#)
    }

    private static let large = Statement<[UInt8], ([UInt8], Int32, String)>("large", "SELECT $1, length($1), md5($1)")

    /// More than socket buffers hold in both directions: sending has to read meanwhile.
    @Test("Eight megabytes of bytea") func largeBytea() async throws {
        let connection = try await freshConnection()
        let bytes = (0..<(8 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let row = try await connection.withSession { session throws(DatabaseError) in
            try session.run(Self.large, bytes)
        }[0]
        #expect(row.0 == bytes && row.1 == 8 << 20)
    }

    private static let unnest = Statement<([Int64], [String?]), (Int64, String?)>(
        "unnest", "SELECT * FROM unnest($1, $2) AS row (id, note) ORDER BY id")

    @Test("A batch through unnest") func batch() async throws {
        let connection = try await freshConnection()
        let ids = (0..<500).map { Int64($0) }
        let notes = ids.map { $0 % 3 == 0 ? nil : "note \($0)" }
        let rows = try await connection.withSession { session throws(DatabaseError) in
            try session.run(Self.unnest, (ids, notes))
        }
        #expect(rows.map(\.0) == ids && rows.map(\.1) == notes)
    }

    private static let echo = Statement<String, String>("echo", "SELECT $1")

    @Test("A NUL in text is refused as bad data and leaves the connection usable") func nul() async throws {
        let connection = try await freshConnection()
        let error = await databaseError {
            _ = try await connection.withSession { session throws(DatabaseError) in
                try session.run(Self.echo, "a\u{0}b")
            }
        }
        #expect(error?.isDataError == true)
        let rows = try await connection.withSession { session throws(DatabaseError) in try session.run(Self.echo, "b") }
        #expect(rows == ["b"])
    }
}
