import HTTPServer
import Ledger
import Postgres
import Testing
import Vocabulary

@testable import API

/// What is decided before any database: the pool behind this API has never been started. Oracle: RFC 9110, RFC 6750 and
/// the contract.
@Suite("Requests that are rejected")
struct RoutingTests {
    private static func api(_ tokens: [APIToken] = TestService.tokens, log: Log = Log()) throws -> API {
        let settings = try ConnectionSettings(
            "host=/nonexistent dbname=none", connectTimeout: .seconds(1), statementTimeout: .seconds(1),
            deadlineMargin: .seconds(1))
        let pool = Pool(
            settings, size: 1, waiting: Pool.Waiting(waitersMax: 1, limit: .milliseconds(10)),
            backoff: .seconds(1)...(.seconds(1)))
        return API(
            tokens: tokens, sources: TestService.sources, subscriptionGroups: TestService.groups,
            lookup: HolderLookup(pool: pool), queue: RecordQueue(), bodyBytesMax: 1_000,
            gate: LookupGate(ofConnections: 3), now: { at(0) }, observe: { log.note($0) })
    }

    private static func bearer(_ token: String) -> [(String, String)] { [("Authorization", "Bearer \(token)")] }

    @Test("Which paths are the API's")
    func owns() {
        for path in ["/v1", "/v1/", "/v1/x", "/v3", "/v3/users/a"] { #expect(API.owns(path: path)) }
        for path in ["/", "/v1x", "/v2/users", "/ingest/v1", "/healthz"] { #expect(!API.owns(path: path)) }
    }

    @Test(
        "Without a token nothing is shown, not even whether a path exists",
        arguments: ["/v1/entitlements?user_id=a", "/v1/nothing", "/v3/users/a", "/v1", "/v1/openapi.json"])
    func unauthorized(target: String) async throws {
        let log = Log()
        let api = try Self.api(log: log)
        let refused: [[(String, String)]] = [
            [], [("authorization", "")], [("authorization", "Bearer ")], [("authorization", TestService.reader)],
            [("authorization", "Basic " + TestService.reader)], Self.bearer(TestService.reader + "x"),
            Self.bearer(String(TestService.reader.dropLast())), Self.bearer(TestService.reader.uppercased()),
            Self.bearer(TestService.reader) + Self.bearer(TestService.reader),
        ]
        for headers in refused {
            let reply = await api.reply("GET", target, headers: headers)
            #expect(reply.status == 401 && reply.headers["www-authenticate"]?.hasPrefix("Bearer") == true)
            #expect(reply.errorCode == (target.hasPrefix("/v3") ? "control_unauthorized" : "unauthorized"))
            #expect(!String(decoding: reply.body, as: UTF8.self).contains(TestService.reader))
        }
        #expect(log.refusals.count == refused.count && log.refusals.allSatisfy { !$0.contains(TestService.reader) })
        // Nobody may, where no token is configured.
        #expect(await (try Self.api([])).reply("GET", target, headers: Self.bearer(TestService.reader)).status == 401)
    }

    @Test("A refusal that comes after the server's own answer is not reported again", arguments: [(7, 1), (8, 0)])
    func late(seconds: Int, reports: Int) async throws {
        let log = Log()
        let head = IncomingHead(method: "GET", target: "/v1/entitlements?user_id=a")
        let answer = await (try Self.api(log: log)).answer(head, body: [], age: { .seconds(seconds) })
        #expect(answer.status == 401 && log.refusals.count == reports)
    }

    @Test("The scheme is read in any case")
    func scheme() async throws {
        for field in ["bearer ", "BEARER ", "Bearer   "] {
            let headers = [("authorization", field + TestService.reader)]
            #expect(await (try Self.api()).reply("GET", "/v1/openapi.json", headers: headers).status == 200)
        }
    }

    @Test("What looks something up needs the scope read, everything else write", arguments: APIOperation.allCases)
    func scopes(operation: APIOperation) async throws {
        func token(_ scope: APIToken.Scope) -> APIToken {
            APIToken(name: scope.rawValue, token: Secret(Array(scope.rawValue.utf8)), scopes: [scope], source: nil)
        }
        let api = try Self.api([token(.read), token(.write)])
        let path = operation.path.replacing(/\{\w+\}/, with: "x")
        // A receipt is judged and nothing of it is kept.
        let isRead = operation.method == "GET" || operation == .judgeReceipt
        let (fits, lacks) = isRead ? ("read", "write") : ("write", "read")
        let reply = await api.reply(operation.method, path, headers: Self.bearer(lacks))
        #expect(reply.status == 403 && reply.errorCode == "insufficient_scope")
        #expect(reply.headers["www-authenticate"]?.contains("scope=\"\(fits)\"") == true)
        let head = IncomingHead(method: operation.method, target: path, headers: Self.bearer(fits))
        guard case .accept(let bytesMax, let timeout, let late) = api.admit(head) else {
            Issue.record("\(path) is not admitted")
            return
        }
        #expect(bytesMax == (operation.method == "GET" ? 0 : 1_000) && timeout == Limits.acknowledgementTimeout)
        #expect(late.status == 503 && late.headers.contains { $0.0 == "retry-after" })
    }

    @Test(
        "Unknown paths are 404",
        arguments: [
            "/v1", "/v1/", "/v3/", "/v1/entitlements/", "/v1/Entitlements", "/v1//entitlements", "/v1/users/a",
            "/v1/users//identify", "/v3/users/", "/v3/users/a/", "/v3/users/a/b", "/v3/users/a/entitlements/b/c",
        ])
    func unknown(path: String) async throws {
        let reply = await (try Self.api()).reply("GET", path, headers: Self.bearer(TestService.writer))
        #expect(reply.status == 404 && reply.errorCode == "not_found" && reply.errorType == "request")
    }

    @Test("A known path names the methods that it allows")
    func methods() async throws {
        let api = try Self.api()
        for (method, path, allowed) in [
            ("POST", "/v1/entitlements", "GET, HEAD"), ("GET", "/v1/users/a/logout", "POST"),
            ("PATCH", "/v3/users/a", "GET, HEAD, POST"), ("OPTIONS", "/v3/users/a/entitlements/b", "DELETE"),
            ("DELETE", "/v1/eligibility", "GET, HEAD, POST"),
        ] {
            let reply = await api.reply(method, path, headers: Self.bearer(TestService.writer))
            #expect(reply.status == 405 && reply.headers["allow"] == allowed, "\(method) \(path)")
            #expect(reply.errorCode == "method_not_allowed")
        }
    }

    @Test("A body that is too long by its own word")
    func tooLong() async throws {
        let headers = Self.bearer(TestService.writer) + [("content-length", "1001")]
        let reply = await (try Self.api()).reply("POST", "/v1/eligibility", headers: headers)
        #expect(reply.status == 413 && reply.errorCode == "body_too_large" && reply.message.contains("1000"))
    }

    @Test("Names in the path are percent-decoded, and a plus sign is itself")
    func names() throws {
        #expect(try Route(method: "GET", path: "/v3/users/a%2Fb%20c+d%C3%A9").names == ["a/b c+dé"])
        #expect(try Route(method: "DELETE", path: "/v3/users/a/entitlements/b%25").names == ["a", "b%"])
        for path in ["%", "%4", "%zz", "a%00", "%ff", "%C3", String(repeating: "x", count: 1_025)] {
            let fault = #expect(throws: APIFailure.self) { try Route(method: "GET", path: "/v3/users/" + path) }
            #expect(fault?.status == 400 && fault?.code == .invalidParameter, "\(path)")
        }
        #expect(throws: Never.self) {
            try Route(method: "GET", path: "/v3/users/" + String(repeating: "x", count: 1_024))
        }
    }

    @Test("A database that is out of reach is 503, and no look-up waits for ever")
    func databaseAway() async throws {
        let log = Log()
        let reply = await (try Self.api(log: log)).reply(
            "GET", "/v1/entitlements?user_id=a", headers: Self.bearer(TestService.reader))
        #expect(reply.status == 503 && reply.headers["retry-after"] == "1" && reply.errorCode == "unavailable")
        #expect(log.refusals.count == 1 && log.refusals[0].hasPrefix("503 "))
    }
}
