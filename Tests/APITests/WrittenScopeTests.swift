import Testing
import Vocabulary

@testable import API

/// Oracle: what moved, by psql and by what is answered afterwards. A write that could move nothing is refused.
@Suite("Environment, app and login of what is written", .serialized)
struct WrittenScopeTests {
    @Test(
        "An environment is read in any case of letters",
        arguments: [
            ("sandbox", "SANDBOX"), ("Sandbox", "SANDBOX"), ("SANDBOX", "SANDBOX"), ("production", "PRODUCTION"),
            ("prod", "PRODUCTION"), ("PROD", "PRODUCTION"), ("staging", "Staging"),
        ])
    func environments(_ asked: String, _ meant: String) async throws {
        let sources = [
            Source.named("shared", ownership: .installAndIdentity), Source.named("shop", environment: "Staging"),
        ]
        try await TestService.run(sources: sources) { service in
            await service.record(.stating(of: .user("jeff"), environment: meant))
            await service.record(
                .stating(of: .user("jeff"), purchase: "p2", product: "wrong", environment: "ELSEWHERE"))
            let found = await service.get("/v1/entitlements?user_id=jeff&environment=" + asked)
            #expect(found.status == 200 && found.column("product") == ["gold"])
            #expect(await service.post("/v1/users/A/logout?environment=" + asked).status == 200)
            #expect(service.psql("SELECT environment FROM events WHERE name = 'LOGGED_OUT'") == meant)
            #expect(await service.get("/v3/users/A?environment=" + asked).status == 200)
        }
    }

    @Test(
        "An unknown environment is 400 and says what would be right",
        arguments: [
            "/v1/entitlements?user_id=a&environment=SANDBX", "/v1/history?user_id=a&environment=test",
            "/v1/transfers?user_id=a&environment=test", "/v1/identities?user_id=a&environment=test",
            "/v1/eligibility?user_id=a&group=premium&environment=test", "/v3/users/a?environment=test",
            "/v3/identities/a?environment=test", "/v3/users/a/entitlements?environment=test",
        ])
    func unknownEnvironments(_ target: String) async throws {
        try await TestService.run { service in
            let reply = await service.get(target)
            #expect(reply.status == 400 && reply.errorCode == "invalid_parameter")
            #expect(reply.message.contains("PRODUCTION") && reply.message.contains("SANDBOX"), "\(reply.message)")
            #expect(await service.post("/v1/users/a/logout?environment=test").status == 400)
            #expect(await service.post("/v3/users/a", #"{"environment":"test"}"#).message.contains("SANDBOX"))
        }
    }

    private static let writes: [(method: String, path: String, body: String)] = [
        ("POST", "/v1/users/A/identify", #"{"identity":"u1"}"#), ("POST", "/v1/users/A/logout", ""),
        ("POST", "/v1/users/A/restore", #"{"transactions":["t-p1"]}"#), ("POST", "/v3/users/B", ""),
        ("POST", "/v3/identities/u2", ""), ("POST", "/v3/users/A/entitlements", #"{"id":"plus","expires":4102444800}"#),
        ("DELETE", "/v3/users/A/entitlements/plus", ""), ("GET", "/v3/users/A", ""), ("GET", "/v3/identities/u1", ""),
        ("GET", "/v3/users/A/entitlements", ""),
    ]

    @Test(
        "A source whose events name an app needs it from the request or the configuration",
        arguments: [SourceKind.purchasely, .apphud, .revenuecat, .sessions])
    func appIsNeeded(_ kind: SourceKind) async throws {
        try await TestService.run(sources: [.named("shop", kind: kind, merges: kind == .sessions)]) { service in
            await service.record(.stating(of: .anonymous("A"), app: "app.one"))
            for write in Self.writes {
                let reply = await service.send(write.method, write.path + "?source=shop", body: write.body)
                #expect(reply.status == 400 && reply.errorCode == "invalid_parameter", "\(kind) \(write.path)")
                #expect(reply.message.contains("app="), "\(reply.message)")
            }
            #expect(service.psql("SELECT count(*) FROM events WHERE name <> 'ACTIVATE'") == "0")
            for write in Self.writes {
                let reply = await service.send(write.method, write.path + "?source=shop&app=app.one", body: write.body)
                #expect(reply.status == 200, "\(kind) \(write.method) \(write.path): \(reply.message)")
            }
            #expect(service.psql("SELECT DISTINCT app FROM events") == "app.one")
            // Said outright: the events that name none.
            #expect(await service.post("/v1/users/C/logout?source=shop&app=").status == 200)
        }
    }

    @Test("An app that moves nothing is refused: another than the configured one, or one that no event names")
    func appThatMovesNothing() async throws {
        let sources = [Source.named("shop", app: "app.one"), Source.named("shared", ownership: .installAndIdentity)]
        try await TestService.run(sources: sources) { service in
            await service.record(.stating(of: .anonymous("A"), app: "app.one"))
            for write in Self.writes {
                let other = await service.send(write.method, write.path + "?source=shop&app=app.two", body: write.body)
                #expect(other.status == 400 && other.message.contains("leave app out"), "\(write.path)")
                let none = await service.send(write.method, write.path + "?source=shared&app=app.one", body: write.body)
                #expect(none.status == 400 && none.message.contains("leave app out"), "\(write.path)")
                let own = await service.send(write.method, write.path + "?source=shop&app=app.one", body: write.body)
                #expect(own.status == 200, "\(write.path): \(own.message)")
            }
            // By the login to the user, and by the restore back to the install.
            #expect(service.psql("SELECT count(*) FROM transfers") == "2")
        }
    }

    @Test("A login of a source of sessions moves what its key merge says", arguments: [false, true])
    func merge(_ merges: Bool) async throws {
        let sources = [Source.named("shop", kind: .sessions, app: "web", merges: merges)]
        try await TestService.run(sources: sources) { service in
            await service.record(.stating(of: .anonymous("A"), app: "web"))
            let seen = await service.post("/v1/users/A/identify?source=shop", #"{"identity":"u1"}"#)
            // Either way the install sees it: it is the user now.
            #expect(seen.status == 200 && seen.column("product") == ["gold"])
            let user = await service.get("/v1/entitlements?user_id=u1&active=true").column("product")
            #expect(user == (merges ? ["gold"] : []))
            #expect(service.psql("SELECT count(*) FROM transfers") == (merges ? "1" : "0"))
            #expect(await service.get("/v1/identities?anonymous_user_id=A").column("user_id") == ["u1"])
            #expect(await service.get("/v3/identities/u1?source=shop").object["user_id"] as? String == "A")
            // What comes later is not moved either.
            await service.record(.stating(of: .anonymous("A"), at: at(1), purchase: "p2", product: "late", app: "web"))
            let later = await service.get("/v1/entitlements?user_id=u1&active=true").column("product")
            #expect(Set(later) == (merges ? ["gold", "late"] : []))
        }
    }
}
