import Testing
import Vocabulary

@testable import Inbound

/// Oracle: how often Google's servers are asked.
@Suite("What sources need of their stores' servers")
struct StoreClientsTests {
    private static func source(
        _ name: String = "play", account: Secret? = StoreRequestFixtures.account, sender: String = PubSubFixtures.sender
    ) -> Source {
        let api = StoreAPI(account: account, url: StoreRequestFixtures.apiURL)
        let settings = GooglePlaySettings(
            packages: ["com.example.app"], audiences: [PubSubFixtures.audience], sender: sender, api: api)
        return Source(
            name: name, kind: .googlePlay, authentication: .token, secrets: [], app: nil, defaultEnvironment: nil,
            freshness: nil, settings: .googlePlay(settings))
    }

    private static func clients(_ servers: FakeServers, _ clock: StoodClock) -> StoreClients {
        StoreClients(
            clock: clock.clock, send: servers.send, readFile: { _, _ in .failure(OutgoingFailure("none")) },
            readURL: StoreRequestFixtures.readURL, observe: servers.observe)
    }

    private static func authenticity(_ stores: StoreClients, _ source: Source) throws -> Authenticity {
        let token = "Bearer " + (try PubSubFixtures.token())
        return stores.adapter(for: source).authenticate(
            header: { _ in token }, body: [], source: source, now: PubSubFixtures.now)
    }

    private static let script: FakeServers.Script = { request in
        if request.url.target == "/oauth2/v3/certs" {
            return .success(OutgoingAnswer(status: 200, body: Array(PubSubFixtures.document.utf8)))
        }
        return FakeServers.google { _ in (200, GooglePlayFixtures.state()) }(request)
    }

    @Test("A reload that changes nothing of them leaves them their keys, access tokens and breakers")
    func kept() async throws {
        let (clock, servers) = (StoodClock(), FakeServers(Self.script))
        let stores = Self.clients(servers, clock)
        let source = Self.source()
        stores.adopt([source])
        let lookups = EnricherTests.Known().lookups
        #expect(await comesToHold { (try? Self.authenticity(stores, source)) == .authentic })
        let enrichment = try EnricherTests.enrichment(GooglePlayFixtures.subscription(2))
        _ = await stores.enricher(for: source, lookups: lookups)?.run(enrichment)
        #expect(servers.targets.filter { $0 == "/token" }.count == 1)
        let renamed = Self.source(sender: "other@p.iam.gserviceaccount.com")
        stores.adopt([renamed])
        #expect(try Self.authenticity(stores, renamed) == .refused(.wrongSender))
        _ = await stores.enricher(for: renamed, lookups: lookups)?.run(enrichment)
        #expect(servers.targets.filter { $0 == "/token" || $0 == "/oauth2/v3/certs" }.count == 2)
        stores.stop()
        #expect(stores.enricher(for: source, lookups: lookups) == nil)
        #expect(try Self.authenticity(stores, source) == .unverifiable)
    }

    @Test("An account that cannot be used is named, and one that cannot be read here is not")
    func problems() {
        let broken = Self.source("broken", account: Secret([1]))
        let sources = [Self.source(), broken, Self.source(account: nil)]
        #expect(
            StoreClients.problems(in: sources, readURL: StoreRequestFixtures.readURL)
                == ["`api` of source broken: it is not the JSON document of a service account's key"])
    }

    @Test("What cannot be asked is unavailable, never recorded as if nothing were to be asked")
    func noAccount() async throws {
        let stores = Self.clients(FakeServers(Self.script), StoodClock())
        let source = Self.source(account: nil)
        stores.adoptAPIs([source])
        let enricher = try #require(stores.enricher(for: source, lookups: EnricherTests.Known().lookups))
        let outcome = await enricher.run(try EnricherTests.enrichment(GooglePlayFixtures.subscription(2)))
        let reason = "the service account's key cannot be used: it cannot be read here"
        #expect(outcome == .unavailable(reason: reason))
    }
}
