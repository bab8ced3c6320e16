import Foundation
import NIOCore
import Spool
import Synchronization
import Testing
import Vocabulary

@testable import HTTPServer
@testable import Inbound
@testable import Ledger

/// Which webhooks go to the spool, and how they are answered. Oracle: posthouse-operate(7), "The spool".
@Suite("A webhook that the ledger does not take")
struct SpoolFallbackTests {
    /// A spool in a directory of its own, and the path of a source to it.
    private final class Place: Sendable {
        let spool: Spool
        let fallback: SpoolFallback
        private let root: String
        private let seen = Mutex<[String]>([])

        init(max bytesMax: Int = 1 << 30) async throws {
            root = NSTemporaryDirectory() + "/phinbound-\(UUID().uuidString)"
            spool = try await Spool.open(
                directory: root, bytesMax: bytesMax, now: { Timestamp(milliseconds: 5_000) }, observe: { _ in })
            let reachability = Reachability()
            self.reachability = reachability
            fallback = SpoolFallback(spool: spool) { reachability.now.withLock { $0 } }
        }

        final class Reachability: Sendable { let now = Mutex(true) }
        let reachability: Reachability

        deinit { try? FileManager.default.removeItem(atPath: root) }

        var refusals: [String] { seen.withLock { $0 } }
        var webhooks: [SpooledWebhook] { get async { await spool.read(await spool.files()).map(\.webhook) } }

        func path(
            _ queue: RecordQueue, source: Source = SpoolFallbackTests.source, adapter: any SourceAdapter = Apphud(),
            enricher: Enricher? = nil, now: @escaping @Sendable () -> Timestamp = { Timestamp(milliseconds: 7_000) }
        ) -> InboundPath {
            InboundPath(
                source: source, adapter: adapter, enricher: enricher, queue: queue, spooling: fallback, now: now,
                observe: { [self] observation in
                    if case .refused(_, let status, let reason) = observation {
                        seen.withLock { $0.append("\(status) \(reason)") }
                    }
                })
        }
    }

