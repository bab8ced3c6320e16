import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: `DroppedModel`, over the webhooks that came and without memory; and the ledger of the same histories without
/// drops.
@Suite("Webhooks dropped at random", .serialized, .timeLimit(.minutes(30)))
struct DroppedWebhookTests {
    private static let purchases = 40
    private static let hour: Int64 = 3_600_000
    private static let leewayHours: Int64 = 10
    private static let leeways = Leeways([.leaving("shop", .lasting(leewayHours * hour))])

    @Test(
        "Nobody is active whose period is over; overdue is what lost its last words; late they make it whole",
        arguments: [UInt64(3), 14, 159, 2_653])
    func dropped(seed: UInt64) async throws {
        try await TestLedger.run { ledger in
            var dice = Dice(state: seed)
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            let histories = (0..<Self.purchases).map { Self.history("p\($0)", endingAround: now, &dice) }
            let all = histories.flatMap(\.self)
            var kept: [DroppedModel.Word] = []
            var dropped: [DroppedModel.Word] = []
            for word in all { if dice.chance(20) { dropped.append(word) } else { kept.append(word) } }
            #expect(all.count > 300 && dropped.count > 40)
            if seed % 2 == 1 { kept.shuffle(using: &dice) }
            dropped.shuffle(using: &dice)

            await Self.record(all, in: "WHOLE", by: daemon)
            await Self.record(kept, in: "DROPPED", by: daemon)
            #expect(try await Self.overdue("WHOLE", daemon).isEmpty)
            try await Self.check(DroppedModel(kept), against: histories, at: now, daemon)

            let month = Duration.seconds(30 * 86_400)
            let retention = Retention(attempts: month, events: month * 100, duplicates: month * 100)
            try await Upkeep(pool: daemon.pool, retention: retention).prune()
            try await Self.check(DroppedModel(kept), against: histories, at: now, daemon)

            await Self.record(dropped, in: "DROPPED", by: daemon)
            #expect(try await Self.overdue("DROPPED", daemon).isEmpty)
            try await Self.check(DroppedModel(all), against: histories, at: now, daemon)
            for picture in Self.pictures {
                let whole = try ledger.psql(picture.replacing("ENVIRONMENT", with: "WHOLE"))
                #expect(try ledger.psql(picture.replacing("ENVIRONMENT", with: "DROPPED")) == whole)
            }
        }
    }

    /// Who has access, what was paid and what passed on, without the ids that depend on the order of arrival.
    private static let pictures = [
        """
        SELECT p.key, n.holder, n.active, n.as_of_ms FROM \(TestLedger.access) AS n JOIN purchases p ON p.id = n.purchase
        WHERE p.environment = 'ENVIRONMENT' ORDER BY p.key, n.holder
        """,
        """
        SELECT p.key, t.store_transaction_id, t.purchased_at_ms, t.effective_next_renewal_at_ms
        FROM transactions t JOIN purchases p ON p.id = t.purchase
        WHERE p.environment = 'ENVIRONMENT' ORDER BY p.key, t.store_transaction_id
        """,
        """
        SELECT p.key, t.from_holder, t.to_holder, t.ordinal FROM transfers t JOIN purchases p ON p.id = t.purchase
        WHERE p.environment = 'ENVIRONMENT' ORDER BY p.key, t.from_holder, t.to_holder, t.ordinal
        """,
    ]

    // MARK: Histories

    /// Periods of whole days, one after the other, up to the one that runs or the end of the last: all that is said of
    /// a purchase. No end lies within an hour of now, with or without the leeway.
    private static func history(
        _ purchase: String, endingAround now: Timestamp, _ dice: inout Dice
    ) -> [DroppedModel.Word] {
        let lastDay = Int64.random(in: -60...20, using: &dice)
        let lengths = (0..<Int.random(in: 3...25, using: &dice)).map { _ in
            Int64.random(in: 21...40, using: &dice)
        }
        var end = now.advanced(byMilliseconds: (lastDay * 24 + 5 - lengths.reduce(0, +) * 24) * hour)
        let (install, user) = (Holder.anonymous("a-\(purchase)"), Holder.user("u-\(purchase)"))
        // From this period on it is the user's; 0: from the beginning.
        let login = dice.chance(50) ? 0 : Int.random(in: 1..<lengths.count, using: &dice)
        var words: [DroppedModel.Word] = []
        for (number, days) in lengths.enumerated() {
            let start = end
            end = start.advanced(byMilliseconds: days * 24 * hour)
            func say(_ kind: DroppedModel.Kind, _ holder: Holder, after hours: Int64) {
                words.append(
                    DroppedModel.Word(
                        purchase: purchase, kind: kind, holder: holder,
                        at: start.advanced(byMilliseconds: hours * hour), period: number, start: start, end: end))
            }
            say(.gain, login > 0 && number <= login ? install : user, after: 0)
            if login > 0, number == login {
                say(.loss, install, after: 30)
                say(.gain, user, after: 30)
            }
            let holder = login > 0 && number < login ? install : user
            if dice.chance(30) { say(.remark, holder, after: 60) }
            // Of a former period, while this one runs.
            if let former = words.first, dice.chance(10), number > 0 {
                words.append(former.remarked(at: start.advanced(byMilliseconds: 70 * hour)))
            }
            if number == lengths.count - 1, end < now { say(.loss, user, after: days * 24) }
        }
        return words
    }

