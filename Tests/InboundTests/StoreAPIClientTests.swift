import Testing
import Vocabulary

@testable import Inbound

/// Oracle: the requests and answers, written out by hand after RFC 6749, RFC 6750 and RFC 7523.
@Suite("How a store's API is asked")
struct StoreAPIClientTests {
    private static func ask(
        _ client: StoreAPIClient, _ target: String = "/v3/a", about app: String = "com.example.app",
        timeout: Duration = .seconds(4)
    ) async -> StoreAPIClient.Reply {
        await client.ask(target, about: app, timeout: timeout)
    }

    private static func bearer(_ request: OutgoingRequest) -> String? {
        request.headers.first { $0.name == "authorization" }
            .map { $0.value.withBytes { String(decoding: $0, as: UTF8.self) } }
    }

    @Test("An access token is asked for once, and every question carries it")
    func token() async throws {
        let (clock, servers) = (StoodClock(), FakeServers(FakeServers.google { _ in (200, "{}") }))
        let client = try StoreRequestFixtures.client(servers, clock)
        async let first = Self.ask(client, "/v3/a")
        async let second = Self.ask(client, "/v3/b")
        #expect(await [first, second] == Array(repeating: .answered(status: 200, body: Array("{}".utf8)), count: 2))
        let asked = servers.sent.filter { $0.method == .post }
        #expect(asked.count == 1 && asked.first?.url == StoreRequestFixtures.tokenURL)
        let form = String(decoding: asked.first?.body ?? [], as: UTF8.self)
        #expect(form.hasPrefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=ey"))
        let questions = servers.sent.filter { $0.method == .get }
        #expect(Set(questions.map(\.url.target)) == ["/v3/a", "/v3/b"])
        #expect(questions.allSatisfy { Self.bearer($0) == "Bearer ya29.first" })
        #expect(questions.allSatisfy { $0.url.host == "publisher.example.com" })
    }

    @Test("Shortly before its end another is asked for; while that fails, the old one is used to its end")
    func renewal() async throws {
        let (clock, servers) = (StoodClock(), FakeServers(FakeServers.google { _ in (200, "{}") }))
        let client = try StoreRequestFixtures.client(servers, clock)
        _ = await Self.ask(client)
        servers.answer { request in
            request.method == .post
                ? .failure(OutgoingFailure("refused")) : .success(OutgoingAnswer(status: 200, body: []))
        }
        clock.move(to: .seconds(3_500))
        #expect(await Self.ask(client) == .answered(status: 200, body: []))
        #expect(await comesToHold { servers.sent.count { $0.method == .post } == 2 })
        clock.move(to: .seconds(3_600))
        let late = await Self.ask(client)
        #expect(late == .failed(reason: "no access token from https://oauth2.example.com/…: refused"))
    }

    @Test("A token that the API refuses is replaced once")
    func refusedToken() async throws {
        let (clock, servers) = (StoodClock(), FakeServers(FakeServers.google { _ in (401, "{}") }))
        let client = try StoreRequestFixtures.client(servers, clock)
        #expect(await Self.ask(client) == .answered(status: 401, body: Array("{}".utf8)))
        #expect(servers.sent.map(\.method) == [.post, .get, .post, .get])
    }

