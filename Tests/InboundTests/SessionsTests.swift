import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Domain.md, "Sessions", and posthouse-sources(7), "Sessions", field by field.
@Suite struct SessionsTests {
    static let until = Timestamp(milliseconds: 1_702_592_000_000)

    // MARK: Sessions

    @Test(arguments: [false, true]) func aLoginLinksUntilItExpiresAndMovesWhereItSaysSo(_ merges: Bool) throws {
        let event = try event(SessionsFixtures.login, from: SessionsFixtures.source(merges: merges))
        #expect(event.scope == Scope(source: "sessions", app: "", environment: "PRODUCTION"))
        #expect(event.vendorEventID == "e-1")
        #expect(event.name == "SESSION_LOGIN")
        #expect(event.type == "SESSION_LOGIN")
        #expect(event.holder == .user("u1"))
        #expect(event.occurredAt == SessionsFixtures.at)
        #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty)
        #expect(event.links == [HolderLink(anonymousID: "a1", userID: "u1", until: Self.until)])
        #expect(event.change == (merges ? .move(from: [.anonymous("a1")], to: .user("u1"), isNative: false) : nil))
    }

    @Test func aLoginOfNobodyKnownBeforeLinksNothing() throws {
        let body = SessionsFixtures.of("SESSION_LOGIN", [("user_id", "7"), ("expires_at", "1702592000")])
        let event = try event(body, from: SessionsFixtures.source(merges: true))
        #expect(event.holder == .user("7"))
        #expect(event.links.isEmpty && event.change == nil)
        let anonymous = SessionsFixtures.of("SESSION_LOGIN", [("anonymous_id", "\"a1\"")])
        #expect(unreadable(anonymous, from: SessionsFixtures.source) == "a login needs user_id")
    }

    @Test(
        arguments: [
            ("expires_at", "\"2023-12-14T22:13:20.000Z\"", true), ("expires_at", "1702592000", true),
            ("expires_at", "1702592000000", true), ("expires_at_ms", "1702592000000", true),
            ("expires_at", "null", false), ("expires_at_ms", "\"\"", false), ("expires_at", "0", false),
            ("expires_at_ms", "0", false),
        ] as [(String, String, Bool)])
    func theEndOfASessionIsAnInstant(_ key: String, _ raw: String, _ isRead: Bool) throws {
        let body = SessionsFixtures.of(
            "SESSION_LOGIN", [("user_id", "\"u1\""), ("anonymous_user_id", "\"a1\""), (key, raw)])
        let links = try event(body, from: SessionsFixtures.source).links
        #expect(links == [HolderLink(anonymousID: "a1", userID: "u1", until: isRead ? Self.until : nil)])
    }

    @Test func ofTwoSpellingsTheOneThatSaysSomethingCounts() throws {
        let fields = [
            ("user_id", "\"u1\""), ("anonymous_id", "\"a1\""), ("expires_at_ms", "0"),
            ("expires_at", "\"2023-12-14T22:13:20Z\""),
        ]
        let links = try event(SessionsFixtures.of("SESSION_LOGIN", fields), from: SessionsFixtures.source).links
        #expect(links.map(\.until) == [Self.until])
    }

    /// Taken for none, access would never end.
    @Test(
        arguments: [
            "\"2026-12-24T10:00:00\"", "\"2026-12-24\"", "\"1795000000\"", "\"next month\"", "{}", "true",
            "[1795000000]",
        ])
    func anEndThatCannotBeReadIsRefused(_ raw: String) throws {
        for suffix in ["", "_ms"] {
            let login = SessionsFixtures.of(
                "SESSION_LOGIN", [("user_id", "\"u1\""), ("anonymous_id", "\"a1\""), ("expires_at" + suffix, raw)])
            let reason = unreadable(login, from: SessionsFixtures.source)
            #expect(reason?.hasPrefix("expires_at\(suffix) is not a time") == true)
            let gain = SessionsFixtures.of(
                "ACTIVATE",
                [
                    ("user_id", "\"u1\""), ("store_transaction_id", "\"t1\""),
                    ("effective_next_renewal_at" + suffix, raw),
                ])
            let other = unreadable(gain, from: SessionsFixtures.source)
            #expect(other?.hasPrefix("effective_next_renewal_at\(suffix) is not a time") == true)
            // Access is taken away all the same, and a login of nobody known before ends nothing.
            let loss = gain.replacing("ACTIVATE", with: "DEACTIVATE")
            #expect(try event(loss, from: SessionsFixtures.source).facts.map(\.kind) == [.loss])
            let alone = SessionsFixtures.of("SESSION_LOGIN", [("user_id", "\"u1\""), ("expires_at" + suffix, raw)])
            #expect(try event(alone, from: SessionsFixtures.source).links.isEmpty)
        }
    }

