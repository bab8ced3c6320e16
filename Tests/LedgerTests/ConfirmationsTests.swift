import Synchronization
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: posthouse-messages(7), "Confirmation": all messages that this webhook caused for that integration, its
/// time-out, and a 200 in any case.
@Suite("Acknowledgements that wait for an integration", .serialized, .timeLimit(.minutes(30)))
struct ConfirmationsTests {
    private let now = ContinuousClock.Instant.now
    private let event = Identifier(high: 1, low: 1)
    private let other = Identifier(high: 2, low: 2)

    /// Counts answers by name.
    private final class Answers: Sendable {
        private let state = Mutex<[String]>([])
        var all: [String] { state.withLock { $0 } }

        func answer(_ name: String) -> Confirmations.Answer {
            { [self] in state.withLock { $0.append(name) } }
        }
    }

    private func confirmations(max: Int = 10) -> Confirmations { Confirmations(entriesMax: max) }

    @Test("Answered when the last of its deliveries is settled, once; other events are their own")
    func answered() {
        let (book, answers) = (confirmations(), Answers())
        book.expect([1: .seconds(5), 2: .seconds(5)], of: event, now: now)
        book.expect([3: .seconds(5)], of: other, now: now)
        book.answer(event, by: now + .seconds(7), answers.answer("event"))
        book.answer(other, by: now + .seconds(7), answers.answer("other"))
        book.settled(1)
        book.settled(99)
        #expect(answers.all.isEmpty)
        book.settled(3)
        #expect(answers.all == ["other"])
        book.settled(2)
        book.settled(2)
        book.expire(at: now + .seconds(60))
        #expect(answers.all == ["other", "event"] && book.count == 0)
    }

    @Test("What is settled before its answer waits is answered at once; so is what nobody expects")
    func atOnce() {
        let (book, answers) = (confirmations(), Answers())
        book.expect([1: .seconds(5)], of: event, now: now)
        book.settled(1)
        book.answer(event, by: now + .seconds(7), answers.answer("settled"))
        book.answer(other, by: now + .seconds(7), answers.answer("unknown"))
        book.expect([:], of: other, now: now)
        book.answer(other, by: now + .seconds(7), answers.answer("nothing to expect"))
        #expect(answers.all == ["settled", "unknown", "nothing to expect"])
    }

    @Test("Each integration's time is its own; the request's end comes before any")
    func timeOuts() {
        let (book, answers) = (confirmations(), Answers())
        book.expect([1: .seconds(2), 2: .seconds(5)], of: event, now: now)
        book.answer(event, by: now + .seconds(7), answers.answer("event"))
        book.expire(at: now + .seconds(3))
        #expect(answers.all.isEmpty, "the second integration has time left")
        book.expire(at: now + .milliseconds(4_999))
        #expect(answers.all.isEmpty)
        book.expire(at: now + .seconds(5))
        #expect(answers.all == ["event"] && book.count == 0)

        book.expect([3: .seconds(5)], of: other, now: now)
        book.answer(other, by: now + .seconds(1), answers.answer("late body"))
        book.expire(at: now + .seconds(1))
        #expect(answers.all == ["event", "late body"] && book.count == 1)
        book.settled(3)
        #expect(answers.all.count == 2 && book.count == 0)
    }

    @Test("A webhook that comes again waits with its first while that waits, each no longer than its own time")
    func duplicates() {
        let (book, answers) = (confirmations(), Answers())
        book.expect([1: .seconds(5)], of: event, now: now)
        book.answer(event, by: now + .seconds(2), answers.answer("first"))
        book.answer(event, by: now + .seconds(4), answers.answer("second"))
        book.expire(at: now + .seconds(2))
        #expect(answers.all == ["first"])
        book.settled(1)
        book.answer(event, by: now + .seconds(9), answers.answer("third"))
        #expect(answers.all == ["first", "second", "third"])
    }

    @Test("Beyond the bound nobody waits")
    func bounded() {
        let (book, answers) = (confirmations(max: 2), Answers())
        for number in 1...3 {
            let event = Identifier(high: 0, low: UInt64(number))
            book.expect([Int64(number): .seconds(5)], of: event, now: now)
            book.answer(event, by: now + .seconds(7), answers.answer("\(number)"))
        }
        #expect(answers.all == ["3"] && book.count == 2)
    }

    @Test("Only ACTIVATE and DEACTIVATE wait, for all messages that they caused for who confirms; the batch does not")
    func recorded() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([
                .named("confirming", confirmTimeout: .seconds(600)), .named("other"),
            ])
            daemon.open("confirming", "other")
            let book = daemon.dispatchBuffer.confirmations
            #expect(await daemon.record([.sample("SUBSCRIPTION_RENEWED")]) == [.stored])
            _ = daemon.inbox.take()
            // Three webhooks, of which one states a transfer, too: five messages.
            let webhooks = login.map { Event.stating($0) } + [.sample("SUBSCRIPTION_RENEWED", at: seconds(90))]
            #expect(await daemon.record(webhooks) == [.stored], "the renewal; the batch has ended")
            #expect(book.count == 3)
            let rows = try ledger.psql(
                """
                SELECT d.id, d.blocked FROM deliveries d JOIN messages m ON m.id = d.message
                JOIN events e ON e.id = m.event
                WHERE d.integration = \(daemon.row("confirming")) AND e.type IN ('ACTIVATE', 'DEACTIVATE')
                ORDER BY d.id
                """
            ).split(separator: "\n")
            #expect(
                rows.count == 5 && rows.contains { $0.hasSuffix("t") },
                "those that another one blocks are waited for, too")
            let ids = rows.compactMap { Int64($0.prefix { $0 != "|" }) }
            for id in ids { book.settled(id) }
            #expect(book.count == 0)
        }
    }

    @Test("What another daemon has delivered is noticed")
    func elsewhere() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("confirming", confirmTimeout: .seconds(600))])
            await daemon.record([.stating(login[0])])
            let book = daemon.dispatchBuffer.confirmations
            #expect(book.count == 1)
            let (answered, answer) = AsyncStream<Void>.makeStream()
            book.answer(
                KeyHash.event(.stating(login[0])), by: .now + .seconds(600), { answer.finish() })
            let running = Task { await book.run { try? await daemon.queue.unsettled($0) } }
            try ledger.psql("DELETE FROM deliveries")
            for await _ in answered {}
            #expect(book.count == 0)
            running.cancel()
            await running.value
        }
    }

    @Test("Nobody delivers it: the time ends the wait, without anybody asking")
    func clock() async throws {
        let book = confirmations()
        let (answered, answer) = AsyncStream<Void>.makeStream()
        let running = Task { await book.run { Set($0) } }
        let began = ContinuousClock.Instant.now
        book.expect([1: .milliseconds(200)], of: event)
        book.answer(event, by: began + .seconds(60), { answer.finish() })
        for await _ in answered {}
        #expect(ContinuousClock.Instant.now - began >= .milliseconds(200) && book.count == 0)
        running.cancel()
        await running.value
    }
}
