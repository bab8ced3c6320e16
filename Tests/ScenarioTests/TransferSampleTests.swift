import Testing
import Vocabulary

/// Purchasely's page "Anonymous user" (docs 3.x) gives three sample payloads: a one-time purchase and a transfer pair.
/// All three carry one placeholder `store_transaction_id`, none an `event_id` or a `purchase_type`. The shape and the
/// coincidence are theirs, the values ours.
@Suite struct TransferSampleTests {
    @Test("The three samples of the page: three events, two purchases, one transfer pair")
    func threeSamples() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let transaction = "100000099999999"
        let gone: Holder = .anonymous("A1B2C3D4-0000-4000-8000-00000000000A")
        let other: Holder = .anonymous("A1B2C3D4-0000-4000-8000-00000000000B")
        let user: Holder = .user("user-of-the-page")
        // The times are the page's: event_created_at of the pair lies before purchased_at.
        var once = Webhook(
            "ACTIVATE", other, purchase: "otp_XXXXXXXFFFFFFFFF", transaction: transaction, at: 1_637_573_018_559)
        once.environment = "SANDBOX"
        var pair = [
            Webhook("DEACTIVATE", gone, purchase: "subs_XXXXXXXX", transaction: transaction, at: 1_636_307_015_225),
            Webhook("ACTIVATE", user, purchase: "subs_XXXXXXXX", transaction: transaction, at: 1_636_307_015_225),
        ]
        for index in pair.indices {
            pair[index].environment = "SANDBOX"
            pair[index].purchasedAt = 1_636_307_057_000
            pair[index].renewsAt = 1_636_307_237_000
        }
        for webhook in [once] + pair { #expect(try relay.source().post(webhook) == 200) }
        // Purchasely repeats what it thinks was not acknowledged.
        for webhook in pair.reversed() + [once] { #expect(try relay.source().post(webhook) == 200) }
        let database = try relay.database
        #expect(try database.drained())

        #expect(try database.count("events") == 3)
        #expect(try database.count("purchases") == 2)
        #expect(try database.count("transactions", where: "store_transaction_id = '\(transaction)'") == 2)
        #expect(receiver.received.allSatisfy { $0.isVerified && $0.isAccepted })
        let types = receiver.received.map(\.type)
        #expect(
            types.sorted() == [
                "ACTIVATE", "ACTIVATE", "DEACTIVATE", "SUBSCRIPTION_RECEIVED", "SUBSCRIPTION_TRANSFERRED",
            ])
        #expect(try database.count("transfers") == 1)
        #expect(
            try database.access() == [
                "otp_XXXXXXXFFFFFFFFF": [other.storageKey: true],
                "subs_XXXXXXXX": [gone.storageKey: false, user.storageKey: true],
            ])
    }
}
