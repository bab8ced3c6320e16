import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Google's reference of purchases.subscriptionsv2 (`lineItems`), and its page "Subscriptions", section "Handle
/// deferred replacement".
@Suite("Several products of one subscription at Google Play")
struct GooglePlayItemTests {
    typealias Fixtures = GooglePlayFixtures

    @Test("A deferred change names the product of today, in either order")
    func deferredChange() throws {
        let today = Fixtures.item([(key: "deferredItemReplacement", raw: #"{"productId":"pro"}"#)])
        for expiry in [nil, #""2027-10-31T08:00:05.377Z""#] as [String?] {
            let later = Fixtures.item([(key: "productId", raw: "\"pro\""), (key: "expiryTime", raw: expiry)])
            for items in [Fixtures.items(today, later), Fixtures.items(later, today)] {
                let event = try googlePlay(
                    Fixtures.subscription(9), answered: Fixtures.state("ACTIVE", items))
                #expect(event.purchase?.product == "plus")
                #expect(event.stated.map(\.until) == [Fixtures.expiresAt])
            }
        }
    }

    /// Oracle: the answer that github.com/android/play-billing-samples shows in issue 624, `..0`: of the product that
    /// was replaced neither a renewal nor a base plan is left.
    @Test("After a deferred change the product that renews names the purchase, or else one that has a plan")
    func afterDeferredChange() throws {
        let silver = Fixtures.item([(key: "productId", raw: "\"silver\"")])
        var former: BodyEdit.Fields = [
            (key: "productId", raw: "\"gold\""), (key: "autoRenewingPlan", raw: "{}"),
            (key: "latestSuccessfulOrderId", raw: "\"GPA.1-2\""),
        ]
        let gold = Fixtures.item(former)
        for items in [Fixtures.items(gold, silver), Fixtures.items(silver, gold)] {
            let event = try googlePlay(Fixtures.subscription(2), answered: Fixtures.state("ACTIVE", items))
            #expect(event.purchase?.product == "silver" && event.transaction?.status == "AUTO_RENEWING")
            #expect(event.transaction?.storeTransactionID == "GPA.3388-4471-9023-55182..0")
            #expect(event.stated.map(\.until) == [Fixtures.expiresAt])
        }
        // Switched off meanwhile.
        let canceled = Fixtures.item([
            (key: "productId", raw: "\"silver\""), (key: "autoRenewingPlan", raw: "{}"),
        ])
        former.append((key: "offerDetails", raw: nil))
        let planless = Fixtures.item(former)
        for items in [Fixtures.items(planless, canceled), Fixtures.items(canceled, planless)] {
            let event = try googlePlay(Fixtures.subscription(3), answered: Fixtures.state("CANCELED", items))
            #expect(event.purchase?.product == "silver" && event.purchase?.plan == "monthly")
        }
    }

    @Test("Of several products the one that lasts longest names the purchase, in either order")
    func addOns() throws {
        let plus = Fixtures.item()
        let extra = Fixtures.item([
            (key: "productId", raw: "\"extra\""), (key: "expiryTime", raw: "\"2026-10-20T00:00:00Z\""),
        ])
        let ended = Fixtures.item([
            (key: "productId", raw: "\"ended\""), (key: "expiryTime", raw: "\"2026-01-01T00:00:00Z\""),
        ])
        for items in [
            Fixtures.items(plus, extra, ended), Fixtures.items(ended, extra, plus), Fixtures.items(extra, plus, ended),
        ] {
            let event = try googlePlay(Fixtures.subscription(17), answered: Fixtures.state("ACTIVE", items))
            #expect(event.purchase?.product == "plus")
            #expect(event.stated.map(\.until) == [Fixtures.expiresAt])
        }
        let twin = Fixtures.item([(key: "productId", raw: "\"alpha\"")])
        for items in [Fixtures.items(plus, twin), Fixtures.items(twin, plus)] {
            let event = try googlePlay(Fixtures.subscription(17), answered: Fixtures.state("ACTIVE", items))
            #expect(event.purchase?.product == "alpha")
        }
    }
}
