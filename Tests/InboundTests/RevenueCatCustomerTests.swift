import Testing
import Vocabulary

@testable import Inbound

/// Holders, their links, TRANSFER and PURCHASE_REDEEMED, and what is no readable envelope. Oracle: Domain.md, "Readable
/// envelope", and RevenueCat's pages "Identifying customers" and "Event types and fields".
@Suite struct RevenueCatCustomerTests {
    static let a1 = "$RCAnonymousID:a1"
    static let a2 = "$RCAnonymousID:a2"
    static let a3 = "$RCAnonymousID:a3"

    static func texts(_ ids: [String]) -> String { "[" + ids.map { "\"\($0)\"" }.joined(separator: ", ") + "]" }

    static func reason(_ type: String, _ fields: [(String, String?)]) -> String? {
        reason(RevenueCatFixtures.event(type, fields))
    }

    static func reason(_ body: String) -> String? {
        do {
            _ = try revenueCat(body)
            return nil
        } catch {
            return (error as? Unreadable)?.reason
        }
    }

    // MARK: Holders and links

    struct Customer: Sendable {
        let id: String?
        let original: String?
        let aliases: [String]
        let holder: Holder
        /// Anonymous ids, and the user that they are.
        let linked: [String]
        let user: String?
    }

    static let customers: [Customer] = [
        Customer(id: "u", original: a1, aliases: [a2, "u"], holder: .user("u"), linked: [a1, a2], user: "u"),
        // The id last seen is the user, whatever other users the customer had.
        Customer(id: "u", original: "v", aliases: ["w", a1], holder: .user("u"), linked: [a1], user: "u"),
        // The anonymous id last seen is one of a known user.
        Customer(id: a1, original: a2, aliases: [a3, "u"], holder: .user("u"), linked: [a1, a2, a3], user: "u"),
        Customer(id: a1, original: a1, aliases: [a1, "u", "u"], holder: .user("u"), linked: [a1], user: "u"),
        // Two users: which of them the anonymous one is, nobody knows.
        Customer(id: a1, original: a1, aliases: ["u", "v"], holder: .anonymous(a1), linked: [], user: nil),
        Customer(id: a1, original: a1, aliases: [a1], holder: .anonymous(a1), linked: [], user: nil),
        Customer(id: "u", original: "u", aliases: [], holder: .user("u"), linked: [], user: nil),
        Customer(id: nil, original: "u", aliases: [a1], holder: .user("u"), linked: [], user: nil),
        Customer(id: nil, original: a1, aliases: ["u"], holder: .user("u"), linked: [a1], user: "u"),
        // Not the vendor's prefix.
        Customer(
            id: "$rcanonymousid:x", original: nil, aliases: [], holder: .user("$rcanonymousid:x"), linked: [], user: nil
        ),
    ]

    @Test(arguments: customers.indices) func anAnonymousIDIsTheUserWhereThereIsOne(_ index: Int) throws {
        let customer = Self.customers[index]
        let event = try revenueCat(
            "RENEWAL",
            [
                ("app_user_id", customer.id.map { "\"\($0)\"" }),
                ("original_app_user_id", customer.original.map { "\"\($0)\"" }),
                ("aliases", Self.texts(customer.aliases)),
            ])
        #expect(event.holder == customer.holder)
        #expect(event.links == customer.linked.map { HolderLink(anonymousID: $0, userID: customer.user) })
    }

    /// The purchase may have been the anonymous id's before it was known whose that is.
    @Test func aLossIsAlsoOneOfTheAnonymousIDs() throws {
        let ids: [(String, String?)] = [
            ("app_user_id", "\"\(Self.a1)\""), ("original_app_user_id", "\"\(Self.a1)\""),
            ("aliases", Self.texts([Self.a2, "u"])),
        ]
        let loss = try revenueCat("EXPIRATION", ids)
        #expect(loss.facts.map(\.holder) == [.user("u"), .anonymous(Self.a1)])
        #expect(loss.facts.map(\.endsAccessOnly) == [false, true] && loss.facts.allSatisfy { $0.kind == .loss })
        #expect(try revenueCat("RENEWAL", ids).facts.map(\.holder) == [.user("u")])
    }

    @Test func aTestLinksNobody() throws {
        #expect(try revenueCat("TEST", []).links.isEmpty)
        #expect(try revenueCat("SUBSCRIBER_ALIAS", []).links.count == 2)
    }

    @Test func aTestMayNameNoPurchaseAndOnlyTheFirstID() throws {
        let event = try revenueCat(
            "TEST",
            [("app_user_id", nil), ("transaction_id", "null"), ("original_transaction_id", nil), ("aliases", nil)])
        #expect(event.holder == .anonymous(RevenueCatFixtures.otherAnonymous))
        #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty)
    }

