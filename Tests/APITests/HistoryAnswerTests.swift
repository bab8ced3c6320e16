import Testing
import Vocabulary

@testable import API

/// Oracle: what was recorded, in the order of its arrival.
@Suite("History, transfers and identities over the API", .serialized)
struct HistoryAnswerTests {
    private static let device = Holder.anonymous("device")
    private static let jeff = Holder.user("jeff")

    /// A login: the device's subscription passes to jeff.
    private func login(_ service: TestService, purchase: String = "p1", at seconds: Int64 = 0) async {
        await service.record(
            .stating(of: Self.device, at: at(seconds), purchase: purchase),
            .stating("DEACTIVATE", of: Self.device, kind: .loss, at: at(seconds + 10), purchase: purchase),
            .stating(of: Self.jeff, at: at(seconds + 10), purchase: purchase))
    }

    @Test("A holder's events, newest first, and the transfers from and to it")
    func history() async throws {
        try await TestService.run { service in
            await login(service)
            let old = await service.get("/v1/history?anonymous_user_id=device")
            // The event that moved its purchase away is jeff's, and belongs to the device's history, too.
            #expect(old.column("holder") == ["user_id:jeff", "anonymous_user_id:device", "anonymous_user_id:device"])
            #expect(old.column("type") == ["ACTIVATE", "DEACTIVATE", "ACTIVATE"])
            #expect(old.column("occurred_at").first == "2024-01-01T00:00:10.000Z")
            #expect(old.column("purchase") == ["p1", "p1", "p1"] && old.column("store_transaction_id").first == "t-p1")
            let transfers = old.data.map { $0["transfers"] as? [[String: Any]] ?? [] }
            #expect(transfers.map(\.count) == [1, 0, 0])
            #expect(transfers[0].first?["from"] as? [String: String] == ["anonymous_user_id": "device"])
            #expect(transfers[0].first?["to"] as? [String: String] == ["user_id": "jeff"])
            let new = await service.get("/v1/history?user_id=jeff")
            #expect(new.column("type") == ["ACTIVATE"])
            #expect((new.data.first?["transfers"] as? [Any])?.count == 1)
            // As an install the device is jeff by now.
            #expect(await service.get("/v1/history?install=device").data.count == 3)
            #expect(await service.get("/v1/history?user_id=jeff&environment=SANDBOX").data.isEmpty)
            #expect(await service.get("/v1/history?user_id=jeff&source=shared").data.isEmpty)
        }
    }

    @Test("Pages of history lose nothing, with transfers between")
    func pages() async throws {
        try await TestService.run { service in
            for number in 0..<6 { await login(service, purchase: "p\(number)", at: Int64(number) * 100) }
            let whole = await service.get("/v1/history?anonymous_user_id=device").column("event_id")
            #expect(whole.count == 18)
            var collected: [String] = []
            var cursor: String? = ""
            while let place = cursor, collected.count < 100 {
                let page = await service.get(
                    "/v1/history?anonymous_user_id=device&limit=5" + (place.isEmpty ? "" : "&cursor=" + place))
                collected += page.column("event_id")
                cursor = page.next
            }
            #expect(collected == whole)
        }
    }

