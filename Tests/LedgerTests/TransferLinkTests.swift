import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Who the old holder of a transfer is known to be (`TransferEvidence`). Oracle: SQL; each order of arrival is played
/// in an environment of its own (I4).
@Suite("What transfers say of who anonymous holders are", .serialized)
struct TransferLinkTests {
    private static let (device, phone) = (Holder.anonymous("device"), Holder.anonymous("phone"))
    private static let bob = Holder.user("bob")

    private func gain(_ holder: Holder, at: Int64, until: Int64 = 100_000) -> @Sendable (String) -> Event {
        {
            .sample(
                "ACTIVATE", holder: holder, at: seconds(at), source: "moving", environment: $0,
                fact: .activate(holder, seconds(at), until: seconds(until)))
        }
    }

    private func loss(_ holder: Holder, at: Int64) -> @Sendable (String) -> Event {
        {
            .sample(
                "DEACTIVATE", holder: holder, at: seconds(at), source: "moving", environment: $0,
                fact: .deactivate(holder, seconds(at)))
        }
    }

    /// On the phone, where bob is logged in.
    private func restore(at: Int64) -> @Sendable (String) -> Event {
        {
            .change(
                .restore(install: Self.phone.id, transactions: ["tx_1"], strategy: .transfer), by: Self.phone, at: at,
                source: "moving", environment: $0,
                links: [HolderLink(anonymousID: Self.phone.id, userID: Self.bob.id)])
        }
    }

    /// - Parameters:
    ///   - expected: the user that the device is known to be and since when; empty: nobody.
    ///   - isInOrder: plays the events in their order alone, instead of in every order.
    private func expectLink(
        _ events: [@Sendable (String) -> Event], _ expected: String, isInOrder: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let orders = isInOrder ? [Array(events.indices)] : permutations(Array(events.indices))
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            for (index, order) in orders.enumerated() {
                for place in order { await daemon.record([events[place]("order\(index)")]) }
                let link = try ledger.psql(
                    """
                    SELECT user_id || ' ' || as_of_ms FROM holder_links
                    WHERE anonymous_user_id = 'device' AND environment = 'order\(index)'
                    """)
                #expect(link == expected, "\(order)", sourceLocation: sourceLocation)
            }
            #expect(
                try ledger.psql("SELECT DISTINCT holder FROM entitlements WHERE active") == Self.bob.storageKey,
                sourceLocation: sourceLocation)
        }
    }

    @Test("The device that a restore takes a purchase from is not the user who gets it")
    func restored() async throws {
        try await expectLink([gain(Self.device, at: 0), gain(Self.device, at: 20), restore(at: 50)], "")
    }

    @Test("Who loses by a second restore is not its user, when the first is older than late webhooks and in the facts")
    func restoredAgain() async throws {
        let day: Int64 = 86_400
        try await expectLink(
            [
                gain(Self.device, at: 0, until: 60 * day), restore(at: day),
                gain(Self.device, at: 30 * day, until: 60 * day), restore(at: 31 * day),
            ], "", isInOrder: true)
    }

    @Test("A device of which only the loss is known, within the minute before a restore, is not the user who gets it")
    func lostOnly() async throws {
        try await expectLink([gain(.user("carol"), at: 0), loss(Self.device, at: 100), restore(at: 130)], "")
    }

    @Test("A device is the user to whom something other than a restore shows a transfer, whichever comes first")
    func transferred() async throws {
        let expected = "bob \(seconds(20).milliseconds)"
        let events = [gain(Self.device, at: 0), gain(Self.bob, at: 20), restore(at: 50)]
        try await expectLink(events, expected)
        try await expectLink(events + [gain(Self.device, at: 30)], expected)
    }

    @Test("Whoever is logged in on the device stays so, and the message of its loss names that user")
    func session() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let login = Event(
                scope: Scope(source: "moving", app: "app.one", environment: "E"), vendorEventID: nil, name: "LOGIN",
                type: "LOGIN", holder: Self.device, occurredAt: seconds(10), purchase: nil, transaction: nil,
                links: [HolderLink(anonymousID: Self.device.id, userID: "ann")], body: Array("{}".utf8))
            for event in [gain(Self.device, at: 0)("E"), login, restore(at: 50)("E")] { await daemon.record([event]) }
            #expect(
                try ledger.psql("SELECT user_id FROM holder_links WHERE anonymous_user_id = 'device'") == "ann")
            let lost = try ledger.psql(
                "SELECT convert_from(envelope, 'UTF8') FROM messages WHERE type = 'SUBSCRIPTION_TRANSFERRED'")
            #expect(lost.contains(#""resolved_user_id":"ann""#), "\(lost)")
        }
    }
}