    // MARK: TRANSFER

    struct Move: Sendable {
        let from: [String]
        let to: [String]
        let losers: [Holder]
        let receiver: Holder
        let linked: [String]

        func expect(_ event: Event) {
            #expect(event.holder == receiver)
            #expect(event.change == (losers.isEmpty ? nil : .move(from: losers, to: receiver, isNative: true)))
            #expect(event.links == linked.map { HolderLink(anonymousID: $0, userID: receiver.id) })
            #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty)
        }
    }

    static let moves: [Move] = [
        Move(from: ["old"], to: ["new"], losers: [.user("old")], receiver: .user("new"), linked: []),
        Move(from: [a1], to: ["new"], losers: [.anonymous(a1)], receiver: .user("new"), linked: []),
        Move(from: ["old"], to: [a1], losers: [.user("old")], receiver: .anonymous(a1), linked: []),
        Move(
            from: [a1, "old", a1], to: [a2, "new", a3], losers: [.anonymous(a1), .user("old")], receiver: .user("new"),
            linked: [a2, a3]),
        Move(from: ["old"], to: [a2, a3], losers: [.user("old")], receiver: .anonymous(a2), linked: []),
        Move(from: ["old"], to: ["new", "newer"], losers: [.user("old")], receiver: .user("new"), linked: []),
        // On both sides: nothing of it moves.
        Move(from: ["new", "old"], to: ["new"], losers: [.user("old")], receiver: .user("new"), linked: []),
        Move(from: [a1, "old"], to: ["new", a1], losers: [.user("old")], receiver: .user("new"), linked: [a1]),
        Move(from: ["new"], to: ["new"], losers: [], receiver: .user("new"), linked: []),
    ]

    @Test(arguments: moves.indices) func aTransferMovesAllThatTheOldOnesHold(_ index: Int) throws {
        let move = Self.moves[index]
        let event = try revenueCat(
            "TRANSFER", [("transferred_from", Self.texts(move.from)), ("transferred_to", Self.texts(move.to))])
        #expect(event.name == "TRANSFER" && event.type == "TRANSFER")
        move.expect(event)
        #expect(event.vendorEventID == "0a1b2c3d-0000-4000-8000-000000000002")
    }

    @Test(
        arguments: ["transferred_from", "transferred_to"],
        [nil, "null", "[]", "[null]", "[\"\"]", "[{}]", "\"u\"", "{}"])
    func aTransferOfNobodyIsQuarantined(_ key: String, _ raw: String?) {
        #expect(Self.reason("TRANSFER", [(key, raw)]) == "event.\(key) names nobody")
    }

    // MARK: PURCHASE_REDEEMED

    /// By an alias both are one customer from then on: what only one of them has for a name is the other's, too.
    static let aliased: [Move] = [
        Move(from: ["old"], to: ["new"], losers: [.user("old")], receiver: .user("new"), linked: []),
        Move(from: [a1], to: ["new"], losers: [.anonymous(a1)], receiver: .user("new"), linked: [a1]),
        Move(from: ["old"], to: [a1], losers: [.anonymous(a1)], receiver: .user("old"), linked: [a1]),
        Move(
            from: ["old", a1], to: [a2], losers: [.anonymous(a2), .anonymous(a1)], receiver: .user("old"),
            linked: [a2, a1]),
        Move(from: [a1], to: [a2], losers: [.anonymous(a1)], receiver: .anonymous(a2), linked: []),
        Move(from: ["new"], to: ["new", a1], losers: [], receiver: .user("new"), linked: [a1]),
    ]
    static let redeemed = moves.map { ($0, "transfer") } + aliased.map { ($0, "alias") }

    @Test(arguments: redeemed.indices) func aRedemptionMovesWhatItSays(_ index: Int) throws {
        let (move, outcome) = Self.redeemed[index]
        let event = try revenueCat(
            "PURCHASE_REDEEMED",
            [
                ("redeemed_from", Self.texts(move.from)), ("redeemed_by", Self.texts(move.to)),
                ("redemption_outcome", "\"\(outcome)\""),
            ])
        #expect(event.name == "PURCHASE_REDEEMED" && event.type == "PURCHASE_REDEEMED")
        move.expect(event)
        #expect(event.vendorEventID == "0a1b2c3d-0000-4000-8000-000000000003")
    }

