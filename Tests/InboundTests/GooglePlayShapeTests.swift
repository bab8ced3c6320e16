import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Samples, derived bodies and names of tokens. Oracles: the relay's own reading; Python's `hashlib` for the names.
@Suite("Google Play's bodies and tokens")
struct GooglePlayShapeTests {
    typealias Fixtures = GooglePlayFixtures

    // MARK: Samples

    static func request(_ name: String, at milliseconds: Int64 = 1_700_000_000_000) -> SampleRequest {
        SampleRequest(
            eventName: name, holder: .user("u"), storeTransactionID: "GPA.1-2..3", purchaseID: Fixtures.token,
            occurredAt: Timestamp(milliseconds: milliseconds), eventID: "e-1", environment: "SANDBOX")
    }

    @Test("A sample is a push of what was asked for", arguments: GooglePlay().knownEventNames)
    func samples(_ name: String) throws {
        let body = GooglePlay().sample(Self.request(name))
        let event = try googlePlay(String(decoding: body, as: UTF8.self))
        #expect(event.name == name)
        #expect(event.vendorEventID == "e-1")
        #expect(event.occurredAt.milliseconds == 1_700_000_000_000)
        #expect(event.scope.app == "com.example.app")
        let isOfPurchase = name != "PENDING_REFUND_REVIEW"
        #expect(event.purchase?.key == (isOfPurchase ? Fixtures.name() : nil))
        #expect(event.holder == (isOfPurchase ? Holder.anonymous(Fixtures.name()) : nil))
        #expect(event.transaction?.storeTransactionID == (name == "VOIDED_PURCHASE" ? "GPA.1-2..3" : nil))
        #expect(GooglePlay().handshake(body) == nil)
        let whole = try JSONScan.topObject(body, depthMax: 4)
        #expect(whole.keys == ["message", "subscription"])
        #expect(
            try whole.object("message")?.keys
                == ["data", "messageId", "message_id", "publishTime", "publish_time"])
    }

    @Test("A sample may be at any time, about any app, and without an id", arguments: GooglePlay().knownEventNames)
    func anySample(_ name: String) throws {
        for milliseconds in [Int64.min, .max] {
            var request = Self.request(name, at: milliseconds)
            request.eventID = nil
            let body = GooglePlay().sample(request, packageName: "com.example.other")
            let event = try googlePlay(String(decoding: body, as: UTF8.self))
            #expect(event.scope.app == "com.example.other")
            #expect(event.vendorEventID?.isEmpty == false)
            #expect(event.occurredAt == Timestamp(milliseconds: milliseconds).nearestWritable)
            #expect(GooglePlay().sample(request, packageName: "com.example.other") == body)
        }
    }

    @Test("A sample of a number or a notification that is not documented has it")
    func otherSamples() throws {
        for (asked, read) in [
            ("SUBSCRIPTION_99", "SUBSCRIPTION_99"), ("ONE_TIME_PRODUCT_7", "ONE_TIME_PRODUCT_7"),
            ("celebrationNotification", "celebrationNotification"), ("celebration", "celebrationNotification"),
            ("SUBSCRIPTION_NEW", "SUBSCRIPTION_NEWNotification"),
        ] {
            let body = GooglePlay().sample(Self.request(asked))
            #expect(try googlePlay(String(decoding: body, as: UTF8.self)).name == read)
        }
        #expect(GooglePlay().handshake(GooglePlay().sample(Self.request("TEST"))) != nil)
    }

    @Test("A sample and its source prove nothing: the token is Google's")
    func signatureHeaders() {
        for authentication in Source.Authentication.allCases {
            let headers = GooglePlay().signatureHeaders(
                body: [], unixSeconds: 1, authentication: authentication, secret: Secret(Array("x".utf8)))
            #expect(headers.isEmpty)
        }
        #expect(GooglePlay().sampleTransfers.isEmpty)
    }

    // MARK: Derived bodies

    @Test("A derived body states the transfer in the shape of the format standard", arguments: Fixtures.all)
    func derivedBodies(_ original: String) throws {
        for (type, holder) in [("SUBSCRIPTION_TRANSFERRED", "old"), ("SUBSCRIPTION_RECEIVED", "new")] {
            let body = GooglePlay().derivedBody(
                from: Array(original.utf8),
                stating: DerivedTransfer(
                    type: type, from: .anonymous("old"), to: .user("new"), eventID: "derived-1"))
            let whole = try JSONScan.topObject(body, depthMax: 16)
            #expect(try whole.string("type") == type)
            #expect(try whole.string("timestamp") == Fixtures.occurredAt.iso8601)
            let data = try #require(try whole.object("data"))
            #expect(try data.string("event_id") == "derived-1")
            #expect(try data.string("event_name") == type)
            let key = holder == "old" ? "anonymous_user_id" : "user_id"
            #expect(try data.object("holder")?.string(key) == holder)
            let transfer = try #require(try data.object("transfer"))
            #expect(try transfer.object("from")?.string("anonymous_user_id") == "old")
            #expect(try transfer.object("to")?.string("user_id") == "new")
            #expect(data.raw("original").map { Array($0) } == Array(original.utf8))
        }
    }

    @Test("A damaged original still leaves the transfer", arguments: ["", "{", "[]", "{}", #"{"message":7}"#])
    func damagedOriginals(_ original: String) throws {
        let body = GooglePlay().derivedBody(
            from: Array(original.utf8),
            stating: DerivedTransfer(
                type: "SUBSCRIPTION_RECEIVED", from: .user("old"), to: .user("new"), eventID: "derived-1"))
        let data = try #require(try JSONScan.topObject(body, depthMax: 16).object("data"))
        #expect(try data.object("holder")?.string("user_id") == "new")
        #expect(data.raw("original").map { Array($0) } == Array("null".utf8))
    }

    // MARK: Tokens

    @Test("A token's name is its beginning and the first half of its SHA-256")
    func names() {
        let token = GooglePlayToken(Fixtures.token)
        #expect(token.name == "kgmbcdefhijk.825a84c3c7ca076c3b1ebcb34a337fac")
        #expect(token.id.hex == "825a84c3c7ca076c3b1ebcb34a337fac")
        #expect(GooglePlayToken("short").name == "s.f9b0078b5df596d2ea19010c001bbd00")
        #expect(GooglePlayToken("").name == ".e3b0c44298fc1c149afbf4c8996fb924")
        for text in [Fixtures.token, "short", "", "a.b.c.d.e.f.g.h", "t%41/ü"] {
            let token = GooglePlayToken(text)
            #expect(GooglePlayToken.id(ofName: token.name) == token.id)
        }
        for text in ["", "abc", "abc.", "abc.12", ".825a84c3c7ca076c3b1ebcb34a337fag"] {
            #expect(GooglePlayToken.id(ofName: text) == nil)
        }
    }

    @Test("Tokens are compared byte by byte")
    func equality() {
        #expect(GooglePlayToken("a") == GooglePlayToken("a"))
        #expect(GooglePlayToken("a") != GooglePlayToken("A"))
        #expect(GooglePlayToken("\u{E9}") != GooglePlayToken("e\u{301}"), "two spellings of one letter are two tokens")
        #expect(Set([GooglePlayToken("a"), GooglePlayToken("a"), GooglePlayToken("b")]).count == 2)
    }

    @Test("Printing a token shows its name alone")
    func printing() {
        let token = GooglePlayToken(Fixtures.token)
        var dumped = ""
        dump(token, to: &dumped)
        for shown in ["\(token)", String(reflecting: token), "\([token])", dumped] {
            #expect(!shown.contains("kgmbcdefhijkl") && !shown.contains("0123456789"))
        }
        #expect("\(token)" == token.name)
    }
}