    @Test("Pages of history go on behind transfers whose events are gone, and behind many by one event")
    func pagesBehindTransfers() async throws {
        try await TestService.run { service in
            /// All pages of the device's history, as types.
            func collected(_ limit: Int) async -> [String] {
                var (types, cursor): ([String], String?) = ([], "")
                while let place = cursor, types.count < 100 {
                    let page = await service.get("/v1/history?anonymous_user_id=device&limit=\(limit)\(place)")
                    types += page.column("type")
                    cursor = page.next.map { "&cursor=" + $0 }
                }
                return types
            }
            for number in 0..<4 { await service.record(.stating(of: Self.device, purchase: "p\(number)")) }
            // One of jeff's moves one purchase; one of ann's moves the others at once.
            await service.record(
                .stating("DEACTIVATE", of: Self.device, kind: .loss, at: at(10), purchase: "p0"),
                .stating("GIVEN", of: Self.jeff, at: at(10), purchase: "p0"),
                .about(
                    .user("ann"), "MOVED", at: at(20),
                    change: .move(from: [Self.device], to: .user("ann"), isNative: true)))
            #expect(service.psql("SELECT count(*) FROM transfers") == "4")
            let whole = ["MOVED", "GIVEN", "DEACTIVATE"] + Array(repeating: "ACTIVATE", count: 4)
            for limit in [1, 2, 3, 100] { #expect(await collected(limit) == whole, "\(limit)") }
            // A dead letter keeps an event longer than its period.
            service.psql("DELETE FROM events WHERE type <> 'GIVEN'")
            for limit in [1, 2, 100] { #expect(await collected(limit) == ["GIVEN"], "\(limit)") }
        }
    }

    @Test("Transfers, newest first, in pages; those of another environment or source are not shown")
    func transfers() async throws {
        try await TestService.run { service in
            for number in 0..<5 { await login(service, purchase: "p\(number)", at: Int64(number) * 100) }
            let whole = await service.get("/v1/transfers?user_id=jeff")
            #expect(whole.column("purchase") == ["p4", "p3", "p2", "p1", "p0"])
            #expect(whole.column("from") == Array(repeating: "anonymous_user_id:device", count: 5))
            #expect(whole.column("id").allSatisfy { $0.hasPrefix("trf_") && $0.count == 36 })
            #expect(whole.column("event_id") == (await service.get("/v1/history?user_id=jeff").column("event_id")))
            let first = await service.get("/v1/transfers?anonymous_user_id=device&limit=3")
            let rest = await service.get(
                "/v1/transfers?anonymous_user_id=device&limit=3&cursor=" + (first.next ?? "none"))
            #expect(first.column("id") + rest.column("id") == whole.column("id") && rest.next == nil)
            #expect(await service.get("/v1/transfers?user_id=jeff&environment=SANDBOX").data.isEmpty)
            #expect(await service.get("/v1/transfers?user_id=jeff&source=shared").data.isEmpty)
            // The event may be gone; the transfer stays.
            service.psql("DELETE FROM events")
            let bare = await service.get("/v1/transfers?user_id=jeff")
            #expect(bare.data.count == 5 && bare.column("event_id").allSatisfy { $0 == "-" })
        }
    }

    @Test("Links by user and by anonymous id; an ended one is not active, a logged-out one is nobody's")
    func identities() async throws {
        try await TestService.run { service in
            for (number, device) in ["a", "b", "c"].enumerated() {
                await service.record(
                    .about(
                        .anonymous(device), at: at(Int64(number)),
                        links: [
                            HolderLink(anonymousID: device, userID: "jeff", until: device == "b" ? at(1_000) : nil)
                        ]))
            }
            let ofUser = await service.get("/v1/identities?user_id=jeff")
            #expect(
                ofUser.column("anonymous_user_id") == ["c", "b", "a"] && ofUser.column("active") == ["1", "0", "1"])
            #expect(ofUser.column("until") == ["-", "2024-01-01T00:16:40.000Z", "-"])
            #expect(ofUser.column("as_of").first == "2024-01-01T00:00:02.000Z")
            let page = await service.get("/v1/identities?user_id=jeff&limit=2")
            let rest = await service.get("/v1/identities?user_id=jeff&limit=2&cursor=" + (page.next ?? "none"))
            #expect(page.column("anonymous_user_id") == ["c", "b"] && rest.column("anonymous_user_id") == ["a"])
            await service.record(
                .about(.anonymous("a"), "LOGGED_OUT", at: at(50), links: [HolderLink(anonymousID: "a", userID: nil)]))
            let loggedOut = await service.get("/v1/identities?anonymous_user_id=a")
            #expect(loggedOut.column("user_id") == ["-"] && loggedOut.column("active") == ["0"])
            #expect(await service.get("/v1/identities?user_id=jeff").column("anonymous_user_id") == ["c", "b"])
            #expect(await service.get("/v1/identities?install=a").status == 400)
        }
    }
}