    @Test(arguments: ["\"redeemer_owns\"", "\"something_new\"", "7", "null", nil] as [String?])
    func anotherOutcomeMovesNothing(_ outcome: String?) throws {
        let event = try revenueCat("PURCHASE_REDEEMED", [("redemption_outcome", outcome)])
        #expect(event.change == nil && event.facts.isEmpty && event.holder == .user("user-new"))
    }

    @Test(arguments: [nil, "null", "[]"] as [String?])
    func aPurchaseThatNobodyHadIsRedeemed(_ from: String?) throws {
        let event = try revenueCat("PURCHASE_REDEEMED", [("redeemed_from", from)])
        #expect(event.change == nil && event.holder == .user("user-new"))
    }

    @Test func aRedemptionByNobodyIsQuarantined() {
        #expect(Self.reason("PURCHASE_REDEEMED", [("redeemed_by", "[]")]) == "event.redeemed_by names nobody")
    }

    // MARK: The envelope

    @Test(arguments: [
        "", "[]", "{}", #"{"event":null}"#, #"{"event":[]}"#, #"{"event":{},"event":{}}"#, #"{"event":{"type":7}}"#,
        #"{"event":{"type":""}}"#, #"{"type":"RENEWAL","app_user_id":"u","event_timestamp_ms":1}"#,
    ])
    func quarantinesWhatHasNoEvent(_ body: String) { #expect(Self.reason(body) != nil) }

    @Test(
        arguments: [
            ("type", nil, "event.type is missing"), ("type", "7", "event.type cannot be read: "),
            ("app_user_id", "{}", "event.app_user_id cannot be read: "),
            ("event_timestamp_ms", nil, "no event.event_timestamp_ms is there"),
            ("event_timestamp_ms", "\"1658726378679\"", "event.event_timestamp_ms cannot be read: "),
            ("event_timestamp_ms", "1658726378679.5", "event.event_timestamp_ms cannot be read: "),
            ("event_timestamp_ms", "253402300800000", "event.event_timestamp_ms lies outside the years"),
            ("id", "\"\(String(repeating: "x", count: 1_025))\"", "event.id is longer than 1024 bytes"),
            ("aliases", "[\"\(String(repeating: "x", count: 1_025))\"]", "event.aliases is longer than 1024 bytes"),
        ] as [(String, String?, String)])
    func saysWhatIsUnreadable(_ key: String, _ raw: String?, _ reason: String) {
        let said = Self.reason("RENEWAL", [(key, raw)])
        #expect(said?.hasPrefix(reason) == true, "\(said ?? "read")")
    }

    @Test func withoutAnyCustomerItIsQuarantined() {
        let reason = Self.reason("RENEWAL", [("app_user_id", nil), ("original_app_user_id", "\"\"")])
        #expect(reason == "neither event.app_user_id nor event.original_app_user_id is there")
    }

    /// Nothing outside the envelope costs the event, whatever type it has.
    @Test(arguments: [
        "id", "app_id", "environment", "store", "product_id", "transaction_id", "original_transaction_id",
        "period_type", "cancel_reason", "purchased_at_ms", "expiration_at_ms", "grace_period_expiration_at_ms",
        "is_family_share", "is_trial_conversion", "aliases", "original_app_user_id",
    ])
    func aWrongTypeOutsideTheEnvelopeCountsAsAbsent(_ key: String) throws {
        let absent = try revenueCat("RENEWAL", [(key, nil)])
        for raw in ["null", "{}", "[1.5]", "1.5", "\"\""] {
            let event = try revenueCat("RENEWAL", [(key, raw)])
            #expect(event.scope == absent.scope && event.vendorEventID == absent.vendorEventID)
            #expect(event.purchase == absent.purchase && event.transaction == absent.transaction)
            #expect(event.facts == absent.facts && event.links == absent.links)
        }
    }

    /// Every mutated body gives an event or a reason, never a crash.
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func endsOnAnyMutation(_ seed: UInt64) {
        var mutations = Mutations(of: RevenueCatFixtures.published, seed: seed)
        var read = 0
        for _ in 0..<2_500 {
            let bytes = mutations.next()
            do throws(Unreadable) {
                let event = try RevenueCat().normalise(bytes, header: { _ in nil }, from: revenueCatSource())
                read += 1
                #expect(event.body == bytes)
                #expect(!event.name.isEmpty && event.holder?.id.isEmpty == false)
                #expect(Timestamp.writable.contains(event.occurredAt))
                #expect(event.purchase != nil || event.facts.isEmpty)
            } catch {
                #expect(!error.reason.isEmpty && !error.reason.contains("example.com"))
            }
        }
        #expect(read > 50, "the mutations hardly leave anything readable")
    }
}
