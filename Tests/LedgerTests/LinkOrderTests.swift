import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Who an anonymous holder is, where transfers say so one after the other. Oracle: psql.
@Suite("Links that transfers teach", .serialized)
struct LinkOrderTests {
    @Test("The user that something passed to last is who the anonymous holder is, in every order of arrival")
    func newestTransfer() async throws {
        let anonymous = Holder.anonymous("x")
        let gains: [(Holder, String, Int64)] = [
            (anonymous, "p1", 0), (.user("a"), "p1", 250), (anonymous, "p2", 200), (.user("b"), "p2", 300),
        ]
        try await Bench.run { bench in
            let daemon = try await bench.daemon([.named("all")])
            for (index, order) in permutations(Array(gains.indices)).enumerated() {
                for place in order {
                    let (holder, purchase, at) = gains[place]
                    let event = Event.sample(
                        "ACTIVATE", holder: holder, at: seconds(at), purchase: purchase, transaction: "t-\(purchase)",
                        environment: "order\(index)", fact: .activate(holder, seconds(at), until: seconds(100_000)))
                    await daemon.record([event])
                }
                let link = try bench.psql(
                    "SELECT user_id || ' ' || as_of_ms FROM holder_links WHERE environment = 'order\(index)'")
                #expect(link == "b \(seconds(300).milliseconds)", "\(order)")
            }
        }
    }
}
