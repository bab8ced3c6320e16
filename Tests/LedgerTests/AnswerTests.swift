import JSONText
import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, and the answers written out by hand.
@Suite("What a store's API answered, and what is known of its tokens", .serialized)
struct AnswerTests {
    private static let answer = Array(#"{"status":200,"account":"jeff-9f3c"}"#.utf8)
    private static let tokens = (1...3).map { Identifier(high: 7, low: $0) }

    private static func known(
        _ token: Identifier, first: String = "first.1", environment: String? = nil, isReplaced: Bool = false
    ) -> KnownToken {
        KnownToken(token: token, first: first, environment: environment, isReplaced: isReplaced)
    }

    /// An event that was asked about at `asOf`.
    private static func event(
        _ id: String, at: Timestamp = seconds(0), asOf: Timestamp = seconds(100), holder: Holder = user,
        environment: String = "PRODUCTION", product: String = "gold", status: String? = nil,
        purchase: String = "first.1", answer: [UInt8]? = Self.answer, tokens: [KnownToken] = [], body: String = "{}",
        repeated: String? = nil
    ) -> Event {
        Event(
            scope: Scope(source: "shop", app: "app.one", environment: environment), vendorEventID: id, name: "RENEWED",
            type: "RENEWED", holder: holder, occurredAt: at, isTimeRepeated: true, asOf: asOf, isIDOfSource: true,
            purchase: Purchase(
                key: purchase, kind: .subscription, store: "GOOGLE_PLAY_STORE", product: product, plan: nil,
                subscriptionID: nil),
            transaction: Transaction(
                storeTransactionID: "tx_1", storeOriginalTransactionID: "tx_1", purchasedAt: nil,
                effectiveNextRenewalAt: nil, offerType: nil, status: status),
            facts: [.activate(holder, asOf)], answer: answer, tokens: tokens,
            repeated: repeated.map { Array($0.utf8) }, body: Array(body.utf8))
    }

    private static func lookup(
        _ daemon: Daemon, _ id: String, at: Timestamp = seconds(0), token: Identifier = tokens[0]
    ) async throws -> TokenLookup.Answer {
        let subject = TokenLookup.Subject(source: "shop", eventID: id, occurredAt: at, token: token)
        return try await TokenLookup(pool: daemon.pool).find(subject)
    }

    @Test("The answer lies beside the body; an event without one has none", arguments: [1, 1_000])
    func stored(_ copiedEventsMin: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(copiedEventsMin: copiedEventsMin)
            await daemon.record([Self.event("m1"), Self.event("m2", answer: nil)])
            #expect(
                try ledger.psql("SELECT vendor_event_id, convert_from(answer, 'UTF8') FROM events ORDER BY id")
                    == #"m1|{"status":200,"account":"jeff-9f3c"}"# + "\nm2|")
        }
    }

