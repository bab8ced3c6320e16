import Foundation
import Testing
import Vocabulary

@testable import API
@testable import Ledger

/// Oracle: what was recorded, and the shape that the contract names.
@Suite("Entitlements over the API", .serialized)
struct EntitlementAnswerTests {
    @Test("Every field of one entitlement")
    func shape() async throws {
        try await TestService.run { service in
            let user = Holder.user("jeff")
            await service.record(
                .stating("SUBSCRIPTION_STARTED", of: user, at: at(0), transaction: "t0", until: at(100)),
                .stating(
                    "SUBSCRIPTION_RENEWED", of: user, at: at(100), transaction: "t1", until: farAway,
                    status: "AUTO_RENEWING"))
            let reply = await service.get("/v1/entitlements?user_id=jeff")
            #expect(reply.status == 200 && reply.headers["content-type"] == "application/json")
            let entry = try #require(reply.data.first)
            #expect(reply.data.count == 1 && reply.object.keys.sorted() == ["data", "next"])
            #expect(
                entry.keys.sorted() == [
                    "active", "app", "as_of", "cause", "environment", "expires_at", "holder", "kind", "offer_type",
                    "overdue", "plan", "product", "purchase", "source", "status", "store", "store_transaction_id",
                    "subscription_id", "until",
                ])
            #expect(entry["active"] as? Bool == true && entry["product"] as? String == "gold")
            #expect(entry["holder"] as? [String: String] == ["user_id": "jeff"])
            #expect(entry["as_of"] as? String == "2024-01-01T00:01:40.000Z")
            #expect(entry["expires_at"] as? String == "2100-01-01T00:00:00.000Z")
            #expect(entry["until"] as? String == "2100-01-01T00:00:00.000Z" && entry["overdue"] as? Bool == false)
            #expect(entry["store_transaction_id"] as? String == "t1" && entry["status"] as? String == "AUTO_RENEWING")
            #expect(entry["subscription_id"] is NSNull && entry["kind"] as? String == "subscription")
            let cause = try #require(entry["cause"] as? [String: String])
            #expect(cause["event_name"] == "SUBSCRIPTION_RENEWED" && cause["type"] == "SUBSCRIPTION_RENEWED")
            let newest = service.psql(
                "SELECT 'evt_' || replace(key::text, '-', '') FROM events ORDER BY id DESC LIMIT 1")
            #expect(cause["event_id"] == newest)
            service.psql("DELETE FROM events")
            #expect(await service.get("/v1/entitlements?user_id=jeff").data.first?["cause"] is NSNull)
        }
    }

    @Test("A transaction that the line of an import does not name has no id")
    func unnamedTransaction() async throws {
        try await TestService.run { service in
            let purchase = Purchase(
                key: "p1", kind: .subscription, store: "APPLE_APP_STORE", product: "gold", plan: nil,
                subscriptionID: nil)
            let line = ImportLine(
                scope: Scope(source: "shop", app: "", environment: "PRODUCTION"), holder: .user("jeff"), asOf: at(0),
                until: farAway, subject: .purchase(ImportLine.Stated(purchase: purchase, isActive: true)))
            await service.record(line.event)
            let held = await service.get("/v1/entitlements?user_id=jeff").data
            #expect(held.count == 1 && held.first?["store_transaction_id"] is NSNull)
            #expect(held.first?["until"] as? String == "2100-01-01T00:00:00.000Z")
            let past = await service.get("/v1/history?user_id=jeff")
            #expect(past.column("type") == ["posthouse.import"])
            #expect(past.data.first?["store_transaction_id"] is NSNull)
        }
    }

    @Test("An install sees its own and what its identity holds, each purchase once")
    func union() async throws {
        try await TestService.run { service in
            await service.record(
                .bought("own", by: "A", at: at(0)), .bought("both", by: "A", as: "u1", at: at(1)),
                .bought("theirs", by: "B", as: "u1", at: at(2)))
            func active(_ query: String) async -> [String] {
                await service.get("/v1/entitlements?" + query).column("product").sorted()
            }
            #expect(await active("install=A") == ["both", "own", "theirs"])
            #expect(await active("anonymous_user_id=A") == ["both", "own"])
            #expect(await active("user_id=u1") == ["both", "theirs"])
            #expect(await active("install=C") == [])
            #expect(await active("user_id=A") == [])
            // A session that is over, by the database's clock.
            service.psql("UPDATE holder_links SET until_ms = 1 WHERE anonymous_user_id = 'A'")
            #expect(await active("install=A") == ["both", "own"])
            service.psql("UPDATE holder_links SET until_ms = 4102444800000 WHERE anonymous_user_id = 'A'")
            #expect(await active("install=A") == ["both", "own", "theirs"])
        }
    }

    @Test("Environments, sources and apps never touch")
    func scopes() async throws {
        try await TestService.run { service in
            let (jeff, device) = (Holder.user("jeff"), Holder.anonymous("device"))
            await service.record(
                .stating(of: jeff, product: "gold"), .stating(of: jeff, product: "silver", environment: "SANDBOX"),
                .stating(of: jeff, product: "themes", source: "shared"),
                .stating(of: jeff, product: "old", source: "gone"),
                .stating(of: device, purchase: "p2", product: "own"),
                // The device is jeff in the source `shared`, and in no other.
                .about(device, source: "shared", links: [HolderLink(anonymousID: "device", userID: "jeff")]))
            func products(_ query: String, token: String = TestService.reader) async -> [String] {
                await service.get("/v1/entitlements?" + query, token: token).column("product").sorted()
            }
            #expect(await products("user_id=jeff") == ["gold", "old", "themes"])
            #expect(await products("user_id=jeff&environment=SANDBOX") == ["silver"])
            #expect(await products("user_id=jeff&source=shared") == ["themes"])
            let misspelt = await service.get("/v1/entitlements?user_id=jeff&source=nobody")
            #expect(misspelt.status == 404 && misspelt.errorCode == "source_not_configured")
            _ = service.psql("INSERT INTO source_names (name) VALUES ('nobody')")
            #expect(await products("user_id=jeff&source=nobody") == [])
            #expect(await products("user_id=jeff", token: TestService.bound) == ["gold"])
            #expect(await products("install=device") == ["own", "themes"])
            let other = await service.get("/v1/entitlements?user_id=jeff&source=shared", token: TestService.bound)
            #expect(other.status == 403 && other.errorCode == "source_forbidden")
        }
    }

    @Test("active= distinguishes what is held from what was; pages come in one order and lose nothing")
    func pages() async throws {
        try await TestService.run { service in
            let jeff = Holder.user("jeff")
            for number in 0..<25 {
                await service.record(.stating(of: jeff, at: at(0), purchase: "p\(number)", product: "x\(number)"))
                if number.isMultiple(of: 5) {
                    await service.record(
                        .stating(
                            "DEACTIVATE", of: jeff, kind: .loss, at: at(1), purchase: "p\(number)",
                            product: "x\(number)"))
                }
            }
            #expect(await service.get("/v1/entitlements?user_id=jeff&active=true").data.count == 20)
            #expect(await service.get("/v1/entitlements?user_id=jeff&active=false").data.count == 5)
            let whole = await service.get("/v1/entitlements?user_id=jeff")
            #expect(whole.data.count == 25 && whole.next == nil)
            var collected: [String] = []
            var cursor = ""
            for _ in 0..<10 {
                let page = await service.get("/v1/entitlements?user_id=jeff&limit=4" + cursor)
                collected += page.column("purchase")
                guard let next = page.next else { break }
                #expect(page.data.count == 4)
                cursor = "&cursor=" + next
            }
            #expect(collected == whole.column("purchase"))
            let exact = await service.get("/v1/entitlements?user_id=jeff&limit=25")
            #expect(exact.next == nil && exact.data.count == 25)
        }
    }

    @Test("An unchanged answer is 304 to who has it, by a tag of the body alone")
    func tags() async throws {
        try await TestService.run { service in
            await service.record(.stating(of: .user("jeff")))
            let target = "/v1/entitlements?user_id=jeff"
            let first = await service.get(target)
            let tag = try #require(first.headers["etag"])
            #expect(tag.hasPrefix("\"") && first.headers["cache-control"] == "private, no-cache")
            #expect(await service.get(target).headers["etag"] == tag)
            for known in [tag, "W/" + tag, "\"x\", \(tag)", "*"] {
                let again = await service.get(target, headers: [("if-none-match", known)])
                #expect(again.status == 304 && again.body.isEmpty && again.headers["etag"] == tag, "\(known)")
            }
            #expect(await service.get(target, headers: [("if-none-match", "\"x\"")]).status == 200)
            await service.record(.stating("DEACTIVATE", of: .user("jeff"), kind: .loss, at: at(9)))
            let changed = await service.get(target, headers: [("if-none-match", tag)])
            #expect(changed.status == 200 && changed.headers["etag"] != tag)
        }
    }
}