    private static func record(_ words: [DroppedModel.Word], in environment: String, by daemon: Daemon) async {
        let events = words.map { $0.event(in: environment) }
        for start in stride(from: 0, to: events.count, by: 200) {
            await daemon.record(Array(events[start..<min(start + 200, events.count)]))
        }
    }

    // MARK: Answers

    private static func overdue(_ environment: String, _ daemon: Daemon) async throws -> Set<String> {
        Set(
            try await OverduePurchase.read(
                environment: environment, limit: 1_000, leeways: leeways, from: daemon.pool
            ).entries.map(\.purchase))
    }

    private static func check(
        _ model: DroppedModel, against histories: [[DroppedModel.Word]], at now: Timestamp, _ daemon: Daemon
    ) async throws {
        let lookup = HolderLookup(pool: daemon.pool, leeways: leeways)
        let scope = LookupScope(environment: "DROPPED", source: nil)
        let leeway = leewayHours * hour
        var expected: Set<String> = []
        for history in histories {
            guard let purchase = history.first?.purchase else { continue }
            let stated = model.access(to: purchase)
            let isOver = stated.map { $0.end <= now } ?? false
            if isOver { expected.insert(purchase) }
            for holder in Set(history.map(\.holder)) {
                let held = try await lookup.entitlements(of: .holder(holder), in: scope).entries.first
                let isHolder = stated?.holder == holder
                let isActive = isHolder && stated.map { now < $0.end.advanced(byMilliseconds: leeway) } == true
                #expect(held?.isActive ?? false == isActive, "\(purchase) of \(holder.storageKey)")
                #expect(held?.isOverdue ?? false == (isHolder && isOver), "\(purchase) of \(holder.storageKey)")
                if let held, held.isActive {
                    #expect(held.until.map { now < $0.advanced(byMilliseconds: leeway) } ?? false)
                }
            }
        }
        #expect(try await overdue("DROPPED", daemon) == expected)
    }
}

/// Access to purchases with one holder at a time, by the words that came. Shares no code with the ledger.
struct DroppedModel {
    enum Kind: String, Sendable {
        case gain = "ACTIVATE"
        case loss = "DEACTIVATE"
        /// States a period, and nothing about anybody's access.
        case remark = "REMARKED"
    }

    struct Word: Sendable {
        let purchase: String
        let kind: Kind
        let holder: Holder
        let at: Timestamp
        /// Number of the period that it states, and that period.
        let period: Int
        let start: Timestamp
        let end: Timestamp

        func remarked(at time: Timestamp) -> Word {
            Word(
                purchase: purchase, kind: .remark, holder: holder, at: time, period: period, start: start, end: end)
        }

        func event(in environment: String) -> Event {
            let fact: Fact? =
                switch kind {
                case .gain: Fact(kind: .gain, holder: holder, at: at, until: end)
                case .loss: Fact(kind: .loss, holder: holder, at: at, until: end)
                case .remark: nil
                }
            let event = Event.sample(
                kind.rawValue, holder: holder, at: at, purchase: purchase, environment: environment, fact: fact)
            return event.with(
                transaction: Transaction(
                    storeTransactionID: "\(purchase)-\(period)", storeOriginalTransactionID: nil, purchasedAt: start,
                    effectiveNextRenewalAt: end, offerType: nil, status: nil))
        }
    }

    private let words: [String: [Word]]

    init(_ words: [Word]) { self.words = Dictionary(grouping: words, by: \.purchase) }

    /// Whoever was given it last, unless it was taken from that holder since; and the end of the last period that
    /// anything was said of. Nil: nobody has it.
    func access(to purchase: String) -> (holder: Holder, end: Timestamp)? {
        let words = words[purchase] ?? []
        guard let gain = words.filter({ $0.kind == .gain }).max(by: { $0.at < $1.at }),
            let newest = words.max(by: { $0.period < $1.period })
        else { return nil }
        let isTaken = words.contains { $0.kind == .loss && $0.holder == gain.holder && $0.at >= gain.at }
        return isTaken ? nil : (gain.holder, newest.end)
    }
}