    @Test("The id is unique in its source: what comes again is a duplicate, whatever its environment seems to be")
    func eventKey() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            #expect(try await !Self.lookup(daemon, "m1").isRecorded)
            await daemon.record([Self.event("m1", environment: "SANDBOX")])
            await daemon.record([Self.event("m1", answer: nil)])
            #expect(try ledger.psql("SELECT environment, answer IS NULL FROM events") == "SANDBOX|f")
            let again = try await Self.lookup(daemon, "m1")
            #expect(again.isRecorded && again.known == nil)
            #expect(try await !Self.lookup(daemon, "m2").isRecorded)
            let other = TokenLookup.Subject(
                source: "kiosk", eventID: "m1", occurredAt: seconds(0), token: Self.tokens[0])
            #expect(try await !TokenLookup(pool: daemon.pool).find(other).isRecorded)
            let found = try await daemon.pool.withSession { session throws(DatabaseError) in
                try EventHandle(.event, "m1").find(limit: 10, on: session)
            }
            #expect(found?.rows.count == 1, "support looks it up by the vendor's id")
        }
    }

    @Test("It is known by either form of its key")
    func olderForm() async throws {
        try await TestLedger.run { ledger in
            try ledger.writeWithoutTimedKeys()
            let daemon = try await ledger.daemon()
            await daemon.record([Self.event("m1")])
            #expect(try await Self.lookup(daemon, "m1").isRecorded)
        }
    }

    @Test("The time of a look-up is the database's")
    func time() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let before = try #require(Int64(try ledger.psql(Self.now)))
            let now = try await Self.lookup(daemon, "m1").now.milliseconds
            let after = try #require(Int64(try ledger.psql(Self.now)))
            #expect(before <= now && now <= after)
        }
    }

    private static let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"

    @Test("What is written first of a token holds, and what was not known may be added")
    func tokenRows() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let (a, b) = (Self.tokens[0], Self.tokens[1])
            let first = await daemon.record([
                Self.event("m1", tokens: [Self.known(a), Self.known(b, isReplaced: true)]),
                Self.event("m2", tokens: [Self.known(a, environment: "SANDBOX")]),
            ])
            #expect(first == [.stored, .stored])
            #expect(try await Self.lookup(daemon, "m3").known == Self.known(a, environment: "SANDBOX"))
            let foreign = await daemon.record([
                Self.event("m3", tokens: [Self.known(a, first: "second.2", environment: "SANDBOX")]),
                Self.event("m4", tokens: [Self.known(a, environment: "PRODUCTION")]),
            ])
            #expect(foreign == [.conditionFailed, .conditionFailed], "it belongs to another purchase, or environment")
            let later = await daemon.record([
                Self.event(
                    "m3",
                    tokens: [
                        Self.known(b, environment: "PRODUCTION", isReplaced: true),
                        Self.known(a, environment: "SANDBOX", isReplaced: true),
                    ])
            ])
            #expect(later == [.stored])
            let lookup = TokenLookup(pool: daemon.pool)
            #expect(
                try await lookup.find(a, of: "shop") == Self.known(a, environment: "SANDBOX", isReplaced: true))
            #expect(
                try await lookup.find(b, of: "shop") == Self.known(b, environment: "PRODUCTION", isReplaced: true))
            #expect(try await lookup.find(Self.tokens[2], of: "shop") == nil)
            #expect(try await lookup.find(a, of: "kiosk") == nil)
            #expect(try ledger.psql("SELECT count(*) FROM events") == "3")
        }
    }

    @Test("What was read of a token before another took its place is refused, in either order", arguments: [1, 1_000])
    func replacedMeanwhile(_ copiedEventsMin: Int) async throws {
        let (a, b) = (Self.tokens[0], Self.tokens[1])
        let upgrade = Self.event("b", asOf: seconds(100), tokens: [Self.known(b), Self.known(a, isReplaced: true)])
        let end = Self.event("a", asOf: seconds(101), tokens: [Self.known(a)])
        let again = Self.event("b", asOf: seconds(102), tokens: [Self.known(b), Self.known(a, isReplaced: true)])
        let empty = Self.event("a", asOf: seconds(102), tokens: [Self.known(a, isReplaced: true)])
        for isApart in [true, false] {
            try await TestLedger.run { ledger in
                let daemon = try await ledger.daemon(copiedEventsMin: copiedEventsMin)
                func record(_ events: [Event]) async -> [RecordQueue.Answer] {
                    guard isApart else { return await daemon.record(events) }
                    var answers: [RecordQueue.Answer] = []
                    for event in events { answers += await daemon.record([event]) }
                    return answers
                }
                #expect(await record([upgrade, end]) == [.stored, .conditionFailed])
                #expect(try ledger.psql("SELECT vendor_event_id FROM events") == "b")
                #expect(await record([empty]) == [.stored], "it is told that it is replaced")
            }
            try await TestLedger.run { ledger in
                let daemon = try await ledger.daemon(copiedEventsMin: copiedEventsMin)
                _ = await daemon.record([end])
                #expect(await daemon.record([upgrade]) == [.conditionFailed], "its answer is older than the end")
                #expect(try ledger.psql("SELECT count(*) FROM purchase_tokens WHERE is_replaced") == "0")
                #expect(await daemon.record([again]) == [.stored])
                #expect(try ledger.psql("SELECT count(*) FROM purchase_tokens WHERE is_replaced") == "1")
            }
        }
    }

    @Test("What is asked next is asked later than everything that is known of the purchase")
    func laterThanKnown() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let future = Timestamp(milliseconds: 4_102_444_800_000)
            await daemon.record([Self.event("m1", asOf: future, tokens: [Self.known(Self.tokens[0])])])
            #expect(try await Self.lookup(daemon, "m2").now == future.advanced(byMilliseconds: 1))
            #expect(try await Self.lookup(daemon, "m2", token: Self.tokens[1]).now < future)
        }
    }

    @Test("A webhook that comes again with another count of tries is no other webhook")
    func repeated() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([Self.event("m1", body: #"{"try":1}"#, repeated: "same")])
            await daemon.record([Self.event("m1", body: #"{"try":2}"#, repeated: "same")])
            #expect(try ledger.psql("SELECT count(*) FROM identities WHERE differs") == "0")
            await daemon.record([Self.event("m1", body: #"{"try":2}"#, repeated: "other")])
            #expect(try ledger.psql("SELECT count(*) FROM identities WHERE differs") == "1")
        }
    }

    @Test("What is in quarantine with an answer that does not fit any more stays there to be read anew")
    func outdatedInQuarantine() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let (a, b) = (Self.tokens[0], Self.tokens[1])
            await daemon.record([Self.event("b", tokens: [Self.known(b), Self.known(a, isReplaced: true)])])
            await daemon.record([
                .quarantine(
                    QuarantinedBody(source: "shop", reason: "odd", body: Array("{}".utf8), answer: Self.answer))
            ])
            let id = try #require(Int64(try ledger.psql("SELECT id FROM quarantine")))
            let outcome = try await Quarantine.record(
                id, as: Self.event("a", asOf: seconds(200), tokens: [Self.known(a)]), routes: [], rules: Daemon.rules,
                in: daemon.pool)
            guard case .outdated = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "1")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "1")
        }
    }

    @Test("A duplicate teaches nothing of tokens")
    func duplicates() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([Self.event("m1")])
            await daemon.record([Self.event("m1", tokens: [Self.known(Self.tokens[0])])])
            #expect(try ledger.psql("SELECT count(*) FROM purchase_tokens") == "0")
        }
    }

    @Test("Product and transaction are as of the time at which was asked, not of the event")
    func asOf() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([Self.event("m1", at: seconds(50), asOf: seconds(100), product: "gold", status: "A")])
            await daemon.record([Self.event("m2", at: seconds(10), asOf: seconds(200), product: "plus", status: "B")])
            await daemon.record([Self.event("m3", at: seconds(90), asOf: seconds(150), product: "old", status: "C")])
            #expect(try ledger.psql("SELECT product, as_of_ms FROM purchases") == "plus|\(seconds(200).milliseconds)")
            #expect(try ledger.psql("SELECT status, as_of_ms FROM transactions") == "B|\(seconds(200).milliseconds)")
        }
    }

    @Test("Repair reads the answer with the body")
    func repaired() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([Self.event("m1"), Self.event("m2", answer: nil)])
            try ledger.psql("UPDATE purchases SET state = '\\xff'")
            let seen = Mutex<[[UInt8]?]>([])
            let repair = Repair(rules: Daemon.rules, eventsKept: .seconds(1_000_000)) { stored in
                seen.withLock { $0.append(stored.answer) }
                return ReadWebhook(Self.event(stored.vendorEventID ?? "", asOf: seconds(300), answer: stored.answer))
            }
            let id = try await Repair.page(after: nil, source: "shop", in: daemon.pool)[0]
            let report = try await repair.run(id, isDry: false, in: daemon.pool)
            #expect(report?.verdict == .rebuilt)
            #expect(seen.withLock { $0 } == [Self.answer, nil])
        }
    }

    @Test("A body in quarantine keeps the answer that it came with")
    func quarantined() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let (body, other) = (Array("body".utf8), Array("{}".utf8))
            for answer in [nil, Self.answer, nil, other] {
                await daemon.record([
                    .quarantine(QuarantinedBody(source: "shop", reason: "odd", body: body, answer: answer))
                ])
            }
            let id = try #require(Int64(try ledger.psql("SELECT id FROM quarantine")))
            #expect(try await Quarantine.body(id, in: daemon.pool)?.answer == Self.answer)
            // The state of its purchase cannot be read.
            await daemon.record([Self.event("m1")])
            try ledger.psql("UPDATE purchases SET state = '\\xff'; DELETE FROM quarantine")
            await daemon.record([Self.event("m2", body: #"{"second":true}"#)])
            #expect(try ledger.psql("SELECT encode(answer, 'hex') FROM quarantine") == Identifier.hex(of: Self.answer))
        }
    }

    @Test("Erasing a person reaches answers: others' are redacted, quarantined ones go, tokens go with the purchase")
    func erased() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let jeff = Holder.user("jeff-9f3c")
            await daemon.record([
                Self.event("m1", holder: jeff, tokens: [Self.known(Self.tokens[0])]),
                Self.event(
                    "m2", purchase: "other.2", tokens: [Self.known(Self.tokens[1], first: "other.2")]),
            ])
            await daemon.record([
                .quarantine(
                    QuarantinedBody(source: "shop", reason: "odd", body: Array("{}".utf8), answer: Self.answer))
            ])
            let erasure = try await Erasure.start(jeff, source: nil, isDry: false, in: daemon.pool)
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(
                try ledger.psql("SELECT vendor_event_id, convert_from(answer, 'UTF8') FROM events")
                    == #"m2|{"status":200,"account":"erased"}"#)
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            #expect(try ledger.psql("SELECT first FROM purchase_tokens") == "other.2")
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
        }
    }
}
