import NIOCore
import Synchronization
import Testing
import Vocabulary

@testable import HTTPServer
@testable import Inbound
@testable import Ledger

/// Where a webhook goes after its proof. Oracle: Architecture.md, "Acknowledgement".
@Suite("The path of a webhook up to the queue")
struct InboundPathTests {
    private final class Outcome: Sendable {
        let answer = Mutex<HTTPAnswer?>(nil)
        let observed = Mutex<[String]>([])

        var status: Int? { answer.withLock { $0?.status } }
        var retryAfter: String? {
            answer.withLock { answer in answer?.headers.first { $0.0 == "retry-after" }?.1 }
        }
        var text: String { answer.withLock { String(decoding: $0?.body ?? [], as: UTF8.self) } }
        var refusals: [String] { observed.withLock { $0 } }
    }

    /// The answer, the journal's lines, and what waits to be recorded.
    /// - Parameter age: of the request; nil: what is asked is asked within its time, however busy the machine is.
    private func receive(
        _ body: [UInt8], _ headers: [(String, String)] = [], from source: Source, by adapter: any SourceAdapter,
        asking enricher: Enricher? = nil, age: TimeAmount? = nil, closedBecause closed: String? = nil
    ) async -> (outcome: Outcome, queued: [RecordQueue.Item]) {
        let outcome = Outcome()
        let queue = RecordQueue(writers: 1)
        if let closed { queue.close(because: closed) }
        let path = InboundPath(
            source: source, adapter: adapter, enricher: enricher, queue: queue, now: { PubSubFixtures.now },
            observe: { observation in
                let text: String? =
                    switch observation {
                    case .refused(let source, let status, let reason): "\(source) \(status) \(reason)"
                    case .unverified(let source, let reason): "\(source) unverified: \(reason)"
                    default: nil
                    }
                if let text { outcome.observed.withLock { $0.append(text) } }
            })
        let head = IncomingHead(method: "POST", target: "/ingest/\(source.name)", headers: headers)
        let startedAt = NIODeadline.now() - (age ?? (enricher == nil ? .zero : .hours(-1)))
        path.receive(IncomingRequest(head: head, body: body, startedAt: startedAt)) { answer in
            outcome.answer.withLock { $0 = answer }
        }
        if enricher != nil { #expect(await comesToHold { queue.depth > 0 || outcome.status != nil }) }
        queue.close()
        let pending = await queue.next(for: 0, upTo: 10) ?? []
        return (outcome, pending.map(\.item))
    }

    @Test("While no key is known, a webhook is answered 503 and nothing of it is kept")
    func unverifiable() async throws {
        let token = [("authorization", "Bearer " + (try PubSubFixtures.token()))]
        let (outcome, queued) = await receive([], token, from: googlePlaySource(), by: GooglePlay())
        #expect(outcome.status == 503 && outcome.retryAfter == "5" && queued.isEmpty)
        #expect(outcome.refusals == ["play 503 the key by which it is verified is not known yet"])
    }

    @Test("A key that may be new, or a stranger's invention, is answered 503, which is not what alerts count")
    func unknownKey() async throws {
        let token = [("authorization", "Bearer " + (try PubSubFixtures.token()))]
        let adapter = GooglePlay(keys: { _ in .possiblyNew })
        let (outcome, queued) = await receive([], token, from: googlePlaySource(), by: adapter)
        #expect(outcome.status == 503 && outcome.retryAfter == "5" && queued.isEmpty)
        let reason = "its token names a key that is not known, and the keys are being fetched again"
        #expect(outcome.refusals == ["play unverified: \(reason)"])
    }

    /// The answer to a notification of a source with an API, and what waits to be recorded.
    private func receiveAsking(
        _ script: @escaping FakeServers.Script, _ body: String = GooglePlayFixtures.subscription(2),
        isRecorded: Bool = false, age: TimeAmount? = nil
    ) async throws -> (outcome: Outcome, queued: [RecordQueue.Item]) {
        let lookups = EnricherTests.Known(isRecorded: isRecorded).lookups
        let enricher = try EnricherTests.enricher(FakeServers(script), lookups)
        let token = [("authorization", "Bearer " + (try PubSubFixtures.token()))]
        let api = StoreAPI(account: nil, url: StoreRequestFixtures.apiURL)
        return await receive(
            Array(body.utf8), token, from: googlePlaySource(api: api), by: GooglePlay(keys: PubSubFixtures.lookup),
            asking: enricher, age: age)
    }

    @Test("What the API answered waits to be recorded with its webhook")
    func asked() async throws {
        let (outcome, queued) = try await receiveAsking(FakeServers.google { _ in (200, GooglePlayFixtures.state()) })
        #expect(outcome.status == nil && outcome.refusals.isEmpty)
        guard case .event(let event)? = queued.first, queued.count == 1 else {
            Issue.record("no event")
            return
        }
        #expect(event.answer != nil && event.holder == .user(GooglePlayFixtures.account) && event.tokens.count == 1)
    }

    @Test("An API that cannot say is answered 503, and nothing of the webhook is kept")
    func storeUnavailable() async throws {
        let (outcome, queued) = try await receiveAsking(FakeServers.google { _ in (500, "") })
        #expect(outcome.status == 503 && outcome.retryAfter == "5" && queued.isEmpty)
        #expect(outcome.refusals == ["play 503 the Google Play Developer API answered 500"])
    }

    @Test("A webhook that the HTTP server has answered meanwhile is not counted and logged once more")
    func unaskedInTime() async throws {
        let servers = FakeServers.google { _ in (200, GooglePlayFixtures.state()) }
        let (outcome, queued) = try await receiveAsking(servers, age: .seconds(8))
        #expect(outcome.status == 503 && queued.isEmpty)
        #expect(outcome.refusals == [])
    }

    @Test("An answer that would be the same again sends the webhook to quarantine, to be asked about again there")
    func useless() async throws {
        let (outcome, queued) = try await receiveAsking(FakeServers.google { _ in (400, "{}") })
        guard case .quarantine(let kept)? = queued.first, queued.count == 1 else {
            Issue.record("not in quarantine")
            return
        }
        #expect(kept.reason == "the Google Play Developer API answered 400" && kept.answer == nil)
        #expect(kept.source == "play" && outcome.status == nil && outcome.refusals.isEmpty)
    }

    @Test("A webhook that is stored already goes to the recorder without a question")
    func storedAlready() async throws {
        let (_, queued) = try await receiveAsking({ _ in .failure(OutgoingFailure("asked")) }, isRecorded: true)
        guard case .event(let event)? = queued.first else {
            Issue.record("no event")
            return
        }
        #expect(event.answer == nil && event.isIDOfSource)
    }

    @Test("Nothing is asked about a webhook that cannot be read, or is about another app")
    func unreadableUnasked() async throws {
        for body in ["{}", GooglePlayFixtures.subscription(2, package: "com.example.foreign")] {
            let (_, queued) = try await receiveAsking({ _ in .failure(OutgoingFailure("asked")) }, body)
            guard case .quarantine(let kept)? = queued.first else {
                Issue.record("not in quarantine")
                continue
            }
            #expect(kept.body == Array(body.utf8) && kept.answer == nil)
        }
    }

    @Test("A refused one is answered 401 with the reason, and nothing of it is kept")
    func refused() async throws {
        let body = try AppleFixtures.seal(AppleFixtures.notification("DID_RENEW"))
        let foreign = appleSource(bundleIDs: ["com.example.two"])
        let (outcome, queued) = await receive(body, from: foreign, by: Apple())
        let reason = "\(Authenticity.Refusal.foreignBundleID)"
        #expect(outcome.status == 401 && outcome.text == reason + "\n" && queued.isEmpty)
        #expect(outcome.refusals == ["apple 401 \(reason)"])
    }

    @Test("A queue that is closed answers 503, and the journal has the reason for which it is")
    func closed() async throws {
        let body = try AppleFixtures.seal(AppleFixtures.notification("DID_RENEW"))
        let (outcome, queued) = await receive(body, from: appleSource(), by: Apple(), closedBecause: "it rests")
        #expect(outcome.status == 503 && queued.isEmpty)
        #expect(outcome.refusals == ["apple 503 it rests"])
    }

    @Test("A test notification is answered at once, but only an authentic one")
    func handshake() async throws {
        let body = try AppleFixtures.seal(AppleFixtures.notification("TEST", transaction: nil, renewal: nil))
        let (outcome, queued) = await receive(body, from: appleSource(), by: Apple())
        #expect(outcome.status == 200 && outcome.text == #"{"notificationType":"TEST"}"# && queued.isEmpty)
        let (other, others) = await receive(body, from: appleSource(bundleIDs: ["com.example.two"]), by: Apple())
        #expect(other.status == 401 && others.isEmpty)
    }

    @Test("An authentic one waits to be recorded, in clear beside its own bytes; unreadable, for quarantine")
    func recorded() async throws {
        let decoded = AppleFixtures.notification("DID_RENEW")
        let body = try AppleFixtures.seal(decoded)
        let (outcome, queued) = await receive(body, from: appleSource(), by: Apple())
        #expect(outcome.status == nil && outcome.refusals.isEmpty)
        guard case .event(let event)? = queued.first, queued.count == 1 else {
            Issue.record("no event")
            return
        }
        #expect(event.body == body && event.decoded.map { String(decoding: $0, as: UTF8.self) } == decoded)
        let unreadable = try AppleFixtures.seal(
            AppleFixtures.notification("DID_RENEW", top: [("notificationType", nil)]))
        guard case .quarantine(let kept)? = await receive(unreadable, from: appleSource(), by: Apple()).queued.first
        else {
            Issue.record("not in quarantine")
            return
        }
        #expect(kept.body == unreadable && kept.reason == "notificationType is missing")
    }
}
