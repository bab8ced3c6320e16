import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// What is readable and what is quarantined. Oracle: Domain.md, "Readable envelope".
@Suite struct PurchaselyEnvelopeTests {
    static func reason(_ body: String) -> String? {
        do {
            _ = try event(body)
            return nil
        } catch {
            return (error as? Unreadable)?.reason
        }
    }

    @Test(arguments: [
        "", "null", "[]", "[{}]", "{}x", #"{"event_name":"ACTIVATE""#, #"{"event_name":"A","event_name":"B"}"#,
        #"{"event_name":"ACTIVATE\u0000"}"#, "{\"event_name\":\"\u{1}\"}", #"{"user_id":{"a":1,"a":2}}"#,
    ])
    func quarantinesWhatIsNotAStrictObject(_ body: String) {
        #expect(Self.reason(body)?.hasPrefix("the body is not one strict JSON object: ") == true)
    }

    @Test(arguments: [nil, "null", "\"\"", "7", "{}", "[\"ACTIVATE\"]"])
    func quarantinesWithoutAName(_ raw: String?) {
        #expect(Self.reason(body([("event_name", raw)]))?.hasPrefix("event_name ") == true)
    }

    @Test(
        arguments: [
            (nil, nil, nil), ("\"u\"", nil, .user("u")), (nil, "\"a\"", .anonymous("a")),
            ("null", "\"a\"", .anonymous("a")),
            ("\"\"", "\"a\"", .anonymous("a")), ("\"u\"", "\"\"", .user("u")), ("\"u\"", "\"a\"", nil),
            ("\"\"", "null", nil),
            ("9007199254740993", nil, .user("9007199254740993")), ("0", nil, .user("0")), ("1.5", nil, nil),
            ("{}", "\"a\"", nil), ("false", nil, nil), (#""\u00e9\"x""#, nil, .user("é\"x")),
        ] as [(String?, String?, Holder?)])
    func exactlyOneHolder(_ user: String?, _ anonymous: String?, _ holder: Holder?) throws {
        let body = body([("user_id", user), ("anonymous_user_id", anonymous)])
        if let holder {
            #expect(try event(body).holder == holder)
        } else {
            #expect(Self.reason(body)?.contains("user_id") == true)
        }
    }

    @Test(
        arguments: [
            ("1636307015225", nil, 1_636_307_015_225), (nil, "\"2021-11-07T17:43:35.225Z\"", 1_636_307_015_225),
            ("null", "\"2021-11-07T18:43:35.225+01:00\"", 1_636_307_015_225),
            ("1636307015225", "\"not read then\"", 1_636_307_015_225), ("0", nil, 0), ("-1", nil, -1),
            ("253402300799999", nil, 253_402_300_799_999), ("253402300800000", nil, nil), ("-62167219200001", nil, nil),
            (nil, nil, nil), ("null", "null", nil), (nil, "\"yesterday\"", nil), (nil, "1636307015225", nil),
            ("\"1636307015225\"", "\"2021-11-07T17:43:35.225Z\"", nil), ("1636307015225.0", nil, nil),
            ("1e12", nil, nil), ("99999999999999999999", nil, nil),
        ] as [(String?, String?, Int64?)])
    func theEventTimeIsExact(_ ms: String?, _ iso: String?, _ time: Int64?) throws {
        let body = body([("event_created_at_ms", ms), ("event_created_at", iso)])
        if let time {
            #expect(try event(body).occurredAt.milliseconds == time)
        } else {
            #expect(Self.reason(body)?.contains("event_created_at") == true)
        }
    }

    static let identifiers = [
        "event_name", "user_id", "event_id", "environment", "store_app_bundle_id", "store", "product", "plan",
        "purchase_type", "purchasely_subscription_id", "store_original_transaction_id", "store_transaction_id",
        "offer_type", "subscription_status",
    ]

    /// Counted in bytes of UTF-8 as decoded, since an index row must hold them.
    @Test(arguments: identifiers) func aTooLongIdentifierIsQuarantined(_ key: String) {
        let longest = String(repeating: "é", count: Limits.identifierBytesMax / 2)
        #expect(Self.reason(body([(key, "\"\(longest)\"")])) == nil)
        #expect(Self.reason(body([(key, "\"\(longest)x\"")])) == "\(key) is longer than 1024 bytes")
    }

    /// Nothing outside the envelope costs the event, whatever type it has.
    @Test(arguments: identifiers.dropFirst(2) + ["is_family_shared", "purchased_at_ms", "transferred_to_user_id"])
    func aWrongTypeOutsideTheEnvelopeCountsAsAbsent(_ key: String) throws {
        let absent = try event(body([(key, nil)]))
        for raw in ["null", "{}", "[1]", "true", "1.5", "\"\""] where !(key == "is_family_shared" && raw == "true") {
            let event = try event(body([(key, raw)]))
            #expect(event.scope == absent.scope)
            #expect(event.vendorEventID == absent.vendorEventID)
            #expect(event.purchase == absent.purchase)
            #expect(event.transaction == absent.transaction)
            #expect(event.facts.first == absent.facts.first)
        }
    }

    @Test func aNumberIDIsKeptDigitForDigit() throws {
        let event = try event(
            body([("store_transaction_id", "9007199254740993"), ("event_id", "12345678901234567890123")]))
        #expect(event.transaction?.storeTransactionID == "9007199254740993")
        #expect(event.vendorEventID == "12345678901234567890123")
    }

    @Test func theDepthIsBounded() {
        func nested(_ depth: Int) -> String {
            body([("x", String(repeating: "[", count: depth) + String(repeating: "]", count: depth))])
        }
        #expect(Self.reason(nested(3)) == nil)
        let deep = body([("x", "1")]).dropLast(2) + String(repeating: "[", count: 100_000)
        #expect(Self.reason(String(deep))?.contains("nested too deeply at byte ") == true)
    }

    /// What a person reads in the journal must not carry the personal data of a body.
    @Test func aReasonNeverQuotesTheBody() {
        var random = SeededGenerator(seed: 5)
        let seed = Array(body([("user_id", "\"SECRETPERSON\"")]).utf8)
        for _ in 0..<3_000 {
            var bytes = seed
            bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            do {
                _ = try Purchasely().normalise(bytes, header: { _ in nil }, from: purchaselySource())
            } catch {
                #expect(!error.reason.contains("PERSON") && !error.reason.contains("SECRET"))
            }
        }
    }

    /// Every mutated body gives an event or a reason, never a crash, and an event keeps its bytes.
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func endsOnAnyMutation(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let fragments = ["\"", "\\", "{", "}", ",", ":", "null", "\"\"", "9", "-", "e5", "\\ud800", "é", "\0", "[[[["]
        let bodies = PurchaselyFixtures.names.compactMap { PurchaselyFixtures.named[$0] }
        var read = 0
        for _ in 0..<2_500 {
            var bytes = Array(bodies.randomElement(using: &random)!.utf8)
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let at = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.insert(contentsOf: fragments.randomElement(using: &random)!.utf8, at: at)
                case 2: bytes.removeSubrange(at..<min(bytes.count - 1, at + 12))
                default: bytes.insert(contentsOf: bytes[..<min(bytes.count, 40)], at: at)
                }
            }
            do {
                let event = try Purchasely().normalise(bytes, header: { _ in nil }, from: purchaselySource())
                read += 1
                #expect(event.body == bytes)
                #expect(!event.name.isEmpty && event.holder?.id.isEmpty == false)
                #expect(Timestamp.writable.contains(event.occurredAt))
            } catch {
                #expect(!error.reason.isEmpty)
            }
        }
        #expect(read > 50, "the mutations hardly leave anything readable")
    }
}
