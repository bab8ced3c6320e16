import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL.
@Suite("The event's id in quarantine", .serialized, .timeLimit(.minutes(30)))
struct QuarantinedEventIDTests {
    @Test("A body keeps the first id that it comes with")
    func first() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let ids: [String?] = [nil, "msg-1", nil, "msg-2"]
            for id in ids {
                await daemon.record([
                    .quarantine(
                        QuarantinedBody(source: "shop", reason: "odd", body: Array("body".utf8), eventID: id))
                ])
            }
            let row = try #require(Int64(try ledger.psql("SELECT id FROM quarantine")))
            let kept = try await Quarantine.body(row, in: daemon.pool)
            #expect(kept?.eventID == "msg-1" && kept?.row.source == "shop" && kept?.body == Array("body".utf8))
        }
    }

    @Test("An event keeps its own, whatever keeps it from being recorded, and one that no text column takes, too")
    func ofEvents() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.sample("A", purchase: "subs_1")])
            try ledger.psql(#"UPDATE purchases SET state = '\xff'"#)
            await daemon.record([.sample("B", purchase: "subs_1", vendorEventID: "msg-1", body: "unreadable state")])
            await daemon.record([.sample("C", purchase: "subs_2", vendorEventID: "msg\02", body: "refused")])
            await daemon.record([.sample("D\0", purchase: "subs_3", body: "without an id")])
            #expect(
                try ledger.psql(
                    "SELECT convert_from(body, 'UTF8'), encode(event_id, 'escape') FROM quarantine ORDER BY id")
                        == #"""
                        unreadable state|msg-1
                        refused|msg\0002
                        without an id|
                        """#)
        }
    }
}
