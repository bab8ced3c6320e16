import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What was said of holders before a webhook shows that they hold something, or hold it no more. Oracles: SQL, and by
/// hand.
@Suite("Holders of a transfer, in every order of arrival", .serialized)
struct HolderOrderTests {
    @Test("A login of the receiver of a native transfer moves what it received, whichever of the two comes first")
    func loginOfReceiver() async throws {
        let (old, device, user) = (Holder.user("old"), Holder.anonymous("device"), Holder.user("new"))
        let until = seconds(100_000)
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            for (index, order) in permutations([0, 1]).enumerated() {
                let scope = Scope(source: "moving", app: "app.one", environment: "order\(index)")
                let login = Event(
                    scope: scope, vendorEventID: nil, name: "LOGIN", type: "LOGIN", holder: user,
                    occurredAt: seconds(200), purchase: nil, transaction: nil,
                    change: .move(from: [device], to: user, isNative: false), body: Array("{}".utf8))
                let native = Event.sample(
                    "SUBSCRIPTION_TRANSFERRED", holder: old, at: seconds(100), source: "moving",
                    environment: scope.environment, fact: .transferred(old, to: device, seconds(100), until: until))
                for place in order { await daemon.record([[native, login][place]]) }
                let active = try ledger.psql(
                    """
                    SELECT string_agg(holder, ' ') FROM entitlements e JOIN purchases p ON p.id = e.purchase
                    WHERE active AND environment = 'order\(index)'
                    """)
                #expect(active == "user:new", "\(order)")
            }
        }
    }

    @Test("A restore milliseconds after two were given the purchase at one time is one transfer, in every order")
    func restoreAfterTie() {
        let (first, second, at) = (Holder.user("u1"), Holder.user("u2"), seconds(0))
        let gains: [Fact] = [.activate(first, at), .activate(second, at)]
        let move = KeptMove(at: at.advanced(byMilliseconds: 5), from: nil, to: first, isLogin: false)
        for order in permutations([0, 1, 2]) {
            var (state, announced, voids) = (PurchaseState(), [AnnouncedTransfer](), [VoidedTransfer]())
            var access: [Holder: Access] = [:]
            for place in order {
                let facts = place < gains.count ? [gains[place]] : []
                let resolution = TransferResolution.resolve(
                    state, facts, moves: facts.isEmpty ? [move] : [], kind: .subscription)
                (state, access) = (resolution.state, resolution.access)
                announced += resolution.announced
                voids += resolution.voids
            }
            // The loss that the move states does not say that its giver was the first at the tie, too.
            #expect(
                announced == [AnnouncedTransfer(from: second, to: first, ordinal: 1, native: nil)] && voids.isEmpty,
                "\(order)")
            #expect(access.filter(\.value.isActive).map(\.key) == [first], "\(order)")
        }
    }

    @Test("A login at the time of a loss that ends no period counts, where it moves nothing, for no later login")
    func loginAtLoss() {
        let (device, first, second) = (Holder.anonymous("device"), Holder.user("u1"), Holder.user("u2"))
        let day: Int64 = 86_400
        func login(_ user: Holder, at time: Int64) -> Event {
            .change(.move(from: [device], to: user, isNative: false), by: user, at: time, source: "moving")
        }
        // The loss shows that the period lasted, but not to a login of its very time, whose half it may be.
        let events: [Event] = [
            .stating(.activate(device, seconds(0), until: seconds(day)), source: "moving"),
            .stating(.deactivate(device, seconds(2 * day), until: seconds(30 * day)), source: "moving"),
            login(first, at: 2 * day), login(second, at: 3 * day),
        ]
        for order in permutations(events) { #expect(PlannedHistory(order).active("subs_1") == [second], "\(order)") }
    }

    @Test("What had lapsed passes on again from whom it passed to, also when that is older than any late webhook")
    func lapsedLongAgo() {
        let (first, second, third) = (Holder.user("u1"), Holder.user("u2"), Holder.user("u3"))
        func at(_ day: Int64) -> Timestamp { seconds(day * 86_400) }
        var state = PurchaseState()
        func resolve(_ facts: [Fact], _ moves: [KeptMove] = []) -> [AnnouncedTransfer] {
            let resolution = TransferResolution.resolve(state, facts, moves: moves, kind: .subscription)
            state = resolution.state
            return resolution.announced
        }
        _ = resolve([.activate(first, at(0), until: at(30))])
        _ = resolve([], [KeptMove(at: at(40), from: first, to: second, isLogin: false)])
        _ = resolve([.deactivate(first, at(63), until: at(30))])
        #expect(state.moves.isEmpty && !state.registers.contains { $0.holder == second })
        // By these a change of holders finds the purchase.
        #expect(state.everHolders.contains(second))
        let announced = resolve([], [KeptMove(at: at(64), from: second, to: third, isLogin: false)])
        #expect(announced == [AnnouncedTransfer(from: second, to: third, ordinal: 1, native: nil)])
    }

    @Test("The user that something passed to last is who the anonymous holder is, in every order of arrival")
    func newestTransfer() async throws {
        let anonymous = Holder.anonymous("x")
        let gains: [(Holder, String, Int64)] = [
            (anonymous, "p1", 0), (.user("a"), "p1", 250), (anonymous, "p2", 200), (.user("b"), "p2", 300),
        ]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            for (index, order) in permutations(Array(gains.indices)).enumerated() {
                for place in order {
                    let (holder, purchase, at) = gains[place]
                    let event = Event.sample(
                        "ACTIVATE", holder: holder, at: seconds(at), purchase: purchase, transaction: "t-\(purchase)",
                        environment: "order\(index)", fact: .activate(holder, seconds(at), until: seconds(100_000)))
                    await daemon.record([event])
                }
                let link = try ledger.psql(
                    "SELECT user_id || ' ' || as_of_ms FROM holder_links WHERE environment = 'order\(index)'")
                #expect(link == "b \(seconds(300).milliseconds)", "\(order)")
            }
        }
    }
}