    @Test("After five faults nothing is asked for a while, and the journal says so; an answer ends it")
    func breaker() async throws {
        let (clock, servers) = (StoodClock(), FakeServers(FakeServers.google { _ in (503, "") }))
        let client = try StoreRequestFixtures.client(servers, clock)
        for _ in 0..<5 { #expect(await Self.ask(client) == .answered(status: 503, body: [])) }
        let count = servers.sent.count
        let reason = "the API was out of reach a moment ago, and is tried again soon"
        #expect(await Self.ask(client) == .failed(reason: reason))
        #expect(servers.sent.count == count)
        let lost = "play lost api: https://publisher.example.com/ answered 503, asked about com.example.app"
        #expect(servers.observed == [lost])
        servers.answer(FakeServers.google { _ in (410, "") })
        clock.move(to: .seconds(2))
        #expect(await Self.ask(client) == .answered(status: 410, body: []))
        #expect(servers.observed.last == "play has api")
    }

    @Test("What is said of one purchase is no fault of the API", arguments: [200, 400, 404, 410])
    func answers(_ status: Int) async throws {
        let body = GooglePlayFixtures.unknownToken
        let (clock, servers) = (StoodClock(), FakeServers(FakeServers.google { _ in (status, body) }))
        let client = try StoreRequestFixtures.client(servers, clock)
        for _ in 0..<9 { #expect(await Self.ask(client) == .answered(status: status, body: Array(body.utf8))) }
        #expect(servers.observed.isEmpty)
    }

    @Test("An answer that is too long, and none, say nothing")
    func nothing() async throws {
        let (clock, servers) = (StoodClock(), FakeServers(FakeServers.google { _ in (200, "") }))
        let client = try StoreRequestFixtures.client(servers, clock)
        _ = await Self.ask(client)
        servers.answer { _ in .success(OutgoingAnswer(status: 200, body: nil)) }
        for _ in 0..<9 { #expect(await Self.ask(client) == .answered(status: 200, body: [])) }
        #expect(servers.observed.isEmpty, "its length is no fault of the API")
        servers.answer { _ in .failure(OutgoingFailure("timed out while connecting")) }
        let silent = "https://publisher.example.com/ does not answer: timed out while connecting"
        #expect(await Self.ask(client) == .failed(reason: silent))
    }

    @Test("A right that is missing for one app keeps no other app's webhooks waiting")
    func apps() async throws {
        let servers = FakeServers(FakeServers.google { $0 == "/v3/x" ? (403, "") : (200, "{}") })
        let client = try StoreRequestFixtures.client(servers, StoodClock())
        for _ in 0..<5 { _ = await Self.ask(client, "/v3/x", about: "com.example.x") }
        let reason = "the API was out of reach a moment ago, and is tried again soon"
        #expect(await Self.ask(client, "/v3/x", about: "com.example.x") == .failed(reason: reason))
        #expect(await Self.ask(client) == .answered(status: 200, body: Array("{}".utf8)))
        #expect(servers.observed.count == 1 && servers.observed.first?.hasSuffix("about com.example.x") == true)
    }

    @Test("A failure in less time than is fair is none of the API")
    func unfair() async throws {
        let servers = FakeServers { _ in .failure(OutgoingFailure("timed out")) }
        let client = try StoreRequestFixtures.client(servers, StoodClock())
        for _ in 0..<9 { _ = await Self.ask(client, timeout: .milliseconds(1_999)) }
        #expect(servers.observed.isEmpty)
        for _ in 0..<5 { _ = await Self.ask(client, timeout: .seconds(2)) }
        #expect(servers.observed.count == 1)
    }

    @Test("Requests that never got a connection here are no failures of the API, whatever they asked for")
    func withoutConnection() async throws {
        let waited = OutgoingFailure("timed out while it waited for a free connection", isOfServer: false)
        let google = FakeServers.google { _ in (200, "") }
        for isOfToken in [true, false] {
            let servers = FakeServers { request in
                (request.method == .post) == isOfToken ? .failure(waited) : google(request)
            }
            let client = try StoreRequestFixtures.client(servers, StoodClock())
            let what =
                isOfToken
                ? "no access token from https://oauth2.example.com/…"
                : "https://publisher.example.com/ has not answered"
            for _ in 0..<9 { #expect(await Self.ask(client) == .failed(reason: "\(what): \(waited.reason)")) }
            #expect(servers.observed.isEmpty)
            servers.answer(google)
            #expect(await Self.ask(client) == .answered(status: 200, body: []))
            // Only the one who sends it knows how long it waited for a connection.
            #expect(servers.sent.last?.fairTime == .seconds(2))
            // With less time left than that, what it had after a wait says nothing.
            _ = await Self.ask(client, timeout: .seconds(1))
            #expect(servers.sent.last?.fairTime == .zero)
        }
    }

    @Test("A webhook waits for an access token as long as for its answer, and no longer")
    func lateToken() async throws {
        let clock = StoodClock()
        let account = try ServiceAccount(StoreRequestFixtures.account, readURL: StoreRequestFixtures.readURL)
        let client = StoreAPIClient(
            source: "play", settings: StoreAPI(account: nil, url: StoreRequestFixtures.apiURL),
            account: .success(account),
            clock: clock.clock,
            send: { _ in
                await clock.clock.sleep(.seconds(100))
                return .failure(OutgoingFailure("late"))
            }, observe: { _ in })
        async let reply = Self.ask(client)
        #expect(await comesToHold { clock.alarms == [.seconds(4), .seconds(100)] })
        clock.move(to: .seconds(4))
        #expect(await reply == .failed(reason: "no access token came in time"))
        clock.move(to: .seconds(100))
    }

    @Test("At most 64 webhooks wait for it")
    func bounded() throws {
        let client = try StoreRequestFixtures.client(FakeServers(FakeServers.google { _ in (200, "") }), StoodClock())
        for _ in 0..<64 { #expect(client.begin()) }
        #expect(!client.begin())
        client.end()
        #expect(client.begin())
    }
}
