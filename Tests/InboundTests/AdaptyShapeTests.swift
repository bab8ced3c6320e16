import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// The handshake, authentication, derived bodies and samples.
@Suite struct AdaptyShapeTests {
    // MARK: Authentication and handshake

    static func judge(_ authorization: String?, source: Source = adaptySource()) -> Authenticity {
        SourceAdapters.adapter(for: source.kind).authenticate(
            header: { $0.lowercased() == "authorization" ? authorization : nil }, body: [], source: source,
            now: Timestamp(milliseconds: 0))
    }

    @Test func theTokenIsTakenVerbatim() {
        #expect(Self.judge("adapty-secret") == .authentic)
        #expect(Self.judge("Bearer adapty-secret") == .refused(.wrongToken))
        #expect(Self.judge("adapty-secreT") == .refused(.wrongToken))
        #expect(Self.judge(nil) == .refused(.missingToken))
        #expect(Self.judge(nil, source: adaptySource(authentication: .none)) == .authentic)
        let signature = adaptySource(authentication: .signature)
        #expect(Self.judge("adapty-secret", source: signature) == .refused(.unsupportedAuthentication))
    }

    @Test func provesItselfAsItIsAsked() {
        let secret = Secret(Array("adapty-secret".utf8))
        let headers = Adapty().signatureHeaders(
            body: [], unixSeconds: 1, authentication: .token, secret: secret)
        #expect(headers.map(\.name) == ["Authorization"] && headers.map(\.value) == ["adapty-secret"])
        for authentication in [Source.Authentication.none, .signature] {
            let none = Adapty().signatureHeaders(
                body: [], unixSeconds: 1, authentication: authentication, secret: secret)
            #expect(none.isEmpty)
        }
    }

