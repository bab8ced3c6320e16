import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// What is readable, who is let in, and bodies made by the relay.
@Suite struct ApphudEnvelopeTests {
    @Test(
        arguments: [
            (["event"], "id", nil), (["event"], "name", "event.name is missing"),
            (["event"], "created_at", "no an ISO 8601 event.created_at is there"),
            (["user"], "user_id", "user.user_id is missing"), ([], "event", "event is missing"),
            ([], "user", "user is missing"), ([], "app", nil),
        ] as [([String], String, String?)])
    func whatAnEnvelopeNeeds(_ path: [String], _ key: String, _ reason: String?) {
        for raw in [nil, "null"] as [String?] {
            let body =
                path.isEmpty
                ? BodyEdit.edit(ApphudFixtures.started, [(key, raw)])
                : BodyEdit.edit(ApphudFixtures.started, in: path[0], set: [(key, raw)])
            let given = unreadable(body, from: ApphudFixtures.source)
            if reason == nil { #expect(given == nil) } else { #expect(given?.contains(key) == true) }
        }
    }

    @Test(arguments: ["7", "[]", "\"\"", "true"]) func whatIsNoObjectIsQuarantined(_ raw: String) {
        for key in ["event", "user"] {
            let body = BodyEdit.edit(ApphudFixtures.started, [(key, raw)])
            #expect(unreadable(body, from: ApphudFixtures.source)?.contains(key) == true)
        }
        let odd = ApphudFixtures.user(
            [("subscriptions", raw)], of: ApphudFixtures.event([("receipt", raw), ("properties", raw)]))
        #expect(unreadable(odd, from: ApphudFixtures.source) == nil)
    }

    private static func judge(_ value: String?, _ source: Source) -> Authenticity {
        SourceAdapters.adapter(for: .apphud).authenticate(
            header: { $0 == "X-Apphud-Token" ? value : nil }, body: [], source: source,
            now: Timestamp(milliseconds: 0))
    }

    @Test func theTokenIsTheSecret() {
        let source = ApphudFixtures.source(secrets: ["new", "old"])
        #expect(Self.judge("new", source) == .authentic)
        #expect(Self.judge("old", source) == .authentic)
        for wrong in ["Basic new", "ne", "newer", " new"] {
            #expect(Self.judge(wrong, source) == .refused(.wrongToken))
        }
        #expect(Self.judge(nil, source) == .refused(.missingToken))
        #expect(Self.judge(nil, ApphudFixtures.source(authentication: .none)) == .authentic)
        let signed = ApphudFixtures.source(authentication: .signature)
        #expect(Self.judge("abc", signed) == .refused(.unsupportedAuthentication))
        let headers = Apphud().signatureHeaders(
            body: [], unixSeconds: 0, authentication: .token, secret: Secret(Array("old".utf8)))
        #expect(headers.map(\.name) == ["X-Apphud-Token"])
        #expect(headers.map(\.value) == ["old"])
        let none = Apphud().signatureHeaders(body: [], unixSeconds: 0, authentication: .none, secret: Secret([1]))
        #expect(none.isEmpty)
    }

    // MARK: Bodies that the relay makes

    @Test func aDerivedBodyIsAnEventOfAnotherNameUnderTheMessagesHolder() throws {
        let before = try JSONScan.topObject(Array(ApphudFixtures.started.utf8), depthMax: 8)
        for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"] {
            let bytes = Apphud().derivedBody(
                from: Array(ApphudFixtures.started.utf8),
                stating: DerivedTransfer(type: type, from: .user("old"), to: .user("new\""), eventID: "derived-1"))
            let isReceived = type.hasSuffix("RECEIVED")
            let event = try event(String(decoding: bytes, as: UTF8.self), from: ApphudFixtures.source)
            #expect(event.name == type)
            #expect(event.vendorEventID == "derived-1")
            #expect(event.holder == .user(isReceived ? "new\"" : "old"))
            #expect(event.purchase?.key == ApphudFixtures.token)
            let after = try JSONScan.topObject(bytes, depthMax: 8)
            let properties = try #require(try after.object("event")?.object("properties"))
            #expect(
                try properties.string(isReceived ? "transferred_from_user_id" : "transferred_to_user_id")
                    == (isReceived ? "old" : "new\""))
            #expect(before.raw("app") == after.raw("app"))
            for (outer, inner) in [("event", "receipt"), ("user", "subscriptions"), ("user", "devices")] {
                #expect(try before.object(outer)?.raw(inner) == after.object(outer)?.raw(inner))
            }
        }
    }

    @Test func aDamagedOriginalStillLeavesTheFacts() {
        let body = Apphud().derivedBody(
            from: Array("{".utf8),
            stating: DerivedTransfer(type: "SUBSCRIPTION_RECEIVED", from: .user("a"), to: .user("b"), eventID: "d"))
        #expect(
            String(decoding: body, as: UTF8.self)
                == #"{"event":{"id":"d","name":"SUBSCRIPTION_RECEIVED","properties":{"transferred_from_user_id":"a"}},"#
                + #""user":{"user_id":"b"}}"#)
    }

    @Test(arguments: Apphud().knownEventNames) func aSampleReadsAsWhatWasAskedFor(_ name: String) throws {
        let request = SampleRequest(
            eventName: name, holder: .user("u-\"1\""), storeTransactionID: "t-1", purchaseID: "o-1",
            occurredAt: Timestamp(milliseconds: 1_700_000_000_123), eventID: "e-1", environment: "SANDBOX")
        let event = try event(String(decoding: Apphud().sample(request), as: UTF8.self), from: ApphudFixtures.source)
        #expect(event.name == name)
        #expect(event.vendorEventID == "e-1")
        #expect(event.holder == .user("u-\"1\""))
        #expect(event.occurredAt == request.occurredAt)
        guard !ApphudTests.notOfPurchases.contains(name) else { return #expect(event.purchase == nil) }
        #expect(event.purchase?.key == "o-1")
        #expect(event.transaction?.storeTransactionID == "t-1")
        #expect(event.transaction?.offerType == ApphudTests.rows[name]?.offer)
        let isSubscription = event.purchase?.kind == .subscription
        #expect(event.scope.environment == (isSubscription ? "SANDBOX" : "PRODUCTION"))
        #expect((event.transaction?.effectiveNextRenewalAt != nil) == isSubscription)
    }

    // MARK: Mutations

    @Test(arguments: 1...4 as ClosedRange<UInt64>) func endsOnAnyMutation(_ seed: UInt64) {
        var mutations = Mutations(
            of: ApphudTests.rows.keys.sorted().map(ApphudFixtures.named) + [ApphudFixtures.started], seed: seed)
        var read = 0
        for _ in 0..<2_500 {
            let bytes = mutations.next()
            do {
                let event = try Apphud().normalise(bytes, header: { _ in nil }, from: ApphudFixtures.source)
                read += 1
                #expect(event.body == bytes)
                #expect(!event.name.isEmpty && event.holder?.id.isEmpty == false && event.holder?.isAnonymous == false)
                #expect(Timestamp.writable.contains(event.occurredAt))
                #expect(event.facts.isEmpty || event.purchase != nil)
            } catch {
                #expect(!error.reason.isEmpty && !error.reason.contains("example.com"))
            }
        }
        #expect(read > 50, "the mutations hardly leave anything readable")
    }
}
