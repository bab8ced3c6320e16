import Ledger
import Synchronization
import Testing
import Vocabulary

@testable import Inbound

/// Oracle: what the ledger has and what the API answers, written out by hand.
@Suite("What is asked before a webhook is recorded")
struct EnricherTests {
    typealias Fixtures = GooglePlayFixtures

    struct NoDatabase: Error, CustomStringConvertible {
        let description = "no database"
    }

    /// What the ledger was asked, and what it has.
    final class Known: Sendable {
        let subjects = Mutex<[TokenLookup.Subject]>([])
        let tokens = Mutex<[Identifier]>([])
        let isRecorded: Bool
        let rows: [Identifier: KnownToken]

        init(isRecorded: Bool = false, _ rows: [KnownToken] = []) {
            self.isRecorded = isRecorded
            self.rows = Dictionary(rows.map { ($0.token, $0) }) { first, _ in first }
        }

        var lookups: Enricher.Lookups {
            Enricher.Lookups(
                event: { [self] subject in
                    subjects.withLock { $0.append(subject) }
                    return TokenLookup.Answer(
                        isRecorded: isRecorded, known: rows[subject.token], now: Fixtures.askedAt)
                },
                token: { [self] token, _ in
                    tokens.withLock { $0.append(token) }
                    return rows[token]
                })
        }
    }

    static func enricher(
        _ servers: FakeServers, _ lookups: Enricher.Lookups, _ clock: StoodClock = StoodClock()
    ) throws -> Enricher {
        Enricher(
            source: "play", client: try StoreRequestFixtures.client(servers, clock), lookups: lookups,
            clock: clock.clock)
    }

    static func enrichment(_ body: String) throws -> Enrichment {
        try #require(Enrichment(try GooglePlayNotice(Array(body.utf8))))
    }

    @Test("The chain of tokens is walked by way of the API and the ledger; the answer is what is recorded")
    func chain() async throws {
        let (old, older) = (Fixtures.otherToken("a"), Fixtures.otherToken("b"))
        let servers = FakeServers(
            FakeServers.google { target in
                target.hasSuffix(Fixtures.token)
                    ? (200, Fixtures.linked(to: old)) : (200, Fixtures.linked(to: older))
            })
        let first = KnownToken(
            token: GooglePlayToken(older).id, first: "first.1", environment: "PRODUCTION", isReplaced: true)
        let known = Known([first])
        let enricher = try Self.enricher(servers, known.lookups)
        guard case .answered(let answer) = await enricher.run(try Self.enrichment(Fixtures.subscription(4))) else {
            Issue.record("no answer")
            return
        }
        let event = try GooglePlay().normalise(
            Array(Fixtures.subscription(4).utf8), answer: answer, from: googlePlaySource())
        #expect(event.purchase?.key == "first.1" && event.tokens.count == 3 && event.asOf == Fixtures.askedAt)
        let paths = "/androidpublisher/v3/applications/com.example.app/purchases/subscriptionsv2/tokens/"
        #expect(servers.targets.filter { $0 != "/token" } == [paths + Fixtures.token, paths + old])
        let subject = try #require(known.subjects.withLock { $0 }.first)
        #expect(subject.source == "play" && subject.eventID == Fixtures.messageID)
        #expect(subject.occurredAt == Fixtures.occurredAt && subject.token == GooglePlayToken(Fixtures.token).id)
        #expect(known.tokens.withLock { $0 } == [old, older].map { GooglePlayToken($0).id })
    }

    @Test("Of an event that is stored nothing is asked")
    func known() async throws {
        let servers = FakeServers(FakeServers.google { _ in (200, Fixtures.state()) })
        let enricher = try Self.enricher(servers, Known(isRecorded: true).lookups)
        #expect(await enricher.run(try Self.enrichment(Fixtures.subscription(2))) == .asIs)
        #expect(servers.sent.isEmpty)
    }