    /// Oracle: Adapty's page "Set up webhook integration", and its older page "Webhook".
    @Test(
        arguments: [
            ("{}", "{}"), (" {\n} ", "{}"), (#"{"adapty_check":"a\"b"}"#, #"{"adapty_check_response":"a\"b"}"#),
            (#"{"adapty_check":"x","more":1}"#, #"{"adapty_check_response":"x"}"#),
            (#"{"adapty_check":""}"#, nil), (#"{"adapty_check":7}"#, nil), (#"{"adapty_check":null}"#, nil),
            (#"{"adapty_check":"x","event_type":"trial_started"}"#, nil), ("", nil), ("[]", nil), ("{", nil),
            (AdaptyFixtures.subscriptionStarted, nil),
            ("{" + String(repeating: " ", count: 5_000) + "}", nil),
        ] as [(String, String?)])
    func answersATestOfTheConsole(_ body: String, _ answer: String?) {
        let given = SourceAdapters.adapter(for: .adapty).handshake(Array(body.utf8))
        #expect(given.map { String(decoding: $0, as: UTF8.self) } == answer)
    }

    // MARK: Derived bodies

    static func derived(_ original: String, type: String, from: Holder, to: Holder) -> String {
        let body = Adapty().derivedBody(
            from: Array(original.utf8), stating: DerivedTransfer(type: type, from: from, to: to, eventID: "derived-1"))
        return String(decoding: body, as: UTF8.self)
    }

    static let holders: [Holder] = [.user("user-1"), .user("u-\"2\""), .anonymous("profile-1"), .anonymous("p-é")]

    /// Oracle: the relay's own reading, and every other byte of the original.
    @Test(arguments: AdaptyFixtures.published) func aDerivedBodyShowsOneSide(_ original: String) throws {
        let before = try JSONScan.topObject(Array(original.utf8), depthMax: 8)
        for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"] {
            for from in Self.holders {
                for to in Self.holders where from != to {
                    let body = Self.derived(original, type: type, from: from, to: to)
                    let event = try adapty(body)
                    let (messageHolder, other) = type.hasSuffix("RECEIVED") ? (to, from) : (from, to)
                    #expect(event.name == type && event.type == type && event.facts.isEmpty)
                    #expect(event.vendorEventID == "derived-1")
                    #expect(event.holder == messageHolder)
                    let own = event.links.filter { $0.userID == messageHolder.id }
                    #expect(
                        own.allSatisfy { $0.anonymousID == "profile-1" && messageHolder.id == "user-1" },
                        "no made-up link")

                    let after = try JSONScan.topObject(Array(body.utf8), depthMax: 8)
                    let isOwn = messageHolder.id == "user-1" && (try? before.string("customer_user_id")) == "user-1"
                    let profile = messageHolder.isAnonymous ? messageHolder.id : isOwn ? "profile-1" : nil
                    let properties = DerivedBody.inner("event_properties", of: after)
                    #expect(try after.string("profile_id") == profile)
                    #expect(try properties.string("profile_id") == profile, "nobody else's profile is left")
                    let side = type.hasSuffix("RECEIVED") ? "transferred_from_" : "transferred_to_"
                    let key = side + (other.isAnonymous ? "profile_id" : "customer_user_id")
                    #expect(try after.string(key) == other.id)
                    let set: Set = ["event_type", "event_properties", "profile_id", "customer_user_id", key]
                    #expect(before.keys.filter { !set.contains($0) } == after.keys.filter { !set.contains($0) })
                    for key in before.keys where !set.contains(key) { #expect(before.raw(key) == after.raw(key)) }
                }
            }
        }
    }

    @Test func aDamagedOriginalStillLeavesTheFacts() {
        #expect(
            Self.derived("{", type: "SUBSCRIPTION_TRANSFERRED", from: .anonymous("p"), to: .user("u"))
                == #"{"event_type":"SUBSCRIPTION_TRANSFERRED","profile_id":"p","event_properties":"#
                + #"{"profile_event_id":"derived-1","profile_id":"p"},"transferred_to_customer_user_id":"u"}"#)
    }

    // MARK: Samples

    @Test(arguments: Adapty().knownEventNames) func aSampleReadsAsWhatWasAskedFor(_ name: String) throws {
        for holder in [Holder.user("u-\"1\""), .anonymous("p-1")] {
            let request = SampleRequest(
                eventName: name, holder: holder, storeTransactionID: "t-1", purchaseID: "o-1",
                occurredAt: Timestamp(milliseconds: 1_700_000_000_123), eventID: "e-1", environment: "SANDBOX")
            let event = try adapty(String(decoding: Adapty().sample(request), as: UTF8.self))
            #expect(event.name == name)
            #expect(event.vendorEventID == "e-1")
            #expect(event.holder == holder)
            #expect(event.scope.environment == "SANDBOX")
            #expect(event.occurredAt == request.occurredAt)
            #expect(event.purchase?.key == "o-1")
            #expect(event.transaction?.storeTransactionID == "t-1")
            let isOneTime = name.hasPrefix("non_subscription")
            #expect(event.purchase?.kind == (isOneTime ? .oneTime : .subscription))
            #expect(event.facts.allSatisfy { ($0.until == nil) == isOneTime })
            // Its period lasts, so a pause only announces itself.
            let isWithoutFact = ["renewal_cancelled", "paused", "issue_detected"].contains { name.hasSuffix($0) }
            #expect((event.facts.isEmpty) == isWithoutFact)
        }
    }

    @Test(arguments: [Int64.min, .max]) func aSampleMayBeAtAnyTimeAndWithoutAnID(_ milliseconds: Int64) throws {
        for name in Adapty().knownEventNames {
            let body = Adapty().sample(
                SampleRequest(
                    eventName: name, holder: .user("u"), storeTransactionID: "t", purchaseID: "o",
                    occurredAt: Timestamp(milliseconds: milliseconds), environment: "STAGING"))
            let event = try adapty(String(decoding: body, as: UTF8.self))
            #expect(event.vendorEventID == nil)
            #expect(event.scope.environment == "STAGING")
        }
    }
}
