import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL and the answers.
@Suite("Recording: statements of the app's backend", .serialized)
struct BackendStatementTests {
    private static let scope = Scope(source: "shop", app: "", environment: "PRODUCTION")
    private static let install = Holder.anonymous("A")

    private static func logout() -> Event {
        Event(
            scope: scope, vendorEventID: nil, name: "LOGGED_OUT", type: "LOGGED_OUT", holder: install,
            occurredAt: seconds(0), purchase: nil, transaction: nil, isOfBackend: true, body: Array("{}".utf8))
    }

    /// - Parameter presumed: nil: that nothing is recorded of it.
    private static func grant(_ entitlement: String, at time: Timestamp, presuming presumed: Timestamp?) -> Event {
        Event(
            scope: scope, vendorEventID: nil, name: "GRANTED", type: "GRANTED", holder: install, occurredAt: time,
            purchase: Purchase(
                key: entitlement, kind: .oneTime, store: Purchase.manualStore, product: entitlement, plan: nil,
                subscriptionID: nil),
            transaction: nil, facts: [Fact(kind: .gain, holder: install, at: time, until: seconds(1_000))],
            isOfBackend: true, presumedAsOf: presumed ?? Timestamp.distantPast, body: Array("{}".utf8))
    }

    @Test("A statement that waited until its request was answered 503 is not stored: others may have come since")
    func overdue() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let answers = Mutex<[RecordQueue.Answer]>([])
            let queue = RecordQueue(writers: 1)
            queue.submit(.event(Self.logout()), startedAt: ContinuousClock.now - .seconds(9)) { answer in
                answers.withLock { $0.append(answer) }
            }
            queue.close()
            await daemon.recorder(queue).run()
            #expect(answers.withLock { $0 } == [.unavailable])
            #expect(try ledger.psql("SELECT count(*) FROM events") == "0")
        }
    }

    @Test("A statement whose batch waits for a lock until its request is answered 503 is not stored")
    func overdueBehindLock() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            #expect(await daemon.record([Self.grant("plus", at: seconds(0), presuming: nil)]) == [.stored])
            let answers = Mutex<[RecordQueue.Answer]>([])
            let queue = RecordQueue(writers: 1)
            let event = Self.grant("plus", at: seconds(1), presuming: seconds(0))
            let answeredAt = ContinuousClock.now + .seconds(1)
            queue.submit(.event(event), startedAt: answeredAt - Limits.acknowledgementTimeout) { answer in
                answers.withLock { $0.append(answer) }
            }
            queue.close()
            let recorder = daemon.recorder(queue)
            // It ends once the lock is free.
            let recording = try await ledger.during("SELECT FROM purchases FOR UPDATE") {
                let recording = Task { await recorder.run() }
                try await Task.sleep(until: answeredAt + .milliseconds(100), clock: .continuous)
                return recording
            }
            await recording.value
            #expect(answers.withLock { $0 } == [.unavailable])
            #expect(try ledger.psql("SELECT count(*) FROM events") == "1")
            // If the backend states it again, nothing is in its way.
            #expect(try ledger.psql("SELECT count(*) FROM identities") == "1")
        }
    }

    @Test("A statement is not stored if another one about its purchase was recorded since it was decided on")
    func presumed() async throws {
        try await TestLedger.run { ledger in
            let (one, two) = (try await ledger.daemon(), try await ledger.daemon())
            func grant(_ second: Int64, presuming presumed: Timestamp?) -> Event {
                Self.grant("plus", at: seconds(second), presuming: presumed)
            }
            let both = await one.record([grant(0, presuming: nil), grant(1, presuming: nil)])
            #expect(both == [.stored, .conditionFailed])
            #expect(await two.record([grant(2, presuming: nil)]) == [.conditionFailed])
            #expect(await two.record([grant(3, presuming: seconds(1))]) == [.conditionFailed])
            let next = grant(4, presuming: seconds(0))
            #expect(await two.record([next]) == [.stored])
            // It comes again: it is stored already.
            #expect(await two.record([next]) == [.stored])
            #expect(await one.record([grant(5, presuming: seconds(0))]) == [.conditionFailed])
            // Two daemons that create a purchase at once.
            async let first = one.record((10..<14).map { Self.grant("gold", at: seconds($0), presuming: nil) })
            async let second = two.record((20..<24).map { Self.grant("gold", at: seconds($0), presuming: nil) })
            let answers = await first + second
            #expect(answers.count { $0 == .stored } == 1 && answers.count { $0 == .conditionFailed } == 7)
            #expect(try ledger.psql("SELECT count(*) FROM events") == "3")
            // Of what was refused nothing stays behind.
            #expect(try ledger.psql("SELECT count(*) FROM identities") == "3")
        }
    }
}
