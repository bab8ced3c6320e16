import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Derived bodies and samples. Oracle: the relay's own reading, its proof, and every other byte of the original.
@Suite("Bodies in Apple's shape")
struct AppleShapeTests {
    // MARK: Derived bodies

    @Test("A derived body is the original in clear, with the transfer in it")
    func derived() throws {
        let decoded = AppleFixtures.notification("DID_RENEW/BILLING_RECOVERY")
        let transfer = DerivedTransfer(
            type: "SUBSCRIPTION_RECEIVED", from: .anonymous("a-\"1\""), to: .user("ü"), eventID: "derived-1")
        let body = Apple().derivedBody(from: try AppleFixtures.seal(decoded), stating: transfer)
        let expected = BodyEdit.edit(
            decoded,
            [
                ("notificationType", "\"SUBSCRIPTION_RECEIVED\""), ("subtype", nil),
                ("notificationUUID", "\"derived-1\""), ("transferredFrom", #"{"anonymous_user_id":"a-\"1\""}"#),
                ("transferredTo", #"{"user_id":"ü"}"#),
            ])
        #expect(String(decoding: body, as: UTF8.self) == expected)
    }

    @Test("A damaged original still leaves the facts", arguments: ["", "{", "[]", "{}", #"{"signedPayload":"a.b.c"}"#])
    func damaged(_ original: String) {
        let transfer = DerivedTransfer(
            type: "SUBSCRIPTION_TRANSFERRED", from: .user("old"), to: .user("new"), eventID: "derived-1")
        let body = Apple().derivedBody(from: Array(original.utf8), stating: transfer)
        #expect(
            String(decoding: body, as: UTF8.self)
                == #"{"notificationType":"SUBSCRIPTION_TRANSFERRED","notificationUUID":"derived-1","#
                + #""transferredFrom":{"user_id":"old"},"transferredTo":{"user_id":"new"}}"#)
    }

    @Test("No header proves anything")
    func headers() {
        for authentication in Source.Authentication.allCases {
            let headers = Apple().signatureHeaders(
                body: [], unixSeconds: 1, authentication: authentication, secret: Secret([1]))
            #expect(headers.isEmpty)
        }
    }

    // MARK: Samples

    private static let token = "0a1b2c3d-0000-4000-8000-00000000000f"
    private static let withoutPurchase: Set = [
        "TEST", "RENEWAL_EXTENSION/SUMMARY", "EXTERNAL_PURCHASE_TOKEN/UNREPORTED", "EXTERNAL_PURCHASE_TOKEN/CREATED",
        "EXTERNAL_PURCHASE_TOKEN/ACTIVE_TOKEN_REMINDER", "RESCIND_CONSENT",
    ]

    private static func request(_ name: String, _ holder: Holder, environment: String = "SANDBOX") -> SampleRequest {
        SampleRequest(
            eventName: name, holder: holder, storeTransactionID: "t-1", purchaseID: "o-1",
            occurredAt: Timestamp(milliseconds: 1_700_000_000_000), eventID: "e-1", environment: environment)
    }

    private static func read(_ body: [UInt8]) throws -> Event {
        try Apple().normalise(body, header: { _ in nil }, from: appleSource())
    }

    @Test("A sample reads as what was asked for", arguments: Apple().knownEventNames + ["SOMETHING_NEW/ELSE"])
    func samples(_ name: String) throws {
        let holders: [(asked: Holder, read: Holder)] = [
            (.user(Self.token.uppercased()), .user(Self.token)), (.anonymous("a-1"), .anonymous("o-1")),
            (.user("jeff"), .user(AppleSample.token(of: "jeff"))),
        ]
        for (asked, held) in holders {
            let event = try Self.read(Apple().sample(Self.request(name, asked)))
            #expect(event.name == name && event.vendorEventID == "e-1")
            #expect(event.scope.environment == "SANDBOX" && event.scope.app == Apple.sampleBundleID)
            #expect(event.occurredAt.milliseconds == 1_700_000_000_000)
            let isOfPurchase = !Self.withoutPurchase.contains(name)
            #expect(event.holder == (isOfPurchase ? held : nil))
            #expect(event.purchase?.key == (isOfPurchase ? "o-1" : nil))
            #expect(event.transaction?.storeTransactionID == (isOfPurchase ? "t-1" : nil))
            #expect((event.purchase?.kind == .oneTime) == (name == "ONE_TIME_CHARGE"))
        }
    }

    @Test("A sample states the access that its name has", arguments: AppleTests.rows)
    func access(_ row: AppleTests.Row) throws {
        // The first row of a name is its usual meaning.
        let usual = try #require(AppleTests.rows.first { $0.name == row.name })
        let isOneTime = usual.renewal == nil && usual.name != "ONE_TIME_CHARGE"
        guard !isOneTime else { return }
        let event = try Self.read(Apple().sample(Self.request(row.name, .user(Self.token))))
        // Whose it is, is said beside that.
        let isNamed = event.facts.first?.kind == .naming
        let facts = isNamed && usual.fact == nil ? [] : event.stated.filter { $0.kind != .naming }
        #expect(event.type == usual.means && facts.map(\.kind) == (usual.fact.map { [$0] } ?? []))
    }

    @Test("A user who is no UUID has a token of their own, always the same")
    func tokens() {
        let token = AppleSample.token(of: "jeff")
        #expect(AppleNames.accountToken(token) == token && AppleSample.token(of: "jeff") == token)
        #expect(AppleSample.token(of: "ann") != token)
    }

    @Test("A sample under a chain is authentic for the source that pins it, and for no other")
    func proof() throws {
        let chain = AppleFixtures.chain
        let adapter = Apple()
        func judge(_ body: [UInt8], _ source: Source) -> Authenticity {
            adapter.authenticate(header: { _ in nil }, body: body, source: source, now: Timestamp(milliseconds: 0))
        }
        let time = Timestamp(milliseconds: 1_700_000_000_000)
        for name in Apple().knownEventNames {
            for environment in ["SANDBOX", "PRODUCTION"] {
                let request = Self.request(name, .user(Self.token), environment: environment)
                let usual = try adapter.sample(request, chain: chain, at: time)
                #expect(judge(usual, appleSource(bundleIDs: [Apple.sampleBundleID])) == .authentic)
                #expect(try Self.read(usual).scope.environment == environment)
                #expect((adapter.handshake(usual) != nil) == (name == "TEST"))
            }
        }
        let request = Self.request("DID_RENEW", .user(Self.token))
        let own = try adapter.sample(request, chain: chain, bundleID: AppleFixtures.bundleID, at: time)
        #expect(judge(own, appleSource()) == .authentic)
        let alone = adapter.sample(request)
        #expect(judge(alone, appleSource(bundleIDs: [Apple.sampleBundleID])) == .refused(.unknownRoot))
    }

    @Test("A sample may be at any time, of any purchase and without an id")
    func extremes() throws {
        for milliseconds in [Int64.min, .max, 0] {
            for name in ["DID_RENEW", "GRACE_PERIOD_EXPIRED", "ONE_TIME_CHARGE", "REFUND"] {
                for purchaseID in ["otp_1", "subs_1"] {
                    var request = Self.request(name, .user("u"))
                    request.occurredAt = Timestamp(milliseconds: milliseconds)
                    request.purchaseID = purchaseID
                    request.eventID = nil
                    let event = try Self.read(Apple().sample(request))
                    let isOneTime = purchaseID == "otp_1" || name == "ONE_TIME_CHARGE"
                    #expect(event.vendorEventID == nil && event.purchase?.key == purchaseID)
                    #expect(event.purchase?.kind == (isOneTime ? .oneTime : .subscription))
                    #expect(Timestamp.writable.contains(event.occurredAt))
                }
            }
        }
    }
}
