import Testing
import Vocabulary

@testable import Ledger

/// Oracle: the fixed digests were made with Python's hashlib over the same parts, each behind its length in four bytes.
/// They must never change: a replayed webhook has to find its event key, and a receiver its `webhook-id`.
@Suite("Identities")
struct KeyHashTests {
    private let event = Event.sample()

    @Test("Fixed digests")
    func fixed() throws {
        let purchase = try #require(event.purchase)
        let id = KeyHash.purchase(purchase, in: event.scope)
        let transfer = KeyHash.transfer(purchase: id, from: anonymous, to: user, ordinal: 2)
        #expect(KeyHash.eventHash(event).hex == "19052f658f5281ecaf9538e6168aeb24")
        #expect(KeyHash.eventHash(.sample(vendorEventID: "e-é")).hex == "78540d75f3942ff84d56c654b5e2d2f4")
        #expect(id.hex == "15256272efad59d3faa88b8533cd384b")
        #expect(transfer.hex == "43b15389d5fb7f365195a63ce1f7d712")
        #expect(KeyHash.message(passingOn: KeyHash.eventHash(event)).hex == "33239d3ac875efdf72cc4ab8c28e0d2a")
        #expect(
            KeyHash.message(ofTransfer: transfer, type: "SUBSCRIPTION_RECEIVED").hex
                == "446a2ef39515fb85269da3d659be7c1d")
        #expect(KeyHash.body(Array("abc".utf8)).hex == "ba7816bf8f01cfea414140de5dae2223")
    }

    @Test("Everything that distinguishes two events is in the event key, and nothing else")
    func parts() {
        let others: [Event] = [
            .sample("OTHER"), .sample(holder: otherUser), .sample(holder: .anonymous("jeff")), .sample(at: seconds(1)),
            .sample(purchase: "subs_2"), .sample(purchase: nil), .sample(transaction: "tx_2"),
            .sample(transaction: nil), .sample(vendorEventID: "e1"), .sample(vendorEventID: ""),
            .sample(source: "kiosk"),
            .sample(app: "app.two"), .sample(environment: "SANDBOX"),
        ]
        #expect(Set(([event] + others).map { KeyHash.event($0) }).count == others.count + 1)
        for same in [Event.sample(status: "x"), .sample(product: nil), .sample(body: "other")] {
            #expect(KeyHash.event(same) == KeyHash.event(event))
        }
        // With an id of the vendor's own that id alone decides, inside its scope.
        #expect(
            KeyHash.event(.sample(vendorEventID: "e1")) == KeyHash.event(.sample("OTHER", vendorEventID: "e1")))
        #expect(
            KeyHash.event(.sample(vendorEventID: "e1")) != KeyHash.event(.sample(vendorEventID: "e1", app: "app.two"))
        )
    }

    @Test("An event key begins with the event's time where each webhook of the event has that time")
    func byTime() {
        let (time, hash) = (Timestamp(milliseconds: 0x12_3456 << 20 + 5), "19052f658f5281ecaf9538e6")
        let steps = [
            (time, "00123456"), (Timestamp(milliseconds: 0x12_3457 << 20 - 1), "00123456"),
            (Timestamp(milliseconds: 0x12_3457 << 20), "00123457"), (Timestamp(milliseconds: -1), "00000000"),
            (Timestamp(milliseconds: .min), "00000000"), (Timestamp(milliseconds: .max), "003fffff"),
        ]
        for (time, step) in steps {
            #expect(KeyHash.eventHash(event).behind(time).hex == step + hash)
        }
        // Without an id of the vendor's own the time is part of the hash.
        let unnamed = Event.sample(at: time)
        #expect(KeyHash.event(unnamed) == KeyHash.eventHash(unnamed).behind(time))
        let named = Event.sample(at: time, vendorEventID: "e1")
        #expect(KeyHash.event(named) == KeyHash.eventHash(named))
        let repeated = Event.sample(at: time, vendorEventID: "e1", isTimeRepeated: true)
        #expect(KeyHash.event(repeated) == KeyHash.eventHash(named).behind(time))
    }

    @Test("A part cannot run into the next one")
    func lengths() {
        let left = Event.sample(source: "shop", app: "xapp")
        let right = Event.sample(source: "shopx", app: "app")
        #expect(KeyHash.event(left) != KeyHash.event(right))
    }

    @Test("Written forms fit 36 characters and are read back")
    func written() {
        let id = Identifier(high: 1, low: .max)
        for text in [id.messageID, id.transferID, id.eventID] {
            #expect(text.utf8.count == 36 && Identifier(written: text) == id)
        }
        #expect(Identifier(written: id.hex) == id)
        #expect(Identifier(written: "foo_" + id.hex) == nil && Identifier(written: "msg_12") == nil)
    }
}
