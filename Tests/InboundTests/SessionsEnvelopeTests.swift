import Testing
import Vocabulary

@testable import Inbound

/// Where fields are looked for, and what is quarantined. Oracle: Domain.md, "Readable envelope".
@Suite struct SessionsEnvelopeTests {
    static let source = SessionsFixtures.source

    @Test func whatBelongsIntoDataMayStandBesideIt() throws {
        let flat = """
            {"event_name":"SESSION_LOGIN","event_created_at_ms":1700000000000,"event_id":"e-1","user_id":"u1",\
            "anonymous_user_id":"a1","expires_at_ms":1702592000000,"environment":"prod","app":"com.example"}
            """
        let event = try event(flat, from: Self.source)
        #expect(event.scope == Scope(source: "sessions", app: "com.example", environment: "PRODUCTION"))
        #expect(event.vendorEventID == "e-1")
        #expect(event.occurredAt == SessionsFixtures.at)
        #expect(event.links == [HolderLink(anonymousID: "a1", userID: "u1", until: SessionsTests.until)])
        let mixed = BodyEdit.edit(SessionsFixtures.login, [("user_id", "\"other\""), ("event_id", "\"other\"")])
        let inner = try read(mixed)
        #expect(inner.holder == .user("u1"), "data comes first")
        #expect(inner.vendorEventID == "e-1")
        let aside = BodyEdit.edit(
            BodyEdit.edit(SessionsFixtures.login, in: "data", set: [("user_id", "\"\"")]), [("user_id", "\"u9\"")])
        #expect(try read(aside).holder == .user("u9"))
    }

    private func read(_ body: String) throws -> Event { try event(body, from: Self.source) }

    @Test(
        arguments: [
            (#"{"type":"A","event_name":"B","data":{"event_name":"C","type":"D"}}"#, "A"),
            (#"{"event_name":"B","data":{"event_name":"C","type":"D"}}"#, "B"),
            (#"{"data":{"event_name":"C","type":"D"}}"#, "C"), (#"{"data":{"type":"D"}}"#, nil),
            (#"{"type":7,"event_name":"B"}"#, nil), (#"{"type":"","event_name":"B"}"#, nil),
        ] as [(String, String?)])
    func theNameIsTheEnvelopes(_ body: String, _ name: String?) throws {
        let whole = BodyEdit.edit(body, [("user_id", "\"u\""), ("timestamp", "\"2023-11-14T22:13:20Z\"")])
        if let name {
            #expect(try event(whole, from: Self.source).name == name)
        } else {
            #expect(unreadable(whole, from: Self.source)?.contains("type") == true)
        }
    }

    @Test(
        arguments: [
            ("timestamp", "\"2023-11-14T22:13:20.5+00:00\"", 1_700_000_000_500),
            ("timestamp", "1700000000", 1_700_000_000_000), ("timestamp_ms", "1700000000000", 1_700_000_000_000),
            ("occurred_at", "1700000000123", 1_700_000_000_123),
            ("event_created_at", "\"2023-11-14T22:13:20Z\"", 1_700_000_000_000),
            ("event_created_at_ms", "5", 5), ("timestamp", "\"yesterday\"", nil), ("timestamp", "1.5", nil),
            ("event_created_at_ms", "253402300800000", nil), ("time", "1700000000", nil), ("timestamp", "null", nil),
        ] as [(String, String, Int64?)])
    func theEventTime(_ key: String, _ raw: String, _ milliseconds: Int64?) throws {
        let outer = BodyEdit.edit(#"{"type":"X","data":{"user_id":"u"}}"#, [(key, raw)])
        let inner = BodyEdit.edit(#"{"type":"X","data":{"user_id":"u"}}"#, in: "data", set: [(key, raw)])
        for body in [outer, inner] {
            if let milliseconds {
                #expect(try event(body, from: Self.source).occurredAt.milliseconds == milliseconds)
            } else {
                #expect(unreadable(body, from: Self.source)?.contains("holds a time") == true)
            }
        }
    }

    @Test func exactlyOneHolderButForSessions() {
        let both: BodyEdit.Fields = [("user_id", "\"u\""), ("anonymous_id", "\"a\"")]
        for type in ["ACTIVATE", "DEACTIVATE", "SOMETHING"] {
            #expect(unreadable(SessionsFixtures.of(type, both), from: Self.source)?.hasPrefix("both user_id") == true)
        }
        for type in SessionsNames.all + ["SOMETHING"] {
            #expect(unreadable(SessionsFixtures.of(type, []), from: Self.source)?.contains("user_id") == true)
            let odd = SessionsFixtures.of(type, [("user_id", "{}")])
            #expect(unreadable(odd, from: Self.source)?.contains("user_id") == true)
        }
        for type in SessionsNames.sessions {
            #expect(unreadable(SessionsFixtures.of(type, both), from: Self.source) == nil)
        }
    }

    // MARK: The id of the event

    private static func id(_ body: String, header: String?) throws -> String? {
        try Sessions().normalise(
            Array(body.utf8), header: { $0 == "webhook-id" ? header : nil }, from: source
        ).vendorEventID
    }

    @Test func theEventsIDElseTheMessages() throws {
        let without = BodyEdit.edit(SessionsFixtures.login, in: "data", set: [("event_id", nil)])
        #expect(try Self.id(SessionsFixtures.login, header: "msg_1") == "e-1")
        #expect(try Self.id(without, header: "msg_1") == "msg_1")
        #expect(try Self.id(without, header: nil) == nil)
        #expect(try Self.id(without, header: "") == nil)
        let long = String(repeating: "m", count: Limits.identifierBytesMax + 1)
        #expect(throws: Unreadable(reason: "webhook-id is longer than 1024 bytes")) {
            try Self.id(without, header: long)
        }
    }

    // MARK: Mutations

    @Test(arguments: 1...4 as ClosedRange<UInt64>) func endsOnAnyMutation(_ seed: UInt64) {
        let samples = Sessions().knownEventNames.map { name in
            let request = SampleRequest(
                eventName: name, holder: .user("u"), storeTransactionID: "t", purchaseID: "p",
                occurredAt: SessionsFixtures.at)
            return String(decoding: Sessions().sample(request), as: UTF8.self)
        }
        var mutations = Mutations(of: samples + [SessionsFixtures.login, SessionsFixtures.purchase], seed: seed)
        let source = SessionsFixtures.source(merges: true)
        var read = 0
        for _ in 0..<2_500 {
            let bytes = mutations.next()
            do {
                let event = try Sessions().normalise(bytes, header: { _ in nil }, from: source)
                read += 1
                #expect(event.body == bytes)
                #expect(!event.name.isEmpty && event.holder?.id.isEmpty == false)
                #expect(Timestamp.writable.contains(event.occurredAt))
                #expect(event.facts.isEmpty || event.purchase != nil)
                #expect(event.links.allSatisfy { !$0.anonymousID.isEmpty && $0.userID != "" })
            } catch {
                #expect(!error.reason.isEmpty)
            }
        }
        #expect(read > 50, "the mutations hardly leave anything readable")
    }
}
