import Ledger
import Testing
import Vocabulary

@testable import API

/// What the first identify of an identity is, once webhooks have named it; and what happens once however many ask.
/// Oracle: the rule of the vendor's page on user identifiers: the first identify ever gives an identity all that the
/// install holds, later ones merge nothing.
@Suite("First identifies, registrations and claims happen once", .serialized)
struct FirstIdentifyTests {
    private func products(_ service: TestService, _ query: String) async -> [String] {
        await service.get("/v1/entitlements?active=true&" + query).column("product").sorted()
    }

    private func identify(_ service: TestService, _ install: String, _ identity: String) async -> [String] {
        await service.post("/v1/users/\(install)/identify", #"{"identity":"\#(identity)"}"#).column("product").sorted()
    }

    @Test("An identity that a webhook linked with another install was identified before: nothing merges")
    func linkedByWebhook() async throws {
        try await TestService.run { service in
            await service.record(.bought("X", by: "A", as: "u1"))
            await service.record(.bought("Y", by: "B"))
            #expect(await identify(service, "B", "u1") == ["X", "Y"])
            #expect(await products(service, "user_id=u1") == ["X"])
            // What v1 and v3 say of it agrees: it is A's.
            #expect(await service.get("/v3/identities/u1").object["user_id"] as? String == "A")
            #expect(await service.post("/v3/identities/u1", #"{"user_id":"B"}"#).errorCode == "identity_already_exists")
        }
    }

    @Test("The install that webhooks linked it with is its first, and shares when it identifies, once")
    func linkedWithItself() async throws {
        try await TestService.run { service in
            await service.record(.bought("Z", by: "A"))
            await service.record(.bought("X", by: "A", as: "u1", at: at(1)))
            #expect(await products(service, "user_id=u1") == ["X"])
            #expect(await identify(service, "A", "u1") == ["X", "Z"])
            #expect(await products(service, "user_id=u1") == ["X", "Z"])
            await service.record(.bought("Y", by: "A", at: at(2)))
            #expect(await identify(service, "A", "u1") == ["X", "Y", "Z"])
            // Bought while logged in or not, it is the webhook's word who holds it.
            #expect(await service.post("/v1/users/A/logout").status == 200)
        }
    }

    @Test("An identity that holds something by its own webhooks is not treated as never seen")
    func heldByWebhook() async throws {
        try await TestService.run { service in
            await service.record(
                .stating(of: .user("u1"), purchase: "p-u1", product: "X", source: "shared"), .bought("Y", by: "B"))
            #expect(await identify(service, "B", "u1") == ["X", "Y"])
            #expect(await products(service, "user_id=u1") == ["X"])
            // One of another app, environment or source is another.
            await service.record(.stating(of: .user("u2"), purchase: "p-u2", product: "X"), .bought("Z", by: "C"))
            _ = await identify(service, "C", "u2")
            #expect(await products(service, "user_id=u2&source=shared") == ["Z"])
        }
    }

    @Test("A user that webhooks named is there: 422; of many who make one at once exactly one does, with its event")
    func registration() async throws {
        try await TestService.run { service in
            await service.record(.bought("X", by: "A"))
            let known = await service.post("/v3/users/A")
            #expect(known.status == 422 && known.errorCode == "user_already_exists")
            #expect(service.psql("SELECT count(*) FROM installs") == "0")
            for round in 0..<5 {
                let statuses = await withTaskGroup(of: Int.self) { group in
                    for _ in 0..<8 { group.addTask { await service.post("/v3/users/new\(round)").status } }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                #expect(statuses.sorted() == [200] + Array(repeating: 422, count: 7))
            }
            #expect(service.psql("SELECT count(*) FROM installs") == "5")
            #expect(service.psql("SELECT count(*) FROM events WHERE name = 'USER_CREATED'") == "5")
            #expect(service.psql("SELECT count(*) FROM messages WHERE type = 'USER_CREATED'") == "5")
            // Of what was refused nothing stays behind.
            #expect(
                service.psql(
                    "SELECT count(*) FROM identities i WHERE NOT EXISTS (SELECT FROM events e WHERE e.id = i.event)")
                    == "0")
        }
    }

    @Test("A user and its event are one transaction: what cannot be recorded registers nobody")
    func registrationIsOneTransaction() async throws {
        try await TestService.run { service in
            service.psql("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$no$$; END'")
            service.psql("CREATE TRIGGER no BEFORE INSERT ON messages EXECUTE FUNCTION no()")
            #expect(await service.post("/v3/users/A").status == 503)
            #expect(service.psql("SELECT count(*) FROM installs") == "0")
            service.psql("DROP TRIGGER no ON messages")
            #expect(await service.post("/v3/users/A").status == 200)
        }
    }

    @Test("Of installs that claim one identity at once one gets it, and no loser is logged in")
    func raceOfClaims() async throws {
        try await TestService.run { service in
            for round in 0..<5 {
                let installs = (0..<6).map { "r\(round)-\($0)" }
                for install in installs { #expect(await service.post("/v3/users/" + install).status == 200) }
                let statuses = await withTaskGroup(of: Int.self) { group in
                    for install in installs {
                        group.addTask {
                            await service.post("/v3/identities/u\(round)", #"{"user_id":"\#(install)"}"#).status
                        }
                    }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                #expect(statuses.sorted() == [200] + Array(repeating: 422, count: 5))
                let linked = service.psql("SELECT count(*) FROM holder_links WHERE user_id = 'u\(round)'")
                #expect(linked == "1")
                let events = service.psql(
                    "SELECT count(*) FROM events WHERE name = 'IDENTIFIED' AND holder LIKE 'anon:r\(round)-%'")
                #expect(events == "1")
                let claimed = await service.get("/v3/identities/u\(round)").object["user_id"] as? String
                #expect(
                    claimed == service.psql("SELECT anonymous_user_id FROM holder_links WHERE user_id = 'u\(round)'"))
            }
        }
    }

    @Test("The next install that claims an identity whose first one was erased is its first, also after a logout")
    func claimedAfterErasure() async throws {
        try await TestService.run { service in
            for install in ["A", "B", "C"] { #expect(await service.post("/v3/users/" + install).status == 200) }
            func claim(_ install: String) async -> Reply {
                await service.post("/v3/identities/u1", #"{"user_id":"\#(install)"}"#)
            }
            #expect(await claim("A").status == 200)
            let erasure = try await Erasure.start(.anonymous("A"), source: nil, isDry: false, in: service.pool)
            _ = try await erasure.run(in: service.pool) { _ in }
            #expect(await claim("B").status == 200)
            #expect(await service.post("/v1/users/B/logout").status == 200)
            #expect(await service.get("/v3/identities/u1").object["user_id"] as? String == "B")
            #expect(await claim("C").errorCode == "identity_already_exists")
            // A repair finds no event that shared anything.
            #expect(service.psql("SELECT install, event FROM install_identities") == "B|0")
        }
    }

    @Test("Of identities that one install claims at once it gets one")
    func raceOfIdentities() async throws {
        try await TestService.run { service in
            _ = await service.post("/v3/users/A")
            let statuses = await withTaskGroup(of: Int.self) { group in
                for number in 0..<6 {
                    group.addTask { await service.post("/v3/identities/u\(number)", #"{"user_id":"A"}"#).status }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.sorted() == [200] + Array(repeating: 422, count: 5))
            #expect(service.psql("SELECT count(*) FROM install_identities") == "1")
        }
    }
}
