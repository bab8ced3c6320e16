import HTTPServer
import Ledger
import Synchronization
import Testing
import Vocabulary

@testable import API

/// Oracle: the six examples of the vendor's page on user identifiers: what each actor sees
/// after every step.
@Suite("Identify, logout, restore over the API", .serialized)
struct InstallCommandTests {
    /// An app's backend with its installs.
    private struct World {
        let service: TestService

        func sees(_ install: String) async -> String {
            let seen = await service.get("/v1/entitlements?active=true&install=" + install)
            return Set(seen.column("product")).sorted().joined()
        }

        func identity(_ id: String) async -> String {
            Set(await service.get("/v1/entitlements?active=true&user_id=" + id).column("product")).sorted().joined()
        }

        /// Answered with what the install sees now.
        func identify(_ install: String, _ identity: String) async -> String {
            await command(install, "identify", #"{"identity":"\#(identity)"}"#)
        }

        func logout(_ install: String) async -> String { await command(install, "logout", "") }

        func restore(_ install: String, _ transactions: String) async -> String {
            await command(install, "restore", #"{"transactions":[\#(transactions)]}"#)
        }

        private func command(_ install: String, _ name: String, _ body: String) async -> String {
            let reply = await service.post("/v1/users/\(install)/\(name)", body)
            #expect(reply.status == 200 && reply.headers["cache-control"] == "no-store")
            #expect(reply.data.allSatisfy { $0["active"] as? Bool == true })
            return Set(reply.column("product")).sorted().joined()
        }
    }

    @Test("1: what an install buys is its own")
    func example1() async throws {
        try await TestService.run { service in
            let world = World(service: service)
            await service.record(.bought("X", by: "B"))
            #expect(await [world.sees("A"), world.sees("B")] == ["", "X"])
            await service.record(.bought("Y", by: "A"))
            #expect(await [world.sees("A"), world.sees("B")] == ["Y", "X"])
        }
    }

    @Test("2: the first identify shares")
    func example2() async throws {
        try await TestService.run { service in
            let world = World(service: service)
            await service.record(.bought("X", by: "B"))
            #expect(await world.identify("B", "u1") == "X")
            #expect(await world.identify("A", "u1") == "X")
            #expect(await [world.sees("A"), world.sees("B"), world.identity("u1")] == ["X", "X", "X"])
        }
    }

    @Test("3 and 4: what is bought while logged in is both's; a logout ends the session alone")
    func examples3And4() async throws {
        try await TestService.run { service in
            let world = World(service: service)
            await service.record(.bought("X", by: "A"))
            #expect(await world.identify("A", "u1") == "X")
            await service.record(.bought("Y", by: "A", as: "u1", at: at(1)))
            #expect(await world.sees("A") == "XY")
            #expect(await world.identify("B", "u1") == "XY")
            #expect(await world.logout("A") == "XY")
            #expect(await world.sees("B") == "XY")
            #expect(await world.logout("B") == "")
            #expect(await world.identity("u1") == "XY")
        }
    }

    @Test("5: a later identify merges nothing")
    func example5() async throws {
        try await TestService.run { service in
            let world = World(service: service)
            await service.record(.bought("X", by: "A"))
            #expect(await world.identify("A", "u1") == "X")
            await service.record(.bought("Y", by: "B"))
            #expect(await world.sees("B") == "Y")
            #expect(await world.identify("B", "u1") == "XY")
            #expect(await world.logout("A") == "X")
            #expect(await world.logout("B") == "Y")
        }
    }

    @Test("6: a restore transfers to the install and who is logged in on it")
    func example6() async throws {
        try await TestService.run { service in
            let world = World(service: service)
            await service.record(.bought("X", by: "A", purchase: "store-account"))
            #expect(await world.identify("A", "u1") == "X")
            #expect(await world.identify("A2", "u1") == "X")
            #expect(await world.logout("A") == "X")
            #expect(await world.identify("A", "u2") == "X")
            #expect(await world.restore("A", #""t-store-account""#) == "X")
            #expect(await [world.identity("u2"), world.identity("u1"), world.sees("A2")] == ["X", "", ""])
        }
    }

    @Test("A restore by copy adds a holder; the body's strategy goes before the source's")
    func copies() async throws {
        let sources = [Source.named("shared", ownership: .installAndIdentity, restore: .copy)]
        try await TestService.run(sources: sources) { service in
            let world = World(service: service)
            await service.record(.bought("X", by: "A", purchase: "account"))
            #expect(await world.restore("B", #""t-account""#) == "X")
            #expect(await world.sees("A") == "X")
            let reply = await service.post(
                "/v1/users/C/restore", #"{"transactions":["t-account",7],"strategy":"transfer"}"#)
            #expect(reply.column("product") == ["X"])
            #expect(await [world.sees("A"), world.sees("B")] == ["", ""])
            let original = service.psql(
                "SELECT convert_from(body, 'UTF8') FROM events WHERE name = 'RESTORED' ORDER BY id DESC LIMIT 1")
            #expect(original.hasSuffix(#""install":"C","transactions":["t-account","7"],"strategy":"transfer"}"#))
        }
    }

    @Test("Where a purchase has one holder a restore by copy is refused: it would take it from the other")
    func copyOfExclusive() async throws {
        try await TestService.run { service in
            let body = #"{"transactions":["t"],"strategy":"copy"}"#
            let refused = await service.post("/v1/users/B/restore?source=shop&app=", body)
            #expect(refused.status == 400 && refused.message.contains("one holder"))
            #expect(service.psql("SELECT count(*) FROM events") == "0")
        }
    }

    @Test("A statement is an event of its own with the database's time, sent like any other")
    func events() async throws {
        try await TestService.run { service in
            for _ in 0..<3 {
                _ = await service.post("/v1/users/A/identify", #"{"identity":"u1"}"#)
                _ = await service.post("/v1/users/A/logout")
            }
            let history = await service.get("/v1/history?anonymous_user_id=A")
            #expect(
                history.column("type") == [
                    "LOGGED_OUT", "IDENTIFIED", "LOGGED_OUT", "IDENTIFIED", "LOGGED_OUT", "IDENTIFIED",
                ])
            #expect(Set(history.column("event_id")).count == 6)
            // However quick one follows another, each is later.
            let times = history.column("occurred_at")
            #expect(times == times.sorted(by: >) && Set(times).count == 6)
            let off = service.psql(
                "SELECT max(abs(extract(epoch FROM received_at) * 1000 - occurred_at_ms)) < 60000 FROM events")
            #expect(off == "t")
            #expect(service.psql("SELECT count(*) FROM messages") == "6")
        }
    }

    @Test("Bodies that cannot be understood change nothing")
    func bodies() async throws {
        try await TestService.run { service in
            let long = String(repeating: "x", count: 1_025)
            for (command, body) in [
                ("identify", ""), ("identify", "{}"), ("identify", "[]"), ("identify", #"{"identity":7}"#),
                ("identify", #"{"identity":""}"#), ("identify", #"{"identity":null}"#),
                ("identify", #"{"identity":"\#(long)"}"#), ("identify", #"{"identity":"a","identity":"b"}"#),
                ("identify", #"{"identity":"a","x":1}"#), ("identify", #"{"identity":"a\u0000"}"#),
                ("restore", "{}"), ("restore", #"{"transactions":[]}"#), ("restore", #"{"transactions":"t"}"#),
                ("restore", #"{"transactions":["t",null]}"#), ("restore", #"{"transactions":["t",["u",","]]}"#),
                ("restore", #"{"transactions":[""]}"#), ("restore", #"{"transactions":["t"],"strategy":"move"}"#),
                ("restore", #"{"transactions":["t"],"strategy":7}"#),
            ] {
                let reply = await service.post("/v1/users/A/\(command)", body)
                #expect(reply.status == 400 && reply.errorCode == "invalid_body", "\(command) \(body)")
                #expect(!reply.message.contains(long))
            }
            #expect(service.psql("SELECT count(*) FROM events") == "0")
        }
    }

    @Test("Which source a write concerns")
    func sources() async throws {
        let several = ["one", "two"].map { Source.named($0, ownership: .installAndIdentity) }
        let shop = Source.named("shop", app: "app.one")
        func write(_ service: TestService, _ query: String, token: String = TestService.writer) async -> Reply {
            await service.post("/v1/users/A/logout" + query, token: token)
        }
        try await TestService.run(sources: several + [shop]) { service in
            let ambiguous = await write(service, "")
            #expect(ambiguous.status == 400 && ambiguous.errorCode == "source_ambiguous")
            #expect(ambiguous.message.contains("one, two") && ambiguous.message.contains("source=NAME"))
            #expect(await write(service, "?source=two&environment=SANDBOX").status == 200)
            #expect(await write(service, "?source=none").errorCode == "source_not_configured")
            #expect(await write(service, "", token: TestService.bound).status == 200)
            #expect(await write(service, "?source=one", token: TestService.bound).status == 403)
            let scopes = service.psql("SELECT source, app, environment FROM events ORDER BY id")
            #expect(scopes == "two||SANDBOX\nshop|app.one|PRODUCTION")
        }
        try await TestService.run(sources: [shop]) { service in
            let none = await write(service, "")
            #expect(none.status == 404 && none.errorCode == "source_not_configured" && none.errorType == "resource")
        }
    }

    @Test("What cannot be recorded is 503 with a wait")
    func unavailable() async throws {
        try await TestService.run { service in
            service.queue.close()
            let reply = await service.post("/v1/users/A/identify", #"{"identity":"u1"}"#)
            #expect(reply.status == 503 && reply.headers["retry-after"] == "5" && reply.errorCode == "unavailable")
            #expect(service.log.refusals.contains { $0.hasPrefix("503 ") })
        }
    }

    @Test("A write that has been answered 503 because its time was over is not stored: others may have come since")
    func overdue() async throws {
        try await TestService.run { service in
            let head = IncomingHead(
                method: "POST", target: "/v1/users/A/logout",
                headers: [("authorization", "Bearer \(TestService.writer)")])
            let answer = await service.api.answer(head, body: [], age: { .seconds(9) })
            #expect(answer.status == 503)
            #expect(service.psql("SELECT count(*) FROM events") == "0")
        }
    }

    @Test("A login comes after a purchase that is recorded already, also where the platform's clock is ahead of ours")
    func purchaseAhead() async throws {
        try await TestService.run { service in
            let world = World(service: service)
            let now = try #require(service.clock.now)
            // Not long ahead, and yet so long that no machine is too slow for it.
            await service.record(.bought("X", by: "A", at: now.advanced(byMilliseconds: 45_000)))
            #expect(await world.identify("A", "u1") == "X")
            #expect(await world.identity("u1") == "X")
        }
    }

    @Test("What an install holds as of a time far ahead does not put its statements ahead")
    func purchaseFarAhead() async throws {
        try await TestService.run { service in
            await service.record(.bought("X", by: "A", at: farAway.advanced(byMilliseconds: -1)))
            #expect(await service.post("/v1/users/A/logout").status == 200)
            let isNow = "SELECT occurred_at_ms < 4000000000000 FROM events WHERE name = 'LOGGED_OUT'"
            #expect(service.psql(isNow) == "t")
        }
    }

    @Test("After the database's clock was ahead, statements are dated by it again")
    func setBack() throws {
        let isFirst = Mutex(true)
        let clock = BackendClock {
            isFirst.withLock { first in
                defer { first = false }
                return first ? at(3_600) : at(0)
            }
        }
        #expect(try clock.next() == at(3_600))
        #expect(try clock.next() == at(0))
        #expect(try clock.next() == at(0).advanced(byMilliseconds: 1))
    }

    @Test("An install whose session a source dated far ahead puts no other install's statements ahead")
    func farAhead() async throws {
        let clock = BackendClock { at(0) }
        #expect(try clock.next(after: at(1_000)) == at(1_000).advanced(byMilliseconds: 1))
        let next = try clock.next()
        #expect(next < at(1) && next > at(0))
        #expect(try clock.next(after: at(-5)) > next)
        #expect(try clock.next() < at(1))
    }
}
