import Foundation
import Ledger
import Testing
import Vocabulary

@testable import API

/// Oracle: the paths, bodies, status codes and texts of the vendor's third version, as its documentation has them.
@Suite("Users, identities and entitlements of version 3", .serialized)
struct Version3Tests {
    @Test("A user is made once and found in its environment")
    func users() async throws {
        try await TestService.run { service in
            #expect(await service.get("/v3/users/A").status == 404)
            let made = await service.post("/v3/users/A", #"{"environment":"sandbox","more":[1]}"#)
            #expect(made.status == 200 && made.object["id"] as? String == "A" && made.object["identity_id"] is NSNull)
            #expect(made.object["environment"] as? String == "sandbox")
            let now = Int64(service.psql("SELECT extract(epoch FROM now())::bigint")) ?? 0
            #expect(abs((made.object["created"] as? Int64 ?? 0) - now) < 60)
            let again = await service.post("/v3/users/A", #"{"environment":"sandbox"}"#)
            #expect(again.status == 422 && again.errorCode == "user_already_exists" && again.errorType == "resource")
            #expect(again.message == "User with given uid already exists")
            // Without an environment it is found wherever it is.
            #expect(await service.get("/v3/users/A").object["environment"] as? String == "sandbox")
            #expect(await service.get("/v3/users/A?environment=prod").status == 404)
            #expect(await service.post("/v3/users/B").object["environment"] as? String == "prod")
            #expect(await service.post("/v3/users/C", #"{"environment":"test"}"#).status == 400)
            #expect(await service.get("/v3/users/A?environment=test").status == 400)
            let reported = service.psql("SELECT name, holder, environment FROM events ORDER BY id")
            #expect(reported == "USER_CREATED|anon:A|SANDBOX\nUSER_CREATED|anon:B|PRODUCTION")
        }
    }

    @Test("An install that only webhooks named is a user, too; one of another source is not")
    func knownByWebhooks() async throws {
        try await TestService.run { service in
            await service.record(.bought("X", by: "A"), .stating(of: .anonymous("B")))
            #expect(await service.get("/v3/users/A").object["created"] as? Int == 1_704_067_200)
            #expect(await service.get("/v3/users/B").status == 404)
            // Its events are dropped, and its access changes.
            service.psql("DELETE FROM events")
            service.psql("UPDATE entitlements SET changed_at = now() + interval '1 year'")
            let known = await service.get("/v3/users/A").object
            #expect(known["environment"] as? String == "prod" && known["created"] as? Int == 1_704_067_200)
        }
    }

    @Test("A user is not older than its registration, or than what came to it by a transfer")
    func createdBeforeItsPurchases() async throws {
        try await TestService.run { service in
            _ = await service.post("/v3/users/R")
            await service.record(.bought("X", by: "A"), .bought("Y", by: "A"))
            for (user, purchase, strategy) in [("R", "A-X", "copy"), ("B", "A-Y", "transfer")] {
                let body = #"{"transactions":["t-\#(purchase)"],"strategy":"\#(strategy)"}"#
                #expect(await service.post("/v1/users/\(user)/restore", body).data.count == 1)
                let created = await service.get("/v3/users/" + user).object["created"] as? Int ?? 0
                #expect(created > 1_704_070_800, "\(user)")
            }
            // It had this one first: that it came back is no beginning.
            await service.record(.bought("Z", by: "C"))
            for user in ["D", "C"] {
                let body = #"{"transactions":["t-C-Z"],"strategy":"transfer"}"#
                #expect(await service.post("/v1/users/\(user)/restore", body).data.count == 1)
            }
            #expect(service.psql("SELECT count(*) FROM transfers WHERE to_holder = 'anon:C'") == "1")
            service.psql("DELETE FROM events")
            #expect(await service.get("/v3/users/C").object["created"] as? Int == 1_704_067_200)
        }
    }

    @Test("Identities: made, found, refused")
    func identities() async throws {
        try await TestService.run { service in
            #expect(await service.get("/v3/identities/u1").status == 404)
            let unknown = await service.post("/v3/identities/u1", #"{"user_id":"A"}"#)
            #expect(
                unknown.status == 400 && unknown.errorCode == "user_not_found" && unknown.message == "user not found")
            for user in ["A", "B"] { _ = await service.post("/v3/users/" + user) }
            let linked = await service.post("/v3/identities/u1", #"{"user_id":"A"}"#)
            #expect(linked.status == 200 && linked.object as? [String: String] == ["id": "u1", "user_id": "A"])
            #expect(await service.get("/v3/identities/u1").object["user_id"] as? String == "A")
            #expect(await service.get("/v3/users/A").object["identity_id"] as? String == "u1")
            // Asked again it is the same; nothing is sent twice.
            #expect(await service.post("/v3/identities/u1", #"{"user_id":"A"}"#).status == 200)
            #expect(service.psql("SELECT count(*) FROM events WHERE name = 'IDENTIFIED'") == "1")
            let other = await service.post("/v3/identities/u1", #"{"user_id":"B"}"#)
            #expect(other.status == 422 && other.errorCode == "identity_already_exists")
            #expect(other.message == "identity already exists: it's linked to another user")
            // Two ids that look alike are two: they are compared by their bytes.
            for user in ["%C3%A9", "e%CC%81"] { _ = await service.post("/v3/users/" + user) }
            #expect(await service.post("/v3/identities/u3", "{\"user_id\":\"\u{E9}\"}").status == 200)
            let alike = await service.post("/v3/identities/u3", "{\"user_id\":\"e\u{301}\"}")
            #expect(alike.status == 422 && alike.errorCode == "identity_already_exists")
            let second = await service.post("/v3/identities/u2", #"{"user_id":"A"}"#)
            #expect(second.status == 422 && second.errorCode == "user_already_has_identity")
            #expect(second.message == "user already has identity")
            // A session is no new link: the identity stays its first install's, and theirs.
            _ = await service.post("/v1/users/A/logout")
            #expect(await service.get("/v3/users/A").object["identity_id"] as? String == "u1")
            #expect(await service.get("/v3/identities/u1").object["user_id"] as? String == "A")
        }
    }

    @Test("An identity without a user makes one")
    func identityWithoutUser() async throws {
        try await TestService.run { service in
            for body in ["", "{}", #"{"user_id":null}"#] {
                let id = "u\(body.utf8.count)"
                let made = await service.post("/v3/identities/\(id)?environment=sandbox", body)
                let user = made.object["user_id"] as? String ?? ""
                #expect(made.status == 200 && user.utf8.count == 32)
                let found = await service.get("/v3/users/" + user)
                #expect(
                    found.object["identity_id"] as? String == id && found.object["environment"] as? String == "sandbox")
            }
            #expect(await service.post("/v3/identities/u0?environment=sandbox").errorCode == "identity_already_exists")
            // One event makes it: no user stays behind of whom nobody knows.
            let statuses: [Int] = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<8 { group.addTask { await service.post("/v3/identities/once").status } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.sorted() == [200] + Array(repeating: 422, count: 7))
            let events = service.psql("SELECT name, count(*), count(DISTINCT holder) FROM events GROUP BY name")
            #expect(events == "IDENTIFIED|4|4")
        }
    }

    @Test("Ids come percent-encoded, and go as they are")
    func encoding() async throws {
        try await TestService.run { service in
            let made = await service.post("/v3/users/a%2Fb%20%C3%A9%3F")
            #expect(made.object["id"] as? String == "a/b é?")
            #expect(await service.get("/v3/users/a%2fb%20%c3%a9%3f").status == 200)
        }
    }

    @Test("A grant, a second one that keeps the old end, a revocation, a new grant")
    func grants() async throws {
        try await TestService.run { service in
            let path = "/v3/users/A/entitlements"
            let body = #"{"id":"plus","expires":4102444800}"#
            #expect(await service.get(path).status == 404)
            #expect(await service.post(path, body).status == 404)
            _ = await service.post("/v3/users/A")
            #expect(await service.get(path).object["object"] as? String == "list")
            let granted = await service.post(path, body)
            #expect(granted.status == 200 && granted.object["active"] as? Bool == true)
            #expect(
                granted.object["expires"] as? Int == 4_102_444_800 && granted.object["source"] as? String == "manual")
            #expect(granted.object["product"] is NSNull)
            let second = await service.post(path, #"{"id":"plus","expires":4202444800000}"#)
            #expect(second.status == 200 && second.object["expires"] as? Int == 4_102_444_800)
            #expect(await service.get(path).column("id") == ["plus"])
            #expect(await service.get("/v1/entitlements?install=A&active=true").column("store") == ["MANUAL"])
            let revoked = await service.send("DELETE", path + "/plus")
            #expect(revoked.status == 200 && revoked.object["active"] as? Bool == false)
            #expect(await service.send("DELETE", path + "/plus").status == 200)
            #expect(await service.send("DELETE", path + "/never").status == 200)
            #expect(await service.get(path).column("active") == ["0"])
            let anew = await service.post(path, #"{"id":"plus","expires":4202444800000}"#)
            #expect(anew.object["expires"] as? Int == 4_202_444_800 && anew.object["active"] as? Bool == true)
            let names = "ENTITLEMENT_GRANTED\nENTITLEMENT_REVOKED\nENTITLEMENT_GRANTED"
            #expect(service.psql("SELECT name FROM events WHERE name LIKE 'ENT%' ORDER BY id") == names)
        }
    }

    @Test("Of grants at once one is recorded: all are answered its end, and it keeps it")
    func grantsAtOnce() async throws {
        try await TestService.run { service in
            let path = "/v3/users/A/entitlements"
            _ = await service.post("/v3/users/A")
            let ends: [Int?] = await withTaskGroup(of: Int?.self) { group in
                for number in 0..<8 {
                    let body = #"{"id":"plus","expires":\#(4_102_444_800 + number)}"#
                    group.addTask { await service.post(path, body).object["expires"] as? Int }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let end = await service.get(path).data.first?["expires"] as? Int
            #expect(end != nil && ends == Array(repeating: end, count: 8))
            #expect(service.psql("SELECT count(*) FROM events WHERE name = 'ENTITLEMENT_GRANTED'") == "1")
            let revoked: [Bool?] = await withTaskGroup(of: Bool?.self) { group in
                for _ in 0..<4 {
                    group.addTask { await service.send("DELETE", path + "/plus").object["active"] as? Bool }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(revoked == Array(repeating: false, count: 4))
            #expect(service.psql("SELECT count(*) FROM events WHERE name = 'ENTITLEMENT_REVOKED'") == "1")
        }
    }

    @Test("A grant that is restored to another install while it is being revoked is revoked there, too")
    func restoredMeanwhile() async throws {
        try await TestService.run(sources: [.named("store", kind: .apple)]) { service in
            let query = "?source=store&app="
            _ = await service.post("/v3/users/A" + query)
            _ = await service.post("/v3/users/A/entitlements" + query, #"{"id":"plus","expires":4102444800}"#)
            let transaction = service.psql("SELECT store_transaction_id FROM transactions")
            let body = #"{"transactions":["\#(transaction)"]}"#
            func active(_ install: String) async -> Int {
                await service.get("/v1/entitlements?active=true&install=" + install).data.count
            }
            try await service.holding("SELECT FROM purchases FOR UPDATE") { release in
                async let restored = service.post("/v1/users/B/restore" + query, body)
                try await service.wait { service.waitingSessions > 0 }
                async let revoked = service.send("DELETE", "/v3/users/A/entitlements/plus" + query)
                // It has read who is granted, and waits for the restore: in the database or for the same writer.
                try await service.wait { service.waitingSessions > 1 || service.queue.depth > 0 }
                release()
                let (first, second) = await (restored, revoked)
                #expect(first.status == 200 && second.status == 200)
                #expect(second.object["active"] as? Bool == false)
            }
            #expect(await active("A") == 0)
            #expect(await active("B") == 0)
            // The restore came first: it moved the grant.
            #expect(service.psql("SELECT count(*) FROM transfers") == "1")
        }
    }

    @Test("What is said of a grant whose state cannot be read is not acknowledged: quarantine could not read it again")
    func unreadableGrant() async throws {
        try await TestService.run { service in
            let path = "/v3/users/A/entitlements"
            _ = await service.post("/v3/users/A")
            #expect(await service.post(path, #"{"id":"plus","expires":4102444800}"#).status == 200)
            let events = service.psql("SELECT count(*) FROM events")
            _ = service.psql(#"UPDATE purchases SET state = '\xff'"#)
            for _ in 1...2 { #expect(await service.send("DELETE", path + "/plus").status == 503) }
            // No webhook of the source was refused; the journal has the reason all the same.
            #expect(Set(service.log.refusedSources) == ["api"])
            #expect(service.log.refusals.contains { $0.contains("state of its purchase") })
            #expect(service.psql("SELECT count(*) FROM events") == events)
            #expect(service.psql("SELECT count(*) FROM quarantine") == "0")
            #expect(service.psql("SELECT count(*) FROM identities") == events)
        }
    }

    @Test("A grant ends by its own time: nobody else could say so")
    func grantsEnd() async throws {
        try await TestService.run { service in
            _ = await service.post("/v3/users/A")
            _ = await service.post("/v3/users/A/entitlements", #"{"id":"plus","expires":4102444800}"#)
            service.psql("UPDATE transactions SET effective_next_renewal_at_ms = 1704067200000")
            #expect(await service.get("/v3/users/A/entitlements").column("active") == ["0"])
            #expect(await service.get("/v1/entitlements?install=A&active=true").data.isEmpty)
            let anew = await service.post("/v3/users/A/entitlements", #"{"id":"plus","expires":4202444800}"#)
            #expect(anew.object["active"] as? Bool == true && anew.object["expires"] as? Int == 4_202_444_800)
        }
    }

    @Test("A grant that is revoked while its time seems to be over stays revoked when the clock is right again")
    func revokedWhenOver() async throws {
        try await TestService.run { service in
            let path = "/v3/users/A/entitlements"
            _ = await service.post("/v3/users/A")
            _ = await service.post(path, #"{"id":"plus","expires":4102444800}"#)
            service.psql("UPDATE transactions SET effective_next_renewal_at_ms = 1704067200000")
            #expect(await service.send("DELETE", path + "/plus").object["active"] as? Bool == false)
            service.psql("UPDATE transactions SET effective_next_renewal_at_ms = 4102444800000")
            #expect(await service.get(path).column("active") == ["0"])
        }
    }

    @Test("What is granted to one install is no other's, but is its identity's")
    func grantsAreKeptApart() async throws {
        try await TestService.run { service in
            for user in ["A", "B", "C"] { _ = await service.post("/v3/users/" + user) }
            _ = await service.post("/v1/users/A/identify", #"{"identity":"u1"}"#)
            for user in ["A", "B"] {
                _ = await service.post("/v3/users/\(user)/entitlements", #"{"id":"plus","expires":4102444800}"#)
            }
            _ = await service.post("/v1/users/C/identify", #"{"identity":"u1"}"#)
            func active(_ user: String) async -> [String] {
                await service.get("/v3/users/\(user)/entitlements").column("active")
            }
            #expect(await active("A") == ["1"])
            #expect(await active("B") == ["1"])
            #expect(await active("C") == ["1"])
            #expect(service.psql("SELECT count(*) FROM transfers") == "0")
            _ = await service.send("DELETE", "/v3/users/A/entitlements/plus")
            #expect(await active("A") == ["0"])
            #expect(await active("B") == ["1"])
            #expect(await active("C") == ["0"])
        }
    }

    @Test(
        "A new grant is of who is logged in then: who had it before does not get it back",
        arguments: ["over", "revoked", "lasting"], ["shared", "shop"])
    func grantsOfFormerIdentities(_ first: String, _ source: String) async throws {
        try await TestService.run { service in
            let query = "?source=\(source)&app="
            func active(_ holder: String) async -> Int {
                await service.get("/v1/entitlements?\(holder)&active=true&source=\(source)").data.count
            }
            _ = await service.post("/v3/users/A" + query)
            _ = await service.post("/v1/users/A/identify" + query, #"{"identity":"jeff"}"#)
            _ = await service.post("/v3/users/A/entitlements" + query, #"{"id":"plus","expires":4102444800}"#)
            #expect(await active("user_id=jeff") == 1)
            switch first {
            case "revoked": _ = await service.send("DELETE", "/v3/users/A/entitlements/plus" + query)
            case "over": service.psql("UPDATE transactions SET effective_next_renewal_at_ms = 1704067200000")
            default: break
            }
            #expect(await active("user_id=jeff") == (first == "lasting" ? 1 : 0))
            _ = await service.post("/v1/users/A/logout" + query)
            _ = await service.post("/v1/users/A/identify" + query, #"{"identity":"bob"}"#)
            let untils = "/v1/entitlements?user_id=jeff&source=\(source)"
            let until = await service.get(untils).column("until")
            let end = first == "lasting" ? 4_002_444_800 : 4_202_444_800
            let granted = await service.post("/v3/users/A/entitlements" + query, #"{"id":"plus","expires":\#(end)}"#)
            #expect(granted.object["active"] as? Bool == true)
            // One that lasts keeps its end.
            #expect(granted.object["expires"] as? Int == (first == "lasting" ? 4_102_444_800 : end))
            #expect(await active("user_id=bob") == 1)
            if first == "lasting" { #expect(await service.get(untils).column("until") == until) }
            // A grant that lasts is taken from nobody.
            #expect(await active("user_id=jeff") == (first == "lasting" ? 1 : 0))
            #expect(await service.get("/v3/users/A/entitlements" + query).column("active") == ["1"])
            #expect(service.psql("SELECT count(*) FROM transfers") == "0")
            _ = await service.send("DELETE", "/v3/users/A/entitlements/plus" + query)
            #expect(await active("user_id=bob") == 0)
            #expect(await active("user_id=jeff") == 0)
            #expect(await service.get("/v3/users/A/entitlements" + query).column("active") == ["0"])
        }
    }

    @Test("Where the app is named, what the same install bought in another app is not answered")
    func appsApart() async throws {
        try await TestService.run { service in
            await service.record(
                .stating(of: .anonymous("A"), purchase: "p1", product: "gold", app: "one"),
                .stating(of: .anonymous("A"), purchase: "p2", product: "silver", app: "two"))
            for (app, product) in [("one", "gold"), ("two", "silver")] {
                let list = await service.get("/v3/users/A/entitlements?source=shop&app=\(app)")
                #expect(list.column("id") == [product])
            }
            #expect(await service.get("/v1/entitlements?install=A&source=shop").data.count == 2)
        }
    }

    @Test("A grant that cannot be understood")
    func invalidGrants() async throws {
        try await TestService.run { service in
            _ = await service.post("/v3/users/A")
            for body in [
                "", "{}", #"{"id":"plus"}"#, #"{"expires":4102444800}"#, #"{"id":"","expires":4102444800}"#,
                #"{"id":7,"expires":4102444800}"#, #"{"id":"plus","expires":"soon"}"#, #"{"id":"plus","expires":1.5}"#,
                #"{"id":"plus","expires":1704067200}"#, #"{"id":"plus","expires":-9223372036854775808}"#,
                #"{"id":"plus","expires":9223372036854775807}"#,
            ] {
                let reply = await service.post("/v3/users/A/entitlements", body)
                #expect(reply.status == 400 && reply.errorCode == "invalid_entitlement_data", "\(body)")
            }
        }
    }

    @Test("Bought entitlements in version 3's words, each id once")
    func bought() async throws {
        try await TestService.run { service in
            let install = Holder.anonymous("A")
            func event(
                _ purchase: String, _ product: String, _ status: String?, _ offer: String, isOneTime: Bool = false,
                until: Timestamp? = farAway, kind: Fact.Kind = .gain, at time: Timestamp = at(0)
            ) -> Event {
                .stating(
                    of: install, kind: kind, at: time, purchase: purchase, product: product, source: "shared",
                    until: until, status: status, offerType: offer, isOneTime: isOneTime)
            }
            await service.record(
                event("p1", "trial", "AUTO_RENEWING", "FREE_TRIAL"),
                event("p2", "intro", "IN_GRACE_PERIOD", "INTRO_OFFER"),
                event("p3", "plain", "AUTO_RENEWING_CANCELED", "NONE"),
                event("p4", "themes", nil, "NONE", isOneTime: true, until: nil),
                event("p5", "plain", "DEACTIVATED", "NONE", until: at(5), kind: .loss),
                event("p6", "lost", "AUTO_RENEWING", "NONE", at: at(-1)),
                event("p6", "lost", "AUTO_RENEWING", "NONE", kind: .loss),
                event("p7", "unpaid", "IN_GRACE_PERIOD", "NONE", at: at(-1)),
                event("p7", "unpaid", "IN_GRACE_PERIOD", "NONE", kind: .loss))
            let list = await service.get("/v3/users/A/entitlements").data
            let words = list.map { entry -> String in
                let product = entry["product"] as? [String: Any]
                let subscription = product?["subscription"] as? [String: String]
                return "\(entry["id"] ?? "") \(entry["active"] ?? "") \(entry["source"] ?? "") "
                    + "\(subscription?["renew_state"] ?? "-") \(subscription?["current_period_type"] ?? "-")"
            }
            #expect(
                words.sorted() == [
                    "intro 1 appstore billing_issue intro", "lost 0 appstore canceled normal",
                    "plain 1 appstore canceled normal", "themes 1 appstore - -", "trial 1 appstore will_renew trial",
                    "unpaid 0 appstore canceled normal",
                ])
            #expect(list.allSatisfy { $0["started"] as? Int == 1_704_067_200 })
        }
    }
}
