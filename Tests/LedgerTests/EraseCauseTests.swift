import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Why deliveries failed, after a person is erased. Oracle: what `posthouse status` reads, and psql.
@Suite("Causes after an erasure", .serialized)
struct EraseCauseTests {
    private static let cause = "cannot connect: connection refused"

    /// Records one event of each holder and settles the delivery of each, in order.
    private func settle(
        _ holders: [Holder], by daemon: Daemon,
        _ settled: (Int, Delivery) -> Settlement
    ) async throws {
        daemon.open("a")
        for (number, holder) in holders.enumerated() {
            await daemon.record([.sample("E", holder: holder, purchase: "p\(number)", transaction: "t\(number)")])
        }
        let taken = daemon.inbox.take()
        try #require(taken.count == holders.count)
        for (number, delivery) in taken.enumerated() {
            _ = try await daemon.queue.settle([settled(number, delivery)])
        }
    }

    private func erase(_ holder: Holder, by daemon: Daemon) async throws {
        let erasure = try await Erasure.start(holder, source: nil, isDry: false, in: daemon.pool)
        let done = try await erasure.run(in: daemon.pool) { _ in }
        #expect(done.events == 1)
        let left = try await erasure.proof.run(in: daemon.pool) { _ in }
        #expect(left.total == 0, "\(left)")
    }

    @Test("Why no answer came to a person's message stays; what a receiver answered goes, its status stays")
    func ofThePerson() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let (jeff, ann) = (Holder.user("jeff-9f3c"), Holder.user("ann-2b1d"))
            try await settle([jeff, ann], by: daemon) { number, delivery in
                number == 0
                    ? delivery.settled(.retry(after: .seconds(60)), status: nil, failure: Self.cause)
                    : delivery.settled(
                        .retry(after: .seconds(60)), status: 500, failure: "answered 500: it does not like this one")
            }
            try await erase(ann, by: daemon)
            let answered = try await LedgerStatus.read(from: daemon.pool).integrations[0].lastError
            #expect(answered?.httpStatus == 500 && answered?.text == nil, "\(String(describing: answered))")
            try ledger.psql("DELETE FROM attempts WHERE http_status = 500")
            try await erase(jeff, by: daemon)
            let lost = try await LedgerStatus.read(from: daemon.pool).integrations[0].lastError
            #expect(lost?.httpStatus == nil && lost?.text == Self.cause, "\(String(describing: lost))")
        }
    }

    @Test("An id that is a word of a cause takes no cause of others along; an answer that names it goes")
    func ofOthers() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let others = [Holder.user("bob"), .user("cleo"), .user("dan"), .user("eve")]
            try await settle([.user("500")] + others, by: daemon) { number, delivery in
                switch number {
                case 0: delivery.settled(.accepted)
                case 1: delivery.settled(.retry(after: .seconds(60)), status: nil, failure: "port 500 is closed")
                case 2: delivery.settled(.retry(after: .seconds(60)), status: 500, failure: "answered 500: no paper")
                case 3: delivery.settled(.retry(after: .seconds(60)), status: 409, failure: "answered 409: who is 500?")
                default:
                    delivery.settled(.dead(reason: "answered 400"), status: 400, failure: "answered 400: who is 500?")
                }
            }
            try await erase(.user("500"), by: daemon)
            let failures = "SELECT coalesce(failure, 'none') FROM attempts WHERE outcome <> 'accepted' ORDER BY at"
            #expect(
                try ledger.psql(failures)
                    == "port 500 is closed\nanswered 500: no paper\nnone\nnone")
            #expect(try ledger.psql("SELECT reason FROM dead_letters") == "answered 400")
        }
    }

    @Test("What receivers answered is looked for among the attempts that failed, and not among all")
    func planned() async throws {
        try await TestLedger.run { ledger in
            try ledger.psql(
                """
                INSERT INTO attempts
                    (delivery, message, integration, attempt, outcome, http_status, latency_ms, failure)
                SELECT n, n, 1, 1, CASE WHEN n % 1000 = 0 THEN 'retry' ELSE 'accepted' END, 200, 5,
                       CASE WHEN n % 1000 = 0 THEN 'answered 500: no' END
                FROM generate_series(1, 20000) AS n;
                ANALYZE attempts
                """)
            for statement in [EraseScans.attemptWords, EraseScans.foundAttemptWords] {
                let plan = try PlannedStatement(statement).plan(
                    with: ["'bob'", "-30610224000", "221847724800"], planning: .eachTime, isRun: true, in: ledger)
                let scans = plan.filter { $0.contains("Scan") && !$0.contains("never executed") }
                #expect(scans.contains { $0.contains("integration_at_idx") }, "\(plan.joined(separator: "\n"))")
            }
        }
    }
}
