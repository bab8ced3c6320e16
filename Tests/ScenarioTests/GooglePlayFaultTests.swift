import Foundation
import TestSupport
import Testing
import Vocabulary

/// Google's API when it is slow, refuses, errs or talks nonsense, over HTTP with the real binary. Each question is one
/// about an end, so that an answer which is taken for one would show. Oracle: SQL, and what Google's servers
/// (`Google`) were asked.
@Suite struct GooglePlayFaultTests {
    private enum Outcome {
        /// Answered 503 and not stored: Pub/Sub sends it again.
        case again
        /// Answered 200 and kept in quarantine: a person decides.
        case kept
    }

    private struct Fault {
        let name: String
        let answer: Google.Answer
        let outcome: Outcome
        /// Not answered while anybody waits for it.
        var isHeld = false
    }

    private static func error(_ code: Int, _ reason: String) -> Google.Answer {
        (code, #"{"error":{"code":\#(code),"errors":[{"reason":"\#(reason)"}]}}"#)
    }

    private static let active = Google.state(account: "ada")

    private static let faults = [
        Fault(name: "too many", answer: error(429, "rateLimitExceeded"), outcome: .again),
        Fault(name: "broken", answer: (500, "{}"), outcome: .again),
        Fault(name: "a page of a proxy", answer: (503, "<html>503</html>"), outcome: .again),
        Fault(name: "no token", answer: error(401, "authError"), outcome: .again),
        Fault(name: "no right", answer: error(403, "permissionDenied"), outcome: .again),
        Fault(name: "nowhere", answer: (404, "not found"), outcome: .again),
        Fault(name: "unknown app", answer: error(404, "applicationNotFound"), outcome: .again),
        Fault(name: "slow", answer: active, outcome: .again, isHeld: true),
        Fault(name: "garbage", answer: (200, "\u{0}\u{1}garbage"), outcome: .kept),
        Fault(name: "no object", answer: (200, "[]"), outcome: .kept),
        Fault(name: "nothing", answer: (200, ""), outcome: .kept),
        Fault(name: "without a state", answer: (200, "{}"), outcome: .kept),
        Fault(name: "cut short", answer: (200, String(active.body.dropLast())), outcome: .kept),
        Fault(name: "too long", answer: (200, String(repeating: " ", count: 70_000) + active.body), outcome: .kept),
        Fault(name: "another 400", answer: error(400, "badRequest"), outcome: .kept),
        Fault(name: "moved", answer: (302, "{}"), outcome: .kept),
    ]

    private static func token(_ name: String) -> String {
        "token-\(name)-" + String(repeating: "0123456789", count: 14)
    }

    @Test("By no fault of Google's API is a webhook lost or access: what is not stored is sent again, nonsense is kept")
    func faults() throws {
        let google = try Google()
        let relay = try Relay([])
        defer { relay.end() }
        let source = try google.source(in: relay.directory)
        var other = source
        other.name = "other"
        try relay.configure([], sources: [source, other])
        try relay.start()
        let database = try relay.database
        let authorization = try Google.authorization()
        func push(_ type: Int, _ name: String, id: String) throws -> Int {
            try relay.post("play", authorization, Google.push(type, Self.token(name), id: id))
        }
        func pushOnce(_ type: Int, _ name: String, id: String) throws -> Int {
            try relay.postOnce("play", authorization, Google.push(type, Self.token(name), id: id))
        }
        let names = Self.faults.indices.map { "f\($0)" } + ["probe"]
        for name in names { google.know(Self.token(name), Self.active) }
        // The keys of Google's tokens are fetched in the background.
        for name in names { #expect(try eventually(within: 180) { try push(4, name, id: "bought-\(name)") == 200 }) }
        func having() throws -> Int { try database.count("entitlements", where: "active AND holder = 'user:ada'") }
        #expect(try having() == names.count)

        for (index, fault) in Self.faults.enumerated() {
            let name = names[index]
            google.know(Self.token(name), fault.answer)
            if fault.isHeld { google.hold(Self.token(name)) }
            defer { google.release(Self.token(name)) }
            let asked = google.asked.count
            var status = 0
            // On a busy machine it may be answered 503 for want of time, before anything is asked.
            let isAsked = try eventually {
                status = try pushOnce(13, name, id: "end-\(name)")
                return google.asked.count > asked && (status != 503 || fault.outcome == .again)
            }
            #expect(isAsked && status == (fault.outcome == .again ? 503 : 200), "\(fault.name): \(status)")
            #expect(try having() == names.count, "\(fault.name)")
            // Failures in a row are counted: after one that is none, the API is asked again.
            #expect(try eventually { try push(2, "probe", id: "probe-\(index)") == 200 })
        }
        let kept = Self.faults.count { $0.outcome == .kept }
        #expect(try database.count("quarantine") == kept)
        #expect(try database.count("events", where: "vendor_event_id LIKE 'end-%'") == 0)

        // Google works again. Of every other purchase it says now that it has ended.
        let over = Google.state("EXPIRED", account: "ada", until: "2026-01-01T00:00:00Z")
        for (index, name) in names.enumerated() {
            google.know(Self.token(name), index.isMultiple(of: 2) ? Self.active : over)
        }
        for (index, fault) in Self.faults.enumerated() where fault.outcome == .again {
            #expect(try push(13, names[index], id: "end-\(names[index])") == 200, "\(fault.name)")
        }
        let retried = try relay.json("quarantine", "retry", "--all")
        let results = (retried["retried"] as? [[String: Any]] ?? []).map { $0["result"] as? String }
        #expect(results == Array(repeating: "recorded", count: kept), "\(retried)")
        #expect(try database.count("quarantine") == 0)
        #expect(try database.count("events", where: "vendor_event_id LIKE 'end-%'") == Self.faults.count)
        let access = try database.access()
        for (index, name) in names.dropLast().enumerated() {
            let holders = access[Google.name(of: Self.token(name))] ?? [:]
            #expect(holders.filter(\.value).keys.sorted() == (index.isMultiple(of: 2) ? ["user:ada"] : []), "\(name)")
        }
        try Self.checkBacklog(relay, google, authorization)
    }

    /// More questions of the source play than it has connections, none of which Google answers, leave the source other
    /// its own.
    private static func checkBacklog(_ relay: Relay, _ google: Google, _ authorization: [(String, String)]) throws {
        for name in ["held", "free"] { google.know(token(name), active) }
        var isAnswered = false
        // A machine that is too busy to answer the other source within its time does it another time.
        for round in 0..<5 where !isAnswered {
            for source in ["play", "other"] {
                let body = Google.push(2, token("free"), id: "before-\(round)")
                #expect(try relay.post(source, authorization, body) == 200)
            }
            google.hold(token("held"))
            defer { google.release(token("held")) }
            let asked = google.asked.count
            let ended = Monitor(0)
            for number in 0..<20 {
                let body = Google.push(2, token("held"), id: "held-\(round)-\(number)")
                Thread.detachNewThread {
                    _ = try? relay.postOnce("play", authorization, body)
                    ended.change { $0 += 1 }
                }
            }
            _ = eventually { google.asked.count >= asked + 16 || ended.current > 0 }
            let body = Google.push(2, token("free"), id: "free-\(round)")
            let status = try relay.postOnce("other", authorization, body)
            isAnswered = status == 200 && ended.current == 0
            google.release(token("held"))
            #expect(ended.wait(180) { $0 == 20 })
        }
        #expect(isAnswered)
    }

    @Test("Look-ups of webhooks and of the API that the database does not answer leave a connection to other webhooks")
    func lookupsHeld() throws {
        let google = try Google()
        // For as long as this test: no look-up ends by itself.
        let relay = try Relay([], connections: 2, databaseSettings: ["statement_timeout": #""3600s""#])
        defer { relay.end() }
        try relay.configure([], sources: [try google.source(asksAPI: false, in: relay.directory), .init()])
        try relay.start()
        let database = try relay.database
        let authorization = try Google.authorization()
        // The keys of Google's tokens are fetched in the background.
        let first = Google.push(4, Self.token("held"), id: "first")
        #expect(try eventually(within: 180) { try relay.post("play", authorization, first) == 200 })
        let holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c",
            "BEGIN; LOCK TABLE purchase_tokens, transfers IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(3600)",
        ])
        defer { holder.signal(SIGKILL) }
        let tables = "('purchase_tokens'::regclass, 'transfers'::regclass)"
        let locks = "SELECT count(*) FROM pg_locks WHERE relation IN \(tables) AND "
        #expect(try eventually { try database.value(locks + "granted AND mode = 'AccessExclusiveLock'") == "2" })
        let statuses = Monitor<[Int]>([])
        onThreads(22) { number in
            let status: Int?
            if number < 20 {
                let body = Google.push(2, Self.token("held"), id: "held-\(number)")
                status = try? relay.postOnce("play", authorization, body)
            } else {
                status = try? relay.askOnce("GET", "/v1/transfers?user_id=u").status
            }
            statuses.change { $0.append(status ?? 0) }
        }
        // All of them are answered, and the first look-up still goes on.
        #expect(statuses.current == Array(repeating: 503, count: 22))
        #expect(try database.value(locks + "NOT granted AND mode = 'AccessShareLock'") == "1")
        #expect(try relay.source().post(.init("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        try database.rows(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE '%pg_sleep(3600)' AND pid <> pg_backend_pid()
            """)
        for number in 0..<20 {
            let body = Google.push(2, Self.token("held"), id: "held-\(number)")
            #expect(try relay.post("play", authorization, body) == 200)
        }
        #expect(try database.count("events", where: "vendor_event_id LIKE 'held-%'") == 20)
    }
}
