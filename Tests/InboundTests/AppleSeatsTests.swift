import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Subscriptions of several seats, and what came with them in notifications 2.23.0. Oracle: Apple's pages
/// "TransactionMultiSeatInfo", "revokedSeatQuantity", "inAppOwnershipType" and "unclaimInfo".
@Suite("Seats of Apple's subscriptions")
struct AppleSeatsTests {
    private static let seats: BodyEdit.Fields = [
        ("quantity", "8"), ("price", "9240"),
        (
            "multiSeatInfo",
            #"{"invitationManagement":"APPLE","priceTiers":[{"price":9990,"quantity":5},{"price":7990,"quantity":3}]}"#
        ),
    ]

    @Test("The average price of a seat is not what was charged: the event has no amount")
    func money() throws {
        let renewed = try apple(AppleFixtures.notification("DID_RENEW", transaction: Self.seats))
        #expect(renewed.type == "SUBSCRIPTION_RENEWED" && renewed.money == nil)
        #expect(renewed.stated.map(\.kind) == [.gain] && renewed.holder == .user(AppleFixtures.token))
        let refunded = try apple(AppleFixtures.notification("REFUND", transaction: Self.seats))
        let money = try JSONScan.topObject(try #require(refunded.money), depthMax: 3)
        #expect(try money.bool("is_refund") == true)
        #expect(try money.string("amount") == nil && money.string("currency") == nil)
        let single = try apple(AppleFixtures.notification("DID_RENEW", transaction: [("multiSeatInfo", "null")]))
        #expect(single.money != nil)
    }

    @Test("Some of the seats refunded: the purchase goes on for the others")
    func someRefunded() throws {
        let event = try apple(AppleFixtures.notification("REFUND/SEATS", transaction: Self.seats))
        #expect(event.name == "REFUND/SEATS" && event.facts.isEmpty)
        #expect(event.transaction?.status == "AUTO_RENEWING")
    }

    @Test("A seat that is taken from its member is no family's: REVOKE keeps its name and ends the access")
    func revokedSeat() throws {
        let revoked: BodyEdit.Fields = [
            ("inAppOwnershipType", "\"ASSIGNED\""), ("appAccountToken", nil), ("revocationDate", "1700000000000"),
            ("revocationType", "\"ASSIGNMENT_REVOKE\""),
        ]
        let event = try apple(AppleFixtures.notification("REVOKE", transaction: Self.seats + revoked))
        #expect(event.type == "REVOKE" && event.transaction?.status == "REVOKED" && event.money == nil)
        #expect(
            event.facts == [
                Fact(
                    kind: .loss, holder: .anonymous("3000000000000001"), at: AppleFixtures.signedAt,
                    until: AppleFixtures.expiresAt, isRevoked: true, isNamed: false)
            ])
        let ofFamily = try apple(
            AppleFixtures.notification(
                "REVOKE", transaction: revoked + [("inAppOwnershipType", "\"FAMILY_SHARED\"")]))
        #expect(ofFamily.type == "FAMILY_SHARED_REVOKED")
    }

    /// A notification whose payload has a member that is not known here.
    private static func unclaimed(_ member: String, _ more: BodyEdit.Fields = []) -> String {
        AppleFixtures.whole(AppleName("UNCLAIM_SEATS"), [("unclaimInfo", member)] + more)
    }

    private static func judge(_ decoded: String) throws -> Authenticity {
        let body = try AppleFixtures.seal(decoded)
        return Apple().authenticate(
            header: { _ in nil }, body: body, source: appleSource(), now: Timestamp(milliseconds: 0))
    }

    @Test("A payload whose member is new is authentic if that names an app of the source, and is about no purchase")
    func newSubject() throws {
        let decoded = Self.unclaimed(
            #"{"appAppleId":1,"bundleId":"com.example.one","environment":"Sandbox","unclaimSeatIds":["s-1"]}"#)
        #expect(try Self.judge(decoded) == .authentic)
        let event = try apple(decoded)
        #expect(event.name == "UNCLAIM_SEATS" && event.type == "UNCLAIM_SEATS")
        #expect(event.scope == Scope(source: "apple", app: "com.example.one", environment: "SANDBOX"))
        #expect(event.holder == nil && event.purchase == nil && event.facts.isEmpty && event.money == nil)
        #expect(event.occurredAt == AppleFixtures.signedAt)
        // As an external purchase has none.
        let without = Self.unclaimed(#"{"bundleId":"com.example.one"}"#)
        #expect(try Self.judge(without) == .authentic)
        #expect(try apple(without).scope.environment == "PRODUCTION", "that of the source")
    }

    @Test(
        "Whatever names an app must name one of the source's; what names none says nothing",
        arguments: [
            (#"{"bundleId":"com.example.other","environment":"Sandbox"}"#, .foreignBundleID),
            (#"{"bundleId":"com.example.one","environment":"Xcode"}"#, .foreignEnvironment),
            (#"{"bundleId":"com.example.one","environment":null}"#, .foreignEnvironment),
            (#"{"environment":"Sandbox"}"#, .missingBundleID), (#"{"bundleId":7}"#, .missingBundleID),
            (#"{"bundleId":""}"#, .missingBundleID), ("[]", .missingBundleID), ("\"com.example\"", .missingBundleID),
        ] as [(String, Authenticity.Refusal)])
    func refusals(_ member: String, _ refusal: Authenticity.Refusal) throws {
        #expect(try Self.judge(Self.unclaimed(member)) == .refused(refusal))
    }

    private static let known = #"{"bundleId":"com.example.one","environment":"Production"}"#

    @Test("A new member beside a known one: each that names an app counts, and the scope is by the known one")
    func both() throws {
        func judge(_ member: String, data: String = Self.known) throws -> Authenticity {
            try Self.judge(Self.unclaimed(member, [("data", data)]))
        }
        #expect(try judge(Self.known) == .authentic)
        #expect(try judge(#"{"note":"about no app"}"#) == .authentic)
        #expect(try judge(#"{"bundleId":"com.example.other"}"#) == .refused(.foreignBundleID))
        #expect(try judge(Self.known, data: #"{"environment":"Production"}"#) == .refused(.missingBundleID))
        let sandbox = #"{"bundleId":"com.example.one","environment":"Sandbox"}"#
        let event = try apple(Self.unclaimed(sandbox, [("data", Self.known)]))
        #expect(event.scope.environment == "PRODUCTION")
    }
}
