import Postgres
import TestSupport
import Testing

/// What a log line could show, by every way of turning a value into text.
private func shown(_ value: Any) -> String {
    var dumped = ""
    dump(value, to: &dumped)
    return "\(value) \(String(reflecting: value)) \(dumped) \(String(describing: Optional(value)))"
}

@Suite("Nothing secret is shown") struct SecrecyTests {
    private static let password = "correct-horse"

    @Test(
        "Settings never show the password",
        arguments: [
            "postgresql://someone:correct-horse@db.example:5433/relay?sslmode=require",
            "postgresql://someone:correct-horse?@db.example:5433/relay?sslmode=require&application_name=a@b",
            "host=db.example port=5433 user=someone password=correct-horse dbname=relay sslmode=require",
            "host=db.example port=5433 user=someone dbname=relay sslmode=require sslpassword=correct-horse",
        ])
    func settingsHidePassword(connectionString: String) throws {
        let text = shown(try settings(connectionString))
        #expect(!text.contains(Self.password))
        for part in ["host=db.example", "port=5433", "user=someone", "dbname=relay", "sslmode=require"] {
            #expect(text.contains(part))
        }
    }

    @Test(
        "A connection string that cannot be read is not quoted",
        arguments: [
            "correct-horse", "host=x password='correct-horse", "password correct-horse=1",
            "postgresql://someone:correct-horse%zz@db/relay", "postgresql://db/relay?correct-horse",
            "postgresql://someone:half@correct-horse@db/relay", "postgresql://someone:half/correct-horse@db/relay",
            "postgresql://someone:half?@correct-horse@db/relay", "postgresql://someone:ha?lf@x/correct-horse@db/relay",
            "postgresql://someone:correct-horse", "host=a,b,c port=1,correct-horse",
        ])
    func unreadable(connectionString: String) throws {
        let error = #expect(throws: ConnectionStringError.self) { try settings(connectionString) }
        #expect(error.map { !shown($0).contains(Self.password) } == true)
    }

    @Test("A wrong password is not repeated") func wrongPassword() async throws {
        let cluster = try TestCluster.shared
        try cluster.psql("DROP ROLE IF EXISTS with_password")
        try cluster.psql("CREATE ROLE with_password LOGIN PASSWORD 'another'")
        let wrong = try settings(
            "host=\(cluster.directory) user=with_password dbname=postgres password=\(Self.password)")
        let error = await databaseError { _ = try await Connection.open(wrong) }
        guard case .connectFailed(let reason) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(reason.contains("password authentication failed"))
        #expect(!shown(error as Any).contains(Self.password))
        _ = try await Connection.open(
            settings("host=\(cluster.directory) user=with_password dbname=postgres password=another"))
    }

    /// DETAIL, which is not kept, quotes the row of a violated constraint; the message of class 22 quotes the value.
    @Test("An error shows no data of a row", arguments: ["23505", "23514", "23502", "22P02", "22003"])
    func errorsHideData(code: String) async throws {
        let connection = try await freshConnection()
        let scripts = [
            "23505": "INSERT INTO people VALUES ('marie@curie.example', 1), ('marie@curie.example', 1)",
            "23514": "INSERT INTO people VALUES ('marie@curie.example', -1)",
            "23502": "INSERT INTO people VALUES ('marie@curie.example', NULL)",
            "22P02": "SELECT 'marie@curie.example'::int",
            "22003": "SELECT 'marie@curie.example', '99999999999999999999'::int4",
        ]
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.script("CREATE TABLE people (address text PRIMARY KEY, age int NOT NULL CHECK (age > 0))")
                try session.script(scripts[code] ?? "")
            }
        }
        guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(refusal.sqlState.code == code)
        let text = shown(error as Any) + shown(refusal)
        #expect(text.contains(code))
        #expect(!text.contains("marie") && !text.contains("99999999999999999999"))
        guard refusal.sqlState.conditionClass == "22" else { return }
        #expect(refusal.message.contains(code == "22003" ? "999" : "marie"), "the data was there to be shown")
    }
}
