import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Which questions follow which answers. Oracle: the chains are written out by hand; what an answer may mean is from
/// Google's pages "Subscription lifecycle" and "Errors" of the API.
@Suite("What the API is asked about one event")
struct GooglePlayEnrichmentTests {
    typealias Fixtures = GooglePlayFixtures

    /// Four tokens of one purchase, oldest first: each change of plan made the next.
    static let a = Fixtures.otherToken("a")
    static let b = Fixtures.otherToken("b")
    static let c = Fixtures.otherToken("c")
    static let d = Fixtures.otherToken("d")

    static func known(
        _ token: String, first: String, environment: String? = nil, isReplaced: Bool = false
    ) -> KnownToken {
        KnownToken(
            token: GooglePlayToken(token).id, first: Fixtures.name(first), environment: environment,
            isReplaced: isReplaced)
    }

    static func questions(_ tokens: String...) -> [GooglePlayEnrichment.Question] {
        tokens.map { .subscription(GooglePlayToken($0)) }
    }

    static func reason(_ step: GooglePlayEnrichment.Step?) -> String? {
        switch step {
        case .cannotSay(let reason)?, .unusable(let reason)?: reason
        default: nil
        }
    }

    @Test("Each kind of purchase has its own question; nothing else is asked")
    func first() throws {
        let token = GooglePlayToken(Fixtures.token)
        let expected: [(String, GooglePlayEnrichment.Question?)] = [
            (Fixtures.subscription(2), .subscription(token)), (Fixtures.subscription(99), .subscription(token)),
            (Fixtures.oneTimeProduct(1), .product(token)), (Fixtures.voided(), .product(token)),
            (Fixtures.voided(productType: "1"), .subscription(token)), (Fixtures.voided(productType: "9"), nil),
            (Fixtures.pendingRefundReview, nil), (Fixtures.test, nil), (Fixtures.unknown, nil),
        ]
        for (body, question) in expected {
            var play = FakePlay()
            let step = try play.run(body)
            #expect(play.asked == (question.map { [$0] } ?? []))
            #expect((step == nil) == (question == nil))
        }
    }