    @Test(arguments: ["SESSION_LOGOUT", "SESSION_EXPIRED", "DATA_RESET"])
    func theEndOfASessionLeavesNobodyKnown(_ type: String) throws {
        let source = SessionsFixtures.source(merges: true)
        let both = try event(
            SessionsFixtures.of(type, [("user_id", "\"u1\""), ("anonymous_id", "\"a1\""), ("scope", "\"all\"")]),
            from: source)
        #expect(both.holder == .user("u1"))
        #expect(both.links == [HolderLink(anonymousID: "a1", userID: nil)])
        let anonymous = try event(SessionsFixtures.of(type, [("anonymous_user_id", "\"a1\"")]), from: source)
        #expect(anonymous.holder == .anonymous("a1"))
        #expect(anonymous.links == [HolderLink(anonymousID: "a1", userID: nil)])
        let user = try event(SessionsFixtures.of(type, [("user_id", "\"u1\"")]), from: source)
        #expect(user.holder == .user("u1"))
        #expect(user.links.isEmpty)
        #expect(user.change == .endSessions(user: "u1"), "whichever devices it was logged in on")
        #expect(both.change == nil && anonymous.change == nil, "merges nothing")
        for event in [both, anonymous, user] {
            #expect(event.type == type && event.purchase == nil && event.facts.isEmpty)
        }
    }

    @Test func anAnonymousSessionIsOfItsAnonymousHolder() throws {
        let body = SessionsFixtures.of(
            "SESSION_ANONYMOUS_STARTED", [("anonymous_id", "\"a2\""), ("reason", "\"skip\"")])
        let event = try event(body, from: SessionsFixtures.source)
        #expect(event.holder == .anonymous("a2"))
        #expect(event.links.isEmpty && event.change == nil)
    }

    @Test(arguments: SessionsNames.sessions) func aSessionEventNamesNoPurchase(_ type: String) throws {
        let body = SessionsFixtures.of(
            type, [("user_id", "\"u1\""), ("purchase_id", "\"p\""), ("store_transaction_id", "\"t\"")])
        let event = try event(body, from: SessionsFixtures.source)
        #expect(event.purchase == nil && event.transaction == nil)
    }

    // MARK: Purchases of its own

    @Test func readsAPurchase() throws {
        let event = try event(SessionsFixtures.purchase, from: SessionsFixtures.source(app: "mine"))
        #expect(event.scope == Scope(source: "sessions", app: "mine", environment: "SANDBOX"))
        #expect(event.holder == .user("u1"))
        #expect(
            event.purchase
                == Purchase(
                    key: "sub-1", kind: .subscription, store: "APPLE_APP_STORE", product: "premium", plan: "monthly",
                    subscriptionID: "sub-1"))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "2000000123", storeOriginalTransactionID: "1000000123",
                    purchasedAt: Timestamp(milliseconds: 1_699_999_999_000), effectiveNextRenewalAt: Self.until,
                    offerType: "NONE", status: "AUTO_RENEWING"))
        #expect(
            event.facts == [Fact(kind: .gain, holder: .user("u1"), at: SessionsFixtures.at, until: Self.until)])
    }

    @Test(
        arguments: [
            ("ACTIVATE", .gain), ("DEACTIVATE", .loss), ("SUBSCRIPTION_TRANSFERRED", .transferred),
            ("ONE_TIME_PURCHASE_RECEIVED", .received), ("SUBSCRIPTION_RENEWED", nil), ("own.thing", nil),
        ] as [(String, Fact.Kind?)])
    func theNameShowsAccess(_ type: String, _ kind: Fact.Kind?) throws {
        let body = SessionsFixtures.of(
            type,
            [
                ("anonymous_user_id", "\"a1\""), ("store_transaction_id", "\"t1\""), ("status", "\"REVOKED\""),
                ("is_family_shared", "true"), ("transferred_to_user_id", "\"u2\""),
                ("transferred_from_anonymous_id", "\"a3\""),
            ])
        let event = try event(body, from: SessionsFixtures.source)
        #expect(event.type == type)
        #expect(event.facts.map(\.kind) == (kind.map { [$0] } ?? []))
        #expect(event.facts.allSatisfy { $0.isRevoked && $0.isFamilyShared && $0.holder == .anonymous("a1") })
        let counterpart: Holder? =
            kind == .transferred ? .user("u2") : kind == .received ? .anonymous("a3") : nil
        #expect(event.facts.allSatisfy { $0.counterpart == counterpart })
        #expect(event.purchase?.key == "t1")
        #expect(event.purchase?.store == "APP")
        #expect(event.purchase?.kind == (type.hasPrefix("ONE_TIME_") ? .oneTime : .subscription))
        #expect(event.purchase?.subscriptionID == nil)
    }

    @Test(arguments: [
        ("CONSUMABLE", Purchase.Kind.oneTime), ("NON_CONSUMABLE", .oneTime), ("one_time", .oneTime),
        ("RENEWING_SUBSCRIPTION", .subscription), ("NON_RENEWING_SUBSCRIPTION", .subscription), ("", .subscription),
    ])
    func thePurchaseTypeShowsTheKind(_ type: String, _ kind: Purchase.Kind) throws {
        let body = BodyEdit.edit(SessionsFixtures.purchase, in: "data", set: [("purchase_type", "\"\(type)\"")])
        #expect(try event(body, from: SessionsFixtures.source).purchase?.kind == kind)
    }

    @Test func withoutAPurchaseThereIsNoFact() throws {
        let event = try event(SessionsFixtures.of("ACTIVATE", [("user_id", "\"u1\"")]), from: SessionsFixtures.source)
        #expect(event.purchase == nil && event.facts.isEmpty)
    }
}
