import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Stripe's own library (PyPI stripe), which checks signatures that are made here, makes some of its own, and
/// writes the events that it has read.
@Suite(
    "What Stripe's own library says",
    .enabled(if: VendorLibrary.has("stripe"), "set POSTHOUSE_TEST_PYTHON to a Python with the package stripe"))
struct StripeLibraryTests {
    private struct Case: Codable {
        /// Base64.
        var body: String
        /// As made here; empty: of no interest.
        var header = ""
        var secret = StripeSignatureTests.secret
        /// The time of the library's own signature.
        var seconds: Int64 = 1_790_000_000

        init(_ body: [UInt8]) { self.body = Base64.encode(body) }
    }

    /// For each case: whether the signature holds, as `construct_event` says; a signature of the body; what the library
    /// writes of the event that it read, in base64; and a signature of that.
    private static let script = """
        import base64, json, sys, stripe
        for line in open(sys.argv[1]):
            case = json.loads(line)
            body = base64.b64decode(case["body"])
            sign = lambda text: stripe.WebhookSignature.generate_signature_header(text, case["secret"], case["seconds"])
            try:
                event = stripe.Webhook.construct_event(body, case["header"], case["secret"], tolerance=None)
                verdict, written = "good", str(event)
            except stripe.SignatureVerificationError:
                verdict, written = "bad", ""
            except ValueError:
                verdict, written = "other", ""
            print(verdict, sign(body.decode()), base64.b64encode(written.encode()).decode() or "-", sign(written))
        """

    private static func answers(_ cases: [Case]) throws -> [[String]] {
        let answers = try VendorLibrary.run(script, cases).map { $0.split(separator: " ").map(String.init) }
        try #require(answers.count == cases.count && answers.allSatisfy { $0.count == 4 })
        return answers
    }

    private static func signed(_ body: [UInt8]) throws -> Case {
        var one = Case(body)
        one.header = try #require(
            Stripe().signatureHeaders(
                body: body, unixSeconds: one.seconds, authentication: .signature,
                secret: Secret(Array(one.secret.utf8))
            ).first?.value)
        return one
    }

    private static let samples: [[UInt8]] = Stripe().knownEventNames.map { name in
        Stripe().sample(
            SampleRequest(
                eventName: name, holder: .user("ada"), storeTransactionID: "in_9", purchaseID: "sub_9",
                occurredAt: Timestamp(milliseconds: 1_700_000_000_999), eventID: "evt_9", environment: "SANDBOX"))
    }

    /// What an event says, in one text.
    private static func said(_ event: Event) -> String {
        """
        \(event.scope) \(event.vendorEventID ?? "-") \(event.name) \(event.type) \(String(describing: event.holder)) \
        \(event.occurredAt) \(String(describing: event.purchase)) \(String(describing: event.transaction)) \
        \(event.facts) \(event.links)
        """
    }

    @Test("It takes the signatures that are made here, its own are taken here, and its events say the same")
    func both() throws {
        let bodies = StripeFixtures.every.map { Array($0.utf8) } + Self.samples
        let answers = try Self.answers(bodies.map(Self.signed))
        for (body, answer) in zip(bodies, answers) {
            let text = String(decoding: body, as: UTF8.self)
            #expect(answer[0] == "good", "\(text)")
            #expect(StripeSignatureTests.judge(answer[1], body: body) == .authentic, "\(text)")
            let written = try #require(Base64.decode(answer[2]))
            #expect(written != body && StripeSignatureTests.judge(answer[3], body: written) == .authentic)
            #expect(StripeSignatureTests.judge(answer[1], body: written) == .refused(.wrongSignature))
            #expect(try Self.said(stripe(String(decoding: written, as: UTF8.self))) == Self.said(stripe(text)))
        }
        #expect(bodies.count > 30)
    }

    @Test("It refuses the signatures that are refused here")
    func faults() throws {
        let good = try Self.signed(StripeSignatureTests.body)
        let hex = StripeSignatureTests.hex
        #expect(good.header == StripeSignatureTests.signed)
        var cases: [Case] = []
        for header in [
            "", "t=1790000000", "v1=\(hex)", "t=1790000000,v0=\(hex)", "t=1790000001,v1=\(hex)", "t=x,v1=\(hex)",
            "t=1790000000,v1=\(StripeSignatureTests.wrong)", "t=1790000000,v1=\(hex.dropLast())", hex,
        ] {
            var one = good
            one.header = header
            cases.append(one)
        }
        var changed = good
        changed.body = Base64.encode(StripeSignatureTests.body + [0x20])
        var bare = good
        bare.secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        cases += [changed, bare]
        for (one, answer) in zip(cases, try Self.answers(cases)) {
            #expect(answer[0] == "bad", "\(one)")
            let body = try #require(Base64.decode(one.body))
            let source = stripeSource(secrets: [one.secret])
            #expect(StripeSignatureTests.judge(one.header, body: body, source: source) != .authentic, "\(one)")
        }
        // While a secret is rolled there are two, of which one is good.
        var rolled = good
        rolled.header = "t=1790000000,v1=\(StripeSignatureTests.wrong),v1=\(hex)"
        #expect(try Self.answers([rolled])[0][0] == "good")
        #expect(StripeSignatureTests.judge(rolled.header) == .authentic)
    }

    @Test("It takes thin events for other things than snapshots, and so they are quarantined here")
    func thin() throws {
        for body in [StripeFixtures.thin, StripeFixtures.ping] {
            #expect(try Self.answers([Self.signed(Array(body.utf8))])[0][0] == "other")
        }
        #expect(stripeReason(StripeFixtures.thin) != nil)
    }
}