    @Test("The path names app and token, escaped")
    func target() {
        let odd = GooglePlayToken("t%41/ü~")
        #expect(
            GooglePlayEnrichment.Question.subscription(odd).target(package: "com.example.app")
                == "/androidpublisher/v3/applications/com.example.app/purchases/subscriptionsv2/tokens/"
                + "t%2541%2F%C3%BC~")
        #expect(
            GooglePlayEnrichment.Question.product(GooglePlayToken("a.B_c-1")).target(package: "a/b?c")
                == "/androidpublisher/v3/applications/a%2Fb%3Fc/purchases/productsv2/tokens/a.B_c-1")
    }

    // MARK: The chain

    @Test("A chain is followed to its first token, which is the key of the purchase at every change of plan")
    func chain() throws {
        var play = FakePlay([
            Self.a: (200, Fixtures.state()), Self.b: (200, Fixtures.linked(to: Self.a)),
            Self.c: (200, Fixtures.linked(to: Self.b)),
        ])
        let event = try play.event(Fixtures.subscription(4, token: Self.c))
        #expect(play.asked == Self.questions(Self.c, Self.b, Self.a))
        #expect(play.lookedUp == [GooglePlayToken(Self.b), GooglePlayToken(Self.a)])
        #expect(event.purchase?.key == Fixtures.name(Self.a))
        #expect(event.holder == Holder.user(Fixtures.account))
        let rows = event.tokens
        #expect(
            rows == [
                Self.known(Self.c, first: Self.a, environment: "PRODUCTION"),
                Self.known(Self.b, first: Self.a, environment: "PRODUCTION", isReplaced: true),
                Self.known(Self.a, first: Self.a, environment: "PRODUCTION", isReplaced: true),
            ])
        for (token, expected) in [(Self.a, 1), (Self.b, 2)] {
            var earlier = FakePlay(play.answers)
            let event = try earlier.event(Fixtures.subscription(2, token: token))
            #expect(event.purchase?.key == Fixtures.name(Self.a))
            #expect(earlier.asked.count == expected)
        }
    }

    @Test("The anonymous holder of a purchase stays the same through changes of plan")
    func anonymousHolder() throws {
        let anonymous: BodyEdit.Fields = [(key: "externalAccountIdentifiers", raw: nil)]
        var play = FakePlay([
            Self.a: (200, Fixtures.state("ACTIVE", anonymous)),
            Self.b: (200, Fixtures.linked(to: Self.a, anonymous)),
        ])
        let event = try play.event(Fixtures.subscription(4, token: Self.b))
        #expect(event.holder == Holder.anonymous(Fixtures.name(Self.a)))
    }

    @Test("A link that the ledger knows ends the walk with the ledger's first token")
    func knownLink() throws {
        var play = FakePlay(
            [Self.c: (200, Fixtures.linked(to: Self.b)), Self.d: (200, Fixtures.linked(to: Self.c))],
            known: [Self.b: Self.known(Self.b, first: Self.a, environment: "PRODUCTION")])
        let event = try play.event(Fixtures.subscription(4, token: Self.d))
        #expect(play.asked == Self.questions(Self.d, Self.c))
        #expect(event.purchase?.key == Fixtures.name(Self.a))
        let rows = event.tokens
        #expect(rows.map(\.token) == [Self.d, Self.c, Self.b].map { GooglePlayToken($0).id })
        #expect(rows.map(\.isReplaced) == [false, true, true])
        #expect(rows.allSatisfy { $0.first == Fixtures.name(Self.a) })
    }

    @Test("A purchase goes on in the environment in which it was recorded")
    func knownEnvironment() throws {
        let tester = Fixtures.linked(to: Self.a, [(key: "testPurchase", raw: "{}")])
        var play = FakePlay(
            [Self.b: (200, tester)], known: [Self.a: Self.known(Self.a, first: Self.a, environment: "PRODUCTION")])
        let event = try play.event(Fixtures.subscription(4, token: Self.b))
        #expect(event.scope.environment == "PRODUCTION")
        #expect(event.tokens.map(\.environment) == ["PRODUCTION", "PRODUCTION"])
    }

    @Test("A token that the ledger knows is asked about, and its links are not")
    func knownToken() throws {
        var play = FakePlay(
            [Self.b: (200, Fixtures.linked(to: Self.a))], known: [Self.b: Self.known(Self.b, first: Self.b)])
        let event = try play.event(Fixtures.subscription(2, token: Self.b))
        #expect(play.asked == Self.questions(Self.b) && play.lookedUp.isEmpty)
        #expect(event.purchase?.key == Fixtures.name(Self.b), "what was taken for the first stays it")
    }

    @Test("A link that the API has forgotten is the first token, for this event and the next", arguments: [404, 410])
    func brokenChain(_ status: Int) throws {
        var play = FakePlay([
            Self.b: (status, Fixtures.gone), Self.c: (200, Fixtures.linked(to: Self.b)),
            Self.d: (200, Fixtures.linked(to: Self.c)),
        ])
        let event = try play.event(Fixtures.subscription(4, token: Self.d))
        #expect(play.asked == Self.questions(Self.d, Self.c, Self.b))
        #expect(event.purchase?.key == Fixtures.name(Self.b))
        #expect(event.stated.map(\.kind) == [.gain])
        let rows = event.tokens
        let row = try #require(rows.first { $0.token == GooglePlayToken(Self.b).id })
        #expect(row.isReplaced)
        var late = FakePlay([Self.b: (410, Fixtures.gone)], known: [Self.b: row])
        let ended = try late.event(Fixtures.subscription(13, token: Self.b))
        #expect(ended.purchase?.key == event.purchase?.key && ended.facts.isEmpty)
    }

    @Test("A circle ends, with the same first token wherever it is entered")
    func circle() throws {
        let answers: [String: FakePlay.Answer] = [
            Self.a: (200, Fixtures.linked(to: Self.c)), Self.b: (200, Fixtures.linked(to: Self.a)),
            Self.c: (200, Fixtures.linked(to: Self.b)), Self.d: (200, Fixtures.linked(to: Self.c)),
        ]
        var keys: Set<String> = []
        for token in [Self.a, Self.b, Self.c, Self.d] {
            var play = FakePlay(answers)
            let event = try play.event(Fixtures.subscription(2, token: token))
            keys.insert(event.purchase?.key ?? "none")
            #expect(play.asked.count == (token == Self.d ? 4 : 3))
        }
        #expect(keys == [Fixtures.name(Self.a)])
        var own = FakePlay([Self.a: (200, Fixtures.linked(to: Self.a))])
        let event = try own.event(Fixtures.subscription(2, token: Self.a))
        #expect(event.purchase?.key == Fixtures.name(Self.a))
        #expect(own.asked.count == 1)
    }

    @Test("At most eight links are followed; the oldest one reached is the first")
    func longChain() throws {
        let letters = Array("abcdefghijkl").map { Fixtures.otherToken(String($0)) }
        func answers(_ count: Int) -> [String: FakePlay.Answer] {
            var answers: [String: FakePlay.Answer] = [letters[0]: (200, Fixtures.state())]
            for index in 1..<count { answers[letters[index]] = (200, Fixtures.linked(to: letters[index - 1])) }
            return answers
        }
        for (count, first, asked) in [(9, 0, 9), (10, 1, 9), (12, 3, 9)] {
            var play = FakePlay(answers(count))
            let event = try play.event(Fixtures.subscription(4, token: letters[count - 1]))
            #expect(event.purchase?.key == Fixtures.name(letters[first]))
            #expect(play.asked.count == asked)
        }
    }

    // MARK: Answers that say nothing

    static let nothing: [FakePlay.Answer] = [
        (401, Fixtures.state()), (403, Fixtures.state()), (429, Fixtures.state()), (500, Fixtures.state()),
        (503, Fixtures.state()), (404, "{}"), (404, "<html>"),
        (404, #"{"error":{"code":404,"errors":[{"reason":"applicationNotFound"}]}}"#),
    ]

    /// What would be answered the same again.
    static let useless: [FakePlay.Answer] = [
        (302, Fixtures.state()), (400, Fixtures.state()), (400, #"{"error":{"errors":[{"reason":"invalid"}]}}"#),
        (200, ""), (200, "<html>"), (200, Fixtures.state("ACTIVE", Fixtures.items())),
        (200, Fixtures.state("CANCELED", Fixtures.items(Fixtures.item([(key: "expiryTime", raw: "7")])))),
        (200, "{}"), (200, "[]"), (200, #"{"subscriptionState":7}"#),
        (200, #"{"subscriptionState":"SUBSCRIPTION_STATE_ACTIVE""#),
        (200, Fixtures.state("ACTIVE", [(key: "latestOrderId", raw: #""\u0000""#)])),
    ]

    @Test("An answer that says nothing of the purchase is no end: the event must come again, or wait for a person")
    func cannotSay() throws {
        let answers = Self.nothing.map { ($0, "cannot say") } + Self.useless.map { ($0, "unusable") }
        for (answer, kind) in answers {
            var own = FakePlay([Self.c: answer])
            let step = try own.run(Fixtures.subscription(13, token: Self.c))
            #expect(step?.kind == kind, "\(answer.status)")
            var link = FakePlay([Self.c: (200, Fixtures.linked(to: Self.b)), Self.b: answer])
            let linkStep = try link.run(Fixtures.subscription(4, token: Self.c))
            #expect(linkStep?.kind == kind, "\(answer.status)")
            var second = FakePlay([
                Self.c: (200, Fixtures.linked(to: Self.b)), Self.b: (200, Fixtures.linked(to: Self.a)), Self.a: answer,
            ])
            let secondStep = try second.run(Fixtures.subscription(4, token: Self.c))
            #expect(secondStep?.kind == kind, "\(answer.status)")
            for reason in [step, linkStep, secondStep].map(Self.reason) {
                #expect(reason?.isEmpty == false)
                for token in [Self.a, Self.b, Self.c] {
                    #expect(reason?.contains(token.prefix(20)) == false, "a reason quotes a token")
                }
            }
        }
    }

    @Test("A question about a product has its own answers")
    func products() throws {
        for (status, body, kind) in [
            (200, Fixtures.product(), "answered 200"), (410, Fixtures.gone, "answered 410"),
            (404, Fixtures.unknownToken, "answered 404"),
            (200, Fixtures.state(), "unusable"), (200, "{}", "unusable"), (429, "{}", "cannot say"),
        ] {
            var play = FakePlay([Fixtures.token: (status, body)])
            let step = try play.run(Fixtures.oneTimeProduct(1))
            #expect(step?.kind == kind)
            #expect(play.asked == [.product(GooglePlayToken(Fixtures.token))])
        }
    }

    @Test("An answer beyond the limit says nothing")
    func longAnswer() throws {
        let blanks = String(repeating: " ", count: GooglePlayEnrichment.answerBytesMax)
        var play = FakePlay([Fixtures.token: (200, Fixtures.state() + blanks)])
        let step = try play.run(Fixtures.subscription(2))
        #expect(step?.kind == "unusable")
    }

    @Test("An answer that is nested as deeply as can be read is not stored where it could not be read again")
    func nestedAnswer() throws {
        for depth in [100, Limits.jsonDepthMax - 1, Limits.jsonDepthMax, Limits.jsonDepthMax + 1] {
            let nested = String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1)
            let answer = Fixtures.state("ACTIVE", [(key: "etag", raw: nested)])
            var play = FakePlay([Fixtures.token: (200, answer)])
            let step = try play.run(Fixtures.subscription(2))
            // In the document the answer is nested once more.
            #expect(step?.kind == (depth < Limits.jsonDepthMax ? "answered 200" : "unusable"))
        }
    }

    @Test(
        "A purchase that is recorded by its name alone keeps its token's name and environment", arguments: [404, 410])
    func recordedByName(_ status: Int) throws {
        let source = googlePlaySource(defaultEnvironment: "STAGING")
        var play = FakePlay([Self.b: (status, Fixtures.unknownToken)])
        let event = try play.event(Fixtures.subscription(4, token: Self.b), from: source)
        let row = Self.known(Self.b, first: Self.b, environment: "STAGING")
        #expect(event.answer != nil && event.tokens == [row])
        let notAsked = try googlePlay(Fixtures.subscription(4, token: Self.b), from: source)
        #expect(notAsked.answer == nil && notAsked.tokens == [row])
        // What the API says of it later: an upgrade of a tester's.
        let tester = Fixtures.linked(to: Self.a, [(key: "testPurchase", raw: "{}")])
        var later = FakePlay([Self.b: (200, tester)], known: [Self.b: row])
        let renewed = try later.event(Fixtures.subscription(2, token: Self.b), from: source)
        #expect(renewed.purchase?.key == Fixtures.name(Self.b) && renewed.scope.environment == "STAGING")
        #expect(renewed.tokens == [row], "the purchase before it is another one, and goes on by itself")
    }

    @Test("400 with the reason of forgotten subscriptions ends only what the notification says has ended")
    func forgotten() throws {
        let body = #"{"error":{"code":400,"errors":[{"reason":"failedPrecondition"}]}}"#
        var play = FakePlay([Fixtures.token: (400, body)])
        for push in [Fixtures.subscription(13), Fixtures.subscription(12), Fixtures.voided()] {
            let step = try play.run(push)
            #expect(step?.kind == "answered 400")
            let event = try play.event(push)
            #expect(event.facts.map(\.kind) == [.loss])
        }
        for push in [
            Fixtures.subscription(2), Fixtures.subscription(3), Fixtures.subscription(4), Fixtures.subscription(19),
            Fixtures.oneTimeProduct(1), Fixtures.voided(refundType: "2"), Fixtures.voided(productType: "1"),
        ] {
            let step = try play.run(push)
            #expect(step?.kind == "unusable")
        }
        let calledOff = try play.run(Fixtures.subscription(20))
        #expect(calledOff?.kind == "answered 400")
        var chain = FakePlay([Self.a: (400, body), Self.b: (200, Fixtures.linked(to: Self.a))])
        let upgrade = try chain.event(Fixtures.subscription(4, token: Self.b))
        #expect(upgrade.purchase?.key == Fixtures.name(Self.a) && upgrade.stated.map(\.kind) == [.gain])
    }

    @Test("A 400 that is stored with a renewal is read as the end that it was recorded as")
    func storedForgotten() throws {
        let answer = GooglePlayAnswer.Record(
            askedAt: Fixtures.askedAt, kind: .subscription, status: 400, purchase: nil, links: [],
            first: Fixtures.name(), known: nil
        ).write()
        let event = try GooglePlay().normalise(
            Array(Fixtures.subscription(2).utf8), answer: answer, from: googlePlaySource())
        #expect(event.facts.map(\.kind) == [.loss])
    }

    @Test("A plan that is pending or was called off replaces nothing and states nothing of the product")
    func calledOffUpgrade() throws {
        for (number, state) in [
            (4, "PENDING"), (20, "PENDING_PURCHASE_CANCELED"), (20, "EXPIRED"), (4, "UNSPECIFIED"),
        ] {
            let link: BodyEdit.Fields = [(key: "linkedPurchaseToken", raw: "\"\(Self.a)\"")]
            var play = FakePlay([Self.a: (200, Fixtures.state()), Self.b: (200, Fixtures.state(state, link))])
            let event = try play.event(Fixtures.subscription(number, token: Self.b))
            #expect(event.tokens.isEmpty, "\(state)")
            #expect(event.purchase?.key == Fixtures.name(Self.a))
            guard state.hasPrefix("PENDING") else { continue }
            #expect(event.purchase?.product == nil && event.purchase?.plan == nil && event.transaction == nil)
        }
    }

    @Test("Without the API the ledger alone is asked: a token keeps the purchase that it was recorded with")
    func withoutAPI() throws {
        var play = FakePlay()
        play.asksAPI = false
        let new = try play.run(Fixtures.subscription(2, token: Self.b))
        #expect(new?.kind == "as it is" && play.asked.isEmpty)
        play.known = [Self.b: Self.known(Self.b, first: Self.a, environment: "SANDBOX")]
        let event = try play.event(Fixtures.subscription(2, token: Self.b))
        #expect(play.asked.isEmpty && event.answer != nil)
        #expect(event.purchase?.key == Fixtures.name(Self.a) && event.scope.environment == "SANDBOX")
        #expect(event.holder == Holder.anonymous(Fixtures.name(Self.a)) && event.facts.map(\.isNamed) == [false])
        #expect(event.facts.map(\.at) == [Fixtures.occurredAt] && event.asOf == Fixtures.occurredAt)
        play.known = [Self.b: Self.known(Self.b, first: Self.a, isReplaced: true)]
        let late = try play.event(Fixtures.subscription(13, token: Self.b))
        #expect(late.facts.isEmpty)
    }

    @Test("A whole void ends its token for good, whatever is read of it later", arguments: [200, 404, 410])
    func voided(_ status: Int) throws {
        let body = status == 200 ? Fixtures.product() : Fixtures.unknownToken
        var play = FakePlay([Fixtures.token: (status, body)])
        let event = try play.event(Fixtures.voided())
        // The API names the account beside it.
        let kinds: [Fact.Kind] = status == 200 ? [.naming, .loss] : [.loss]
        #expect(event.facts.map(\.kind) == kinds)
        #expect(event.facts.allSatisfy { $0.at == Fixtures.askedAt })
        let row = try #require(event.tokens.first)
        #expect(event.tokens.count == 1 && row.isReplaced)
        var late = FakePlay([Fixtures.token: (200, Fixtures.product())], known: [Fixtures.token: row])
        let bought = try late.event(Fixtures.oneTimeProduct(1))
        #expect(bought.facts.isEmpty && bought.purchase?.key == event.purchase?.key)
        let part = try googlePlay(Fixtures.voided(refundType: "2"))
        #expect(part.tokens.map(\.isReplaced) == [false])
    }

    @Test("A person's name and addresses of a Google account are neither stored nor sent")
    func withoutPerson() throws {
        let person: BodyEdit.Fields = [
            (key: "subscribeWithGoogleInfo", raw: #"{"emailAddress":"ada@example.com","givenName":"Ada"}"#)
        ]
        var play = FakePlay([
            Self.a: (200, Fixtures.state("ACTIVE", person)), Self.b: (200, Fixtures.linked(to: Self.a, person)),
        ])
        let event = try play.event(Fixtures.subscription(4, token: Self.b))
        let answer = String(decoding: try #require(event.answer), as: UTF8.self)
        let decoded = String(decoding: try #require(event.decoded), as: UTF8.self)
        for text in [answer, decoded] {
            #expect(!text.contains("Ada") && !text.contains("subscribeWithGoogleInfo"))
            #expect(text.contains("linkedPurchaseToken") && text.contains("obfuscatedExternalAccountId"))
        }
    }

    // MARK: Use

    @Test("A call out of turn says nothing of the purchase")
    func outOfTurn() throws {
        let notice = try GooglePlayNotice(Array(Fixtures.subscription(2).utf8))
        let body = Array(Fixtures.linked(to: Self.a).utf8)
        var early = try #require(GooglePlayEnrichment(notice))
        let notAsked = early.answered(status: 200, body: body)
        #expect(notAsked.kind == "cannot say")
        var twice = try #require(GooglePlayEnrichment(notice))
        _ = twice.start(known: nil, askedAt: Fixtures.askedAt)
        let again = twice.start(known: nil, askedAt: Fixtures.askedAt)
        #expect(again.kind == "cannot say")
        var unsought = try #require(GooglePlayEnrichment(notice))
        _ = unsought.start(known: nil, askedAt: Fixtures.askedAt)
        let found = unsought.found(nil)
        #expect(found.kind == "cannot say")
        var over = try #require(GooglePlayEnrichment(notice))
        _ = over.start(known: nil, askedAt: Fixtures.askedAt)
        let end = over.answered(status: 410, body: [])
        let after = over.answered(status: 200, body: body)
        #expect(end.kind == "answered 410" && after.kind == "cannot say")
    }

    @Test("Steps and questions print no token")
    func printing() throws {
        var play = FakePlay([Self.c: (200, Fixtures.linked(to: Self.b))])
        _ = try play.run(Fixtures.subscription(2, token: Self.c))
        var shown = "\(play.asked) \(play.lookedUp)"
        debugPrint(play.asked, play.lookedUp, to: &shown)
        dump(play.asked, to: &shown)
        #expect(shown.contains(Fixtures.name(Self.c)) && !shown.contains(Self.c) && !shown.contains("9876543210"))
    }

    @Test("A broken answer traps nowhere, and what is stored can be read again")
    func mutations() throws {
        var answers = Mutations(
            of: [Fixtures.state(), Fixtures.linked(to: Self.b), Fixtures.product(), Fixtures.gone], seed: 20_261_003)
        for _ in 0..<2_000 {
            let answer = String(decoding: answers.next(), as: UTF8.self)
            for body in [Fixtures.subscription(2), Fixtures.oneTimeProduct(1)] {
                var play = FakePlay([Fixtures.token: (200, answer)])
                let step = try play.run(body)
                guard let document = step?.document else { continue }
                _ = try GooglePlay().normalise(Array(body.utf8), answer: document, from: googlePlaySource())
            }
        }
    }
}