    @Test("An end, and a purchase that the API does not know, are answers", arguments: [404, 410])
    func ends(_ status: Int) async throws {
        let servers = FakeServers(FakeServers.google { _ in (status, Fixtures.unknownToken) })
        let outcome = await (try Self.enricher(servers, Known().lookups))
            .run(try Self.enrichment(Fixtures.subscription(13)))
        guard case .answered(let answer) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(String(decoding: answer, as: UTF8.self).contains(#""status":\#(status)"#))
    }

    @Test("An answer that would come again is unusable, and no fault of the API")
    func unusable() async throws {
        let google = FakeServers.google { _ in (200, "") }
        let servers = FakeServers { request in
            request.method == .post ? google(request) : .success(OutgoingAnswer(status: 200, body: nil))
        }
        let outcome = await (try Self.enricher(servers, Known().lookups))
            .run(try Self.enrichment(Fixtures.subscription(2)))
        guard case .unusable(let reason) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(reason.contains("cannot be read") && servers.observed.isEmpty)
    }

    @Test("Without an API only the ledger is asked")
    func withoutAPI() async throws {
        let notice = try GooglePlayNotice(Array(Fixtures.subscription(2).utf8))
        let enrichment = try #require(Enrichment(notice, asksAPI: false))
        let clock = StoodClock()
        func run(_ known: Known) async -> Enricher.Outcome {
            await Enricher(source: "play", client: nil, lookups: known.lookups, clock: clock.clock).run(enrichment)
        }
        #expect(await run(Known()) == .asIs)
        let row = KnownToken(
            token: GooglePlayToken(Fixtures.token).id, first: "first.1", environment: "SANDBOX", isReplaced: false)
        guard case .answered(let answer) = await run(Known([row])) else {
            Issue.record("no answer")
            return
        }
        #expect(String(decoding: answer, as: UTF8.self).contains(#""first_token":"first.1""#))
    }

    @Test("A webhook that is stored already takes no place of one that is to be asked about")
    func place() async throws {
        let client = try StoreRequestFixtures.client(FakeServers(FakeServers.google { _ in (200, "") }), StoodClock())
        while client.begin() {}
        let lookups = Known(isRecorded: true).lookups
        let enricher = Enricher(source: "play", client: client, lookups: lookups, clock: StoodClock().clock)
        #expect(await enricher.run(try Self.enrichment(Fixtures.subscription(2))) == .asIs)
    }

    private final class Outcomes: Sendable {
        let counts = Mutex<[Enricher.Outcome: Int]>([:])
    }

    @Test("Two look-ups go on at once, 256 webhooks wait, further ones are unavailable", arguments: [false, true])
    func turns(isLate: Bool) async throws {
        let (clock, held) = (StoodClock(), HeldLookups())
        let enricher = Enricher(source: "play", client: nil, lookups: held.lookups, clock: clock.clock)
        let enrichment = try Self.enrichment(Fixtures.subscription(2))
        let lookUp = "what is known of its purchase could not be looked up: "
        let surplus = Enricher.Outcome.unavailable(reason: lookUp + "too many wait for that already")
        let late = Enricher.Outcome.unavailable(reason: lookUp + "it waited too long for its turn")
        let outcomes = Outcomes()
        for _ in 0..<2_000 {
            Task {
                let outcome = await enricher.run(enrichment)
                outcomes.counts.withLock { $0[outcome, default: 0] += 1 }
            }
        }
        // Nobody is let go before all of them are inside, wait or are refused.
        #expect(await comesToHold { outcomes.counts.withLock { $0[surplus] == 1_742 } || held.most > 2 })
        if isLate { clock.move(to: .seconds(7)) }
        held.letAllGo()
        #expect(await comesToHold { outcomes.counts.withLock { $0.values.reduce(0, +) == 2_000 } })
        let expected: [Enricher.Outcome: Int] =
            isLate ? [surplus: 1_742, late: 256, .asIs: 2] : [surplus: 1_742, .asIs: 258]
        #expect(outcomes.counts.withLock { $0 } == expected)
        #expect(held.most == 2)
    }

    @Test("What cannot be known now is unavailable, with the reason")
    func unavailable() async throws {
        func outcome(
            _ script: @escaping FakeServers.Script, _ lookups: Enricher.Lookups = Known().lookups, age: Duration = .zero
        ) async throws -> Enricher.Outcome {
            await (try Self.enricher(FakeServers(script), lookups))
                .run(try Self.enrichment(Fixtures.subscription(2)), age: age)
        }
        #expect(
            try await outcome(FakeServers.google { _ in (403, "") })
                == .unavailable(reason: "the Google Play Developer API answered 403"))
        let good = FakeServers.google { _ in (200, Fixtures.state()) }
        #expect(
            try await outcome(good, age: .seconds(6)) == .unavailable(reason: "the API did not answer in time"))
        let broken = Enricher.Lookups(event: { _ in throw NoDatabase() }, token: { _, _ in nil })
        #expect(
            try await outcome(good, broken)
                == .unavailable(reason: "what is known of its purchase could not be looked up: no database"))
    }
}

/// Look-ups that last until they are let go. Each event is stored already.
private final class HeldLookups: Sendable {
    private struct State {
        var inside = 0
        var most = 0
        var isOpen = false
        var staying: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// The most that were inside at once.
    var most: Int { state.withLock { $0.most } }

    var lookups: Enricher.Lookups {
        Enricher.Lookups(
            event: { [self] _ in
                await stay()
                return TokenLookup.Answer(isRecorded: true, known: nil, now: GooglePlayFixtures.askedAt)
            }, token: { _, _ in nil })
    }

    func letAllGo() {
        let staying = state.withLock { state in
            state.isOpen = true
            return state.staying
        }
        for one in staying { one.resume() }
    }

    private func stay() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                state.inside += 1
                state.most = max(state.most, state.inside)
                guard !state.isOpen else { return true }
                state.staying.append(continuation)
                return false
            }
            if isOver { continuation.resume() }
        }
        state.withLock { $0.inside -= 1 }
    }
}
