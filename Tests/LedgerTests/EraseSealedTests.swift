import Foundation
import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Bodies that only a vendor can make: nothing in them can be searched for as it is written. Oracle: Foundation's
/// Base64, which opens whatever psql finds in the tables.
@Suite("Erasing a person from sealed webhooks", .serialized)
struct EraseSealedTests {
    private static let id = "7f3a9c1e-5b2d-4e8f-9a06-c1d2e3f4a5b6"
    private static let jeff = Holder.user(id)
    private static let (ann, bob, cleo) = (Holder.user("ann"), Holder.user("bob"), Holder.user("cleo"))

    // MARK: Sealing, and opening

    private static func base64URL(_ text: String) -> String {
        Data(text.utf8).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }

    private static func signed(_ payload: String) -> String {
        [base64URL(#"{"alg":"ES256","x5c":["MIIB/+=="]}"#), base64URL(payload), base64URL("signature of some bytes")]
            .joined(separator: ".")
    }

    /// A body as Apple seals them.
    /// - Parameter next: whose token the renewal info has.
    private static func sealed(_ name: String, token: String, next: String) -> (body: String, decoded: String) {
        let (transaction, renewal) = (#"{"appAccountToken":"\#(token)"}"#, #"{"n":1,"appAccountToken":"\#(next)"}"#)
        let sealed = (signed(transaction), signed(renewal))
        let body = #"{"type":"\#(name)","transactionInfo":"\#(sealed.0)","renewalInfo":"\#(sealed.1)"}"#
        let decoded = #"{"type":"\#(name)","transactionInfo":\#(transaction),"renewalInfo":\#(renewal)}"#
        return (#"{"signedPayload":"\#(signed(body))"}"#, decoded)
    }

    private static func event(
        _ name: String, of holder: Holder, at: Int64, purchase: String, next: String? = nil, isStating: Bool = true
    ) -> Event {
        let (body, decoded) = sealed(name, token: holder.id, next: next ?? holder.id)
        let fact = Fact.activate(holder, seconds(at), until: seconds(10_000))
        return Event(
            scope: Scope(source: "sealed", app: "app.one", environment: "PRODUCTION"),
            vendorEventID: "\(name)-\(purchase)-\(at)", name: name, type: name, holder: holder, occurredAt: seconds(at),
            purchase: Purchase(
                key: purchase, kind: .subscription, store: "APPLE_APP_STORE", product: "gold", plan: nil,
                subscriptionID: nil),
            transaction: nil, facts: isStating ? [fact] : [], decoded: Array(decoded.utf8), body: Array(body.utf8))
    }

    /// Everything that is sealed in a text, and the text.
    private static func opened(_ text: String, depth: Int = 0) -> [String] {
        guard depth < 4, let pattern = try? Regex("[A-Za-z0-9_/+-]{8,}=*") else { return [text] }
        let inner = text.matches(of: pattern).flatMap { match in
            let digits = String(
                text[match.range].replacing("-", with: "+").replacing("_", with: "/").replacing("=", with: ""))
            let padded = digits + String(repeating: "=", count: (4 - digits.count % 4) % 4)
            return Data(base64Encoded: padded).map { opened(String(decoding: $0, as: UTF8.self), depth: depth + 1) }
                ?? []
        }
        return [text] + inner
    }

    /// Which columns of bytes say it, in clear or sealed.
    private func places(_ ledger: TestLedger, of id: String = EraseSealedTests.id) throws -> Set<String> {
        var places: Set<String> = []
        for place in ["events.body", "messages.envelope", "messages.derived_body", "quarantine.body"] {
            let parts = place.split(separator: ".")
            let rows = try ledger.psql(
                """
                SELECT translate(encode(\(parts[1]), 'base64'), E'\\n', '') FROM \(parts[0])
                WHERE \(parts[1]) IS NOT NULL
                """)
            for row in rows.split(separator: "\n") {
                let bytes = try #require(Data(base64Encoded: String(row)))
                let texts = Self.opened(String(decoding: bytes, as: UTF8.self))
                if texts.contains(where: { $0.lowercased().contains(id) }) { places.insert(place) }
            }
        }
        return places
    }

    private func erase(_ daemon: Daemon, _ holder: Holder = EraseSealedTests.jeff) async throws -> Erasure.Tally {
        let erasure = try await Erasure.start(holder, source: nil, isDry: false, in: daemon.pool)
        let dry = try await erasure.proof.run(in: daemon.pool) { _ in }
        let done = try await erasure.run(in: daemon.pool) { _ in }
        #expect(dry.events == done.events && dry.mentions == done.mentions && dry.quarantined == done.quarantined)
        let left = try await erasure.proof.run(in: daemon.pool) { _ in }
        #expect(left.total == 0, "\(left)")
        return done
    }

    private func body(_ ledger: TestLedger, _ name: String) throws -> String {
        try ledger.psql("SELECT convert_from(body, 'UTF8') FROM events WHERE name = '\(name)'")
    }

    // MARK: Tests

    @Test("The person's own are deleted, others' stay readable without the person, the rest stays as it was")
    func others() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let events = [
                Self.event("OWN", of: Self.jeff, at: 0, purchase: "2001"),
                Self.event("NAMING", of: Self.bob, at: 10, purchase: "2002", next: Self.id, isStating: false),
                Self.event("CAPITAL", of: Self.bob, at: 20, purchase: "2002", next: Self.id.uppercased()),
                Self.event("PLAIN", of: Self.bob, at: 30, purchase: "2002"),
            ]
            await daemon.record(events)
            let before = try places(ledger)
            #expect(before == ["events.body", "messages.envelope"])
            let plain = try body(ledger, "PLAIN")
            let done = try await erase(daemon)
            // Of each of the two others' its webhook and its message.
            #expect(done.events == 1 && done.mentions == 2 + 2 + 0)
            #expect(try places(ledger) == [])
            #expect(try ledger.psql("SELECT string_agg(name, ' ' ORDER BY id) FROM events") == "NAMING CAPITAL PLAIN")
            #expect(try body(ledger, "PLAIN") == plain)

            // What is left is a JWS that nobody has signed, around what the vendor said.
            let naming = try body(ledger, "NAMING")
            #expect(naming.hasPrefix(#"{"signedPayload":"eyJhbGciOiJub25lIn0."#) && naming.hasSuffix(#"."}"#))
            let texts = Self.opened(naming)
            #expect(texts.contains(#"{"alg":"none"}"#) && texts.contains(#"{"n":1,"appAccountToken":"erased"}"#))
            // Bob's transaction names nobody else: it is still as the vendor signed it.
            #expect(texts.contains(#"{"appAccountToken":"bob"}"#))
            #expect(texts.count { $0 == "signature of some bytes" } == 1)

            // Waiting messages are sent: those that cannot be repeated byte for byte in the standard shape.
            daemon.open("a")
            let waiting = try await daemon.claimAll("a").map(\.message)
            #expect(waiting.map(\.type) == ["NAMING"])
            let message = try #require(waiting.first)
            #expect(message.eventID == "NAMING-2002-10")
            #expect(message.original == Array(naming.utf8))
            #expect(message.derivedBody == message.envelope + message.original + Message.envelopeEnd)
            let sent = String(decoding: message.envelope, as: UTF8.self)
            #expect(sent.contains(#""renewalInfo":{"n":1,"appAccountToken":"erased"}"#), "\(sent)")
            let derived = "SELECT count(*) FROM messages WHERE derived_body IS NULL"
            #expect(try ledger.psql(derived) == "1")

            // Repeated webhooks are duplicates.
            #expect(await daemon.record(events) == Array(repeating: .stored, count: 4))
            #expect(daemon.log.recorded(duplicate: true).count == 4)
            #expect(try places(ledger) == [])
            #expect(try ledger.psql("SELECT count(*) FROM events") == "3")
        }
    }

    @Test("A derived transfer between others keeps its shape without the person")
    func derived() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            await daemon.record([
                Self.event("FIRST", of: Self.bob, at: 0, purchase: "2001"),
                Self.event("SECOND", of: Self.cleo, at: 100, purchase: "2001", next: Self.id),
            ])
            #expect(try places(ledger) == ["events.body", "messages.envelope", "messages.derived_body"])
            _ = try await erase(daemon)
            #expect(try places(ledger) == [])
            let whole = "m.derived_body = m.envelope || e.body || '}}'::bytea"
            #expect(
                try ledger.psql(
                    "SELECT m.type, \(whole) FROM messages m JOIN events e ON e.id = m.event WHERE e.name = 'SECOND' "
                        + "ORDER BY m.id")
                    == "SECOND|t\nSUBSCRIPTION_TRANSFERRED|t\nSUBSCRIPTION_RECEIVED|t")
            let active = "SELECT string_agg(holder, ' ') FROM entitlements WHERE active"
            #expect(try ledger.psql(active) == "user:cleo")
        }
    }

    @Test("In quarantine the person's are deleted and come in no more; others' stay")
    func quarantine() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            func kept(_ token: String) -> RecordQueue.Item {
                .quarantine(
                    QuarantinedBody(
                        source: "sealed", reason: "odd",
                        body: Array(Self.sealed("ODD", token: token, next: "nobody").body.utf8)))
            }
            // As Google seals: standard Base64 of JSON in JSON, and no signature.
            let data = Data(#"{"obfuscatedExternalAccountId":"\#(Self.id)"}"#.utf8).base64EncodedString()
            let pushed = RecordQueue.Item.quarantine(
                QuarantinedBody(source: "pushed", reason: "odd", body: Array(#"{"message":{"data":"\#(data)"}}"#.utf8)))
            await daemon.record([kept(Self.id), kept("ann"), pushed])
            #expect(try places(ledger) == ["quarantine.body"])
            #expect(try await erase(daemon).quarantined == 2)
            await daemon.record([kept(Self.id), kept("ann"), pushed])
            #expect(try places(ledger) == [])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "1")
            #expect(try places(ledger, of: "\"ann\"") == ["quarantine.body"])
        }
    }

    @Test("A version or a storefront of the same digits does not break a seal; nor is a certificate searched for words")
    func numbers() throws {
        let erased = [ErasedID(holder: .user("412"), standIn: .anonymous("x"))]
        let others = Self.signed(#"{"bundleVersion":"412","storefrontId":"412","appAccountToken":"bob"}"#)
        #expect(erased.redaction(of: Array(#"{"signedPayload":"\#(others)"}"#.utf8)) == nil)
        let own = Self.signed(#"{"bundleVersion":"412","appAccountToken":"412"}"#)
        let redaction = try #require(erased.redaction(of: Array(#"{"signedPayload":"\#(own)"}"#.utf8)))
        #expect(redaction.lostSignature)
        let texts = Self.opened(String(decoding: redaction.bytes, as: UTF8.self))
        #expect(texts.contains(#"{"bundleVersion":"412","appAccountToken":"erased"}"#), "\(texts)")

        // The digits stand alone between other bytes.
        let certificate: [UInt8] = [0x30, 0x82, 0x01, 0x34, 0x31, 0x32, 0x02]
        let sealed = Data(certificate).base64EncodedString()
        #expect(!erased.occur(inUnreadable: Array(#"{"x5c":["\#(sealed)"]}"#.utf8)))
        let text = Data("user=412;".utf8).base64EncodedString()
        #expect(erased.occur(inUnreadable: Array(#"{"data":"\#(text)"}"#.utf8)))
    }

    @Test("A purchase that others have keeps its name, although an erased holder had no other one")
    func sharedName() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            await daemon.record([
                Self.event("NAMELESS", of: .anonymous("20000012345"), at: 0, purchase: "20000012345"),
                Self.event("LOGIN", of: Self.jeff, at: 100, purchase: "20000012345"),
                Self.event("PASSED", of: Self.bob, at: 200, purchase: "20000012345", next: "20000012345"),
                Self.event("ALONE", of: .anonymous("20000067890"), at: 0, purchase: "20000067890"),
            ])
            let passed = try body(ledger, "PASSED")
            let done = try await erase(daemon)
            // What bob got from jeff names him.
            #expect(done.events == 2 && done.mentions == 1)
            #expect(try places(ledger) == [])
            #expect(try body(ledger, "PASSED") == passed)
            let keys = "SELECT string_agg(key, ' ' ORDER BY key) FROM purchases"
            #expect(try ledger.psql(keys) == "20000012345 20000067890")
            #expect(
                try ledger.psql("SELECT string_agg(holder, ' ' ORDER BY holder) FROM entitlements")
                    == "anon:20000067890 user:bob")
            // Where nobody else has it, its name goes with it.
            _ = try await erase(daemon, .anonymous("20000067890"))
            #expect(try places(ledger, of: "20000067890") == [])
            #expect(try ledger.psql(keys) == "20000012345")
        }
    }

    @Test("A UUID is the same person's in capital letters")
    func capitals() {
        let capital = Holder.user(Self.id.uppercased())
        #expect(ErasedID.spellings(of: Self.jeff) == [Self.jeff, capital])
        #expect(ErasedID.spellings(of: capital) == [capital, Self.jeff])
        #expect(ErasedID.spellings(of: Self.bob) == [Self.bob])
        #expect(ErasedID.spellings(of: .anonymous("12345678-1234-1234-1234-123456789012")).count == 1)
    }

    @Test("Sealed once or twice, in either alphabet, wherever it begins: the needles occur and the text is rewritten")
    func everyPlace() throws {
        for id in ["a", "é/", "jeff", Self.id, "???>>>~~~"] {
            let erased = [ErasedID(holder: .user(id), standIn: .anonymous("x"))]
            let needles = erased.sealedNeedles
            for before in 0..<6 {
                let text = #"{"x":"\#(String(repeating: "-", count: before))","u":"\#(id)"}"#
                for isURL in [false, true] {
                    func sealed(_ text: String) -> String {
                        isURL ? Self.base64URL(text) : Data(text.utf8).base64EncodedString()
                    }
                    for body in [sealed(text), sealed(#"{"in":"\#(sealed(text))"}"#)].map({ #"{"data":"\#($0)"}"# }) {
                        let bytes = Array(body.utf8)
                        #expect(needles.contains { !bytes.ranges(of: $0).isEmpty }, "\(id) \(before) \(isURL)")
                        let redaction = try #require(erased.redaction(of: bytes), "\(id) \(before) \(isURL)")
                        #expect(!redaction.lostSignature)
                        let texts = Self.opened(String(decoding: redaction.bytes, as: UTF8.self))
                        #expect(texts.contains(text.replacing("\"\(id)\"", with: "\"erased\"")), "\(texts)")
                        #expect(erased.redaction(of: redaction.bytes) == nil)
                    }
                }
            }
        }
        let other = [ErasedID(holder: .user("jeff"), standIn: .anonymous("x"))]
        let body = Self.sealed("E", token: "jeffrey", next: "xjeff").body
        #expect(other.redacted(Array(body.utf8)) == nil)
    }
}