    fileprivate static let source = Source(
        name: "hud", kind: .apphud, authentication: .token, secrets: [Secret(Array("s".utf8))], app: nil,
        defaultEnvironment: nil, freshness: nil)
    private static let body = Array(#"{"event":{}}"#.utf8)

    private static func request(
        _ headers: [(String, String)] = [("X-Apphud-Token", "s")], source: String = "hud", body: [UInt8] = body
    ) -> IncomingRequest {
        IncomingRequest(
            head: IncomingHead(method: "POST", target: "/ingest/\(source)", headers: headers), body: body,
            startedAt: .now())
    }

    private func receive(_ request: IncomingRequest, by path: InboundPath) async -> Int {
        await withCheckedContinuation { continuation in
            path.receive(request) { continuation.resume(returning: $0.status) }
        }
    }

    @Test("A full queue and a closed one spool; a webhook that is not authentic is never written")
    func queue() async throws {
        let place = try await Place()
        for queue in [RecordQueue(eventsMax: 0, writers: 1), RecordQueue(writers: 1)] {
            queue.close()
            #expect(await receive(Self.request(), by: place.path(queue)) == 200)
        }
        #expect(await receive(Self.request([]), by: place.path(RecordQueue(eventsMax: 0, writers: 1))) == 401)
        let webhooks = await place.webhooks
        #expect(webhooks.map(\.body) == [Self.body, Self.body] && webhooks.map(\.source) == ["hud", "hud"])
        #expect(webhooks.allSatisfy { $0.headers.isEmpty && $0.receivedAt.milliseconds == 7_000 })
        #expect(place.refusals.count == 1)
        await place.spool.close()
    }

    @Test("While the database is known to be away, the queue is not asked")
    func away() async throws {
        let place = try await Place()
        place.reachability.now.withLock { $0 = false }
        let queue = RecordQueue(writers: 1)
        #expect(await receive(Self.request(), by: place.path(queue)) == 200)
        #expect(queue.depth == 0 && place.spool.figures.webhooks == 1)
        await place.spool.close()
    }

    @Test("A webhook that is not committed in time is spooled, and so is what follows until one is committed")
    func silence() async throws {
        let place = try await Place()
        let queue = RecordQueue(writers: 1)
        let path = place.path(queue)
        let answered = Mutex<[Int]>([])
        let began = ContinuousClock.now
        path.receive(Self.request()) { answer in answered.withLock { $0.append(answer.status) } }
        #expect(queue.depth == 1)
        place.fallback.expire(at: began)
        #expect(place.spool.figures.webhooks == 0, "it has its time")
        place.fallback.expire(at: .now + Limits.spoolTimeout)
        #expect(await comesToHold { answered.withLock { $0 } == [200] })
        // From then on the silence lasts for some seconds; by another one it lasts for longer than this test.
        place.fallback.given(place.fallback.watch(until: .now) { _ in })
        place.fallback.expire(at: .now + .seconds(3_600))
        #expect(await receive(Self.request(), by: path) == 200)
        #expect(queue.depth == 1 && place.spool.figures.webhooks == 2)

        // The ledger commits the first after all: it is a duplicate later, and the next webhook is given to the ledger.
        let pending = try #require(await queue.next(for: 0, upTo: 10))
        for item in pending {
            item.submitter.fallback?.committed()
            item.submitter.completion(.stored)
        }
        path.receive(Self.request()) { _ in }
        #expect(queue.depth == 1 && place.spool.figures.webhooks == 2)
        await place.spool.close()
    }

    @Test("A webhook that is still being asked about when its time is over is spooled, and the others are not")
    func asking() async throws {
        let place = try await Place()
        let (held, release) = AsyncStream<Void>.makeStream()
        let lookups = Enricher.Lookups(
            event: { _ in
                for await _ in held {}
                throw EnricherTests.NoDatabase()
            }, token: { _, _ in nil })
        let enricher = try EnricherTests.enricher(FakeServers(FakeServers.google { _ in (200, "") }), lookups)
        let token = [("authorization", "Bearer " + (try PubSubFixtures.token()))]
        let source = googlePlaySource(api: StoreAPI(account: nil, url: StoreRequestFixtures.apiURL))
        let body = Array(GooglePlayFixtures.subscription(2).utf8)
        let queue = RecordQueue(writers: 1)
        let path = place.path(
            queue, source: source, adapter: GooglePlay(keys: PubSubFixtures.lookup), enricher: enricher,
            now: { PubSubFixtures.now })
        let answered = Mutex<[Int]>([])
        path.receive(Self.request(token, source: "play", body: body)) { answer in
            answered.withLock { $0.append(answer.status) }
        }
        place.fallback.expire(at: .now + Limits.spoolTimeout)
        #expect(await comesToHold { answered.withLock { $0 } == [200] })
        #expect(place.spool.figures.webhooks == 1 && queue.depth == 0)
        #expect(place.fallback.problem == nil, "it says nothing of the database")
        release.finish()
        await place.spool.close()
    }

    @Test("A webhook that is committed and waits for its confirmation is not spooled")
    func confirmed() async throws {
        let place = try await Place()
        let queue = RecordQueue(writers: 1)
        place.path(queue).receive(Self.request()) { _ in }
        for item in await queue.next(for: 0, upTo: 10) ?? [] { item.submitter.fallback?.committed() }
        place.fallback.expire(at: .now + .seconds(60))
        #expect(place.fallback.problem == nil && place.spool.figures.webhooks == 0)
        await place.spool.close()
    }

    @Test("A spool without room answers 503, and the journal says why")
    func full() async throws {
        let place = try await Place(max: 1)
        let queue = RecordQueue(eventsMax: 0, writers: 1)
        #expect(await receive(Self.request(), by: place.path(queue)) == 503)
        #expect(place.refusals.count == 1 && place.refusals[0].hasPrefix("503 the spool is full"))
        await place.spool.close()
    }

    @Test("What the store could not be asked about is spooled as it came, and asked about when it is recorded")
    func storeUnavailable() async throws {
        let place = try await Place()
        let lookups = EnricherTests.Known(isRecorded: false).lookups
        let enricher = try EnricherTests.enricher(FakeServers(FakeServers.google { _ in (500, "") }), lookups)
        let token = [("authorization", "Bearer " + (try PubSubFixtures.token()))]
        let source = googlePlaySource(api: StoreAPI(account: nil, url: StoreRequestFixtures.apiURL))
        let body = Array(GooglePlayFixtures.subscription(2).utf8)
        let path = place.path(
            RecordQueue(writers: 1), source: source, adapter: GooglePlay(keys: PubSubFixtures.lookup),
            enricher: enricher, now: { PubSubFixtures.now })
        #expect(await receive(Self.request(token, source: "play", body: body), by: path) == 200)
        let webhooks = await place.webhooks
        #expect(webhooks.map(\.body) == [body] && webhooks.allSatisfy(\.headers.isEmpty), "the token is no part of it")
        await place.spool.close()
    }

    @Test("Of the headers only those that the adapter reads are kept: the message's id, not its signature")
    func headers() async throws {
        let place = try await Place()
        let secret = Secret(Array("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".utf8))
        let source = Source(
            name: "app", kind: .sessions, authentication: .signature, secrets: [secret], app: nil,
            defaultEnvironment: nil, freshness: nil, spooling: .required)
        let proof = StandardWebhooksSignature.headers(body: Self.body, unixSeconds: 7, secret: secret)
        let path = place.path(RecordQueue(eventsMax: 0, writers: 1), source: source, adapter: Sessions())
        let headers = proof.map { ($0.name, $0.value) }
        #expect(await receive(Self.request(headers, source: "app"), by: path) == 200)
        let kept = try #require(await place.webhooks.first)
        #expect(kept.headers.map(\.name) == ["webhook-id"] && kept.header("webhook-id") == headers.first?.1)
        await place.spool.close()
    }

    @Test("A webhook from the spool goes to the queue, or to quarantine if it cannot be read")
    func recorded() async throws {
        let place = try await Place()
        let queue = RecordQueue(writers: 1)
        let outcomes = Mutex<[Bool]>([])
        let spooled = SpooledWebhook(
            source: "hud", receivedAt: Timestamp(milliseconds: 0), headers: [], body: Self.body)
        for _ in 0..<2 { place.path(queue).record(spooled) { done in outcomes.withLock { $0.append(done) } } }
        let pending = try #require(await queue.next(for: 0, upTo: 10))
        for item in pending {
            guard case .quarantine = item.item else {
                Issue.record("it has no event name")
                continue
            }
        }
        pending.first?.submitter.fallback?.committed()
        pending.first?.submitter.completion(.stored)
        pending.last?.submitter.answerUnavailable("no database")
        #expect(outcomes.withLock { $0 } == [true, false] && place.refusals.isEmpty)
        await place.spool.close()
    }
}
