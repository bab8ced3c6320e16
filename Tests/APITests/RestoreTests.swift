import Ledger
import Testing
import Vocabulary

@testable import API

/// Oracle: what posthouse-api(7) says of a restore, by what the look-ups answer after it, and psql.
@Suite("Restores where a purchase has one holder", .serialized)
struct RestoreTests {
    private func restore(_ service: TestService, _ install: String, _ transaction: String) async -> [String] {
        let target = "/v1/users/\(install)/restore?source=shop&app="
        let reply = await service.post(target, #"{"transactions":["\#(transaction)"]}"#)
        #expect(reply.status == 200)
        return reply.column("purchase").sorted()
    }

    private func sees(_ service: TestService, _ install: String) async -> [String] {
        await service.get("/v1/entitlements?active=true&install=" + install).column("purchase").sorted()
    }

    private func login(_ install: String, _ user: String) -> Event {
        .about(
            .anonymous(install), "LINKED " + install, at: at(1),
            links: [HolderLink(anonymousID: install, userID: user)])
    }

    @Test("The install that it takes a purchase from loses that purchase, and keeps all else and who is logged in")
    func formerInstall() async throws {
        try await TestService.run { service in
            await service.record(
                .stating(of: .anonymous("A"), purchase: "p1"), .stating(of: .user("bob"), purchase: "p2"),
                .stating(of: .anonymous("A"), purchase: "p3"), .stating(of: .user("ann"), purchase: "p4"),
                .stating(of: .anonymous("C"), purchase: "p5"), login("B", "bob"), login("C", "ann"))
            #expect(await restore(service, "B", "t-p1") == ["p1", "p2"])
            #expect(await sees(service, "A") == ["p3"])
            #expect(await restore(service, "B", "t-p5") == ["p1", "p2", "p5"])
            #expect(await sees(service, "C") == ["p4"])
            let history = await service.get("/v1/history?install=A")
            #expect(history.column("type") == ["RESTORED", "ACTIVATE", "ACTIVATE"])
            let links = "SELECT anonymous_user_id, user_id FROM holder_links ORDER BY anonymous_user_id"
            #expect(service.psql(links) == "B|bob\nC|ann")
        }
    }

    @Test("A one-time purchase of a source whose webhooks always name its holder stays, and the answer shows it")
    func oneTime() async throws {
        try await TestService.run { service in
            await service.record(.stating(of: .anonymous("A"), until: nil, isOneTime: true))
            #expect(await restore(service, "B", "t-p1") == [])
            #expect(await sees(service, "A") == ["p1"])
            #expect(service.psql("SELECT count(*) FROM transfers") == "0")
        }
    }

    @Test("A login passes on no one-time purchase of a store and nothing that a family shares, a restore after it does")
    func afterLogin() async throws {
        try await TestService.run(sources: [.named("shop", kind: .apple)]) { service in
            func having() async -> [String] {
                await service.get("/v1/entitlements?active=true&user_id=ada").column("purchase").sorted()
            }
            // Without an account token the first transaction is the holder.
            let ids = ["family", "once"]
            for id in ids {
                let bought = Event.stating(
                    of: .anonymous(id), purchase: id, transaction: id, isOneTime: id == "once")
                let unnamed = Fact(
                    kind: .gain, holder: .anonymous(id), at: at(0), until: farAway, isFamilyShared: id == "family",
                    isNamed: false)
                await service.record(
                    bought.replacing(purchase: bought.purchase, transaction: bought.transaction, facts: [unnamed]))
                let login = await service.post("/v1/users/\(id)/identify?source=shop&app=", #"{"identity":"ada"}"#)
                #expect(login.status == 200)
            }
            #expect(await having() == [])
            for id in ids { _ = await restore(service, id, id) }
            #expect(await having() == ids)
        }
    }

    @Test("What is overdue is active on the install that restores it, until the leeway has passed, and nowhere else")
    func overdue() async throws {
        try await TestService.run(sources: [.named("shop", kind: .apple)]) { service in
            let now = try #require(service.clock.now)
            for (purchase, hours) in [("p1", 1), ("p2", 25)] as [(String, Int64)] {
                let end = now.advanced(byMilliseconds: -hours * 3_600_000)
                await service.record(.stating(of: .user("bob"), purchase: purchase, until: end))
                _ = await restore(service, "B", "t-" + purchase)
                #expect(await sees(service, "B") == ["p1"])
            }
            let former = await service.get("/v1/entitlements?active=true&user_id=bob")
            #expect(former.column("purchase") == [])
        }
    }

    @Test("It comes after a purchase that is recorded already, also where the platform's clock is ahead of ours")
    func purchaseAhead() async throws {
        try await TestService.run { service in
            let now = try #require(service.clock.now)
            // Not long ahead, and yet so long that no machine is too slow for it.
            for (second, name) in [(40, "t-p1"), (50, "p2")] as [(Int64, String)] {
                let purchase = String(name.suffix(2))
                let time = now.advanced(byMilliseconds: second * 1_000)
                await service.record(.stating(of: .anonymous("A"), at: time, purchase: purchase))
                #expect(await restore(service, "B", name).contains(purchase))
            }
            #expect(await sees(service, "A") == [])
        }
    }

    @Test("A purchase as of a time far ahead does not put its restore ahead")
    func purchaseFarAhead() async throws {
        try await TestService.run { service in
            await service.record(.stating(of: .anonymous("A"), at: farAway.advanced(byMilliseconds: -1)))
            _ = await restore(service, "B", "t-p1")
            let isNow = "SELECT occurred_at_ms < 4000000000000 FROM events WHERE name = 'RESTORED'"
            #expect(service.psql(isNow) == "t")
        }
    }
}
