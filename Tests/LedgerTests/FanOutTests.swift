import Testing
import Vocabulary

@testable import Ledger

/// Oracle: the rule said again in other words, over every combination.
@Suite("Fan-out")
struct FanOutTests {
    private let scope = Scope(source: "shop", app: "", environment: "PRODUCTION")
    private let purchase = Identifier(high: 0, low: 1)

    private func fields(_ type: String, of purchase: Identifier? = nil, product: String? = nil) -> MessageFields {
        let named = product.map {
            Purchase(key: "p", kind: .subscription, store: "s", product: $0, plan: nil, subscriptionID: nil)
        }
        return MessageFields(
            .init(type: type, eventID: "evt_1", eventName: type), of: .init(id: purchase, purchase: named), in: scope,
            at: seconds(0))
    }

    private func route(_ row: Int32, _ integration: Integration) -> RoutedIntegration {
        RoutedIntegration(row: row, integration: integration)
    }

    @Test(
        "An integration gets what it asks for",
        arguments: [
            (["*"], [], [], true), (["REN*"], [], [], true), (["REN"], [], [], false),
            (["X", "RENEWED"], [], [], true),
            (["*"], ["PRODUCTION"], [], true), (["*"], ["SANDBOX"], [], false),
            (["*"], ["SANDBOX", "PRODUCTION"], [], true),
            (["*"], [], ["shop"], true), (["*"], [], ["kiosk"], false), (["*"], ["PRODUCTION"], ["kiosk"], false),
        ] as [([String], [String], [String], Bool)])
    func selects(events: [String], environments: [String], sources: [String], isWanted: Bool) {
        let integration = Integration.named("a", events: events, environments: environments, sources: sources)
        let fanOut = FanOut([fields("RENEWED", of: purchase)], by: RouteTable([route(1, integration)]))
        #expect(fanOut.planned.count == (isWanted ? 1 : 0))
    }

    @Test(
        "An integration with where gets the messages whose fields it names, and the relay's own",
        arguments: [
            ("RENEWED", "gold.monthly", true), ("RENEWED", "silver", true), ("RENEWED", "bronze", false),
            ("RENEWED", nil, false), ("posthouse.integration.dead", nil, true),
        ] as [(String, String?, Bool)])
    func filters(type: String, product: String?, isWanted: Bool) {
        let filter = MessageFilter([.product: ["gold.*", "silver"], .environment: ["PRODUCTION"]])
        let table = RouteTable([
            route(1, .named("some", events: ["*", "posthouse.*"], filter: filter)),
            route(2, .named("all", events: ["*", "posthouse.*"])),
        ])
        // The second time the answer of events, environments and sources is remembered.
        for _ in 0..<2 {
            let rows = table.selecting(fields(type, product: product)).map(\.row)
            #expect(rows == (isWanted ? [1, 2] : [2]))
        }
    }

    @Test("In order only the first of an ordering key is not blocked; what is known to wait counts")
    func order() {
        let other = Identifier(high: 0, low: 2)
        let routes = RouteTable([
            route(1, .named("ordered")), route(2, .named("loose", order: .none)), route(3, .named("also ordered")),
        ])
        let purchases = [purchase, purchase, other, nil, nil]
        var fanOut = FanOut(purchases.map { fields("X", of: $0) }, by: routes)
        #expect(fanOut.orderedReceivers == [1, 3])
        fanOut.block(occupied: [FanOut.OrderingKey(purchase: purchase, integration: 3)])
        let blocked = [
            [false, false, true], [true, false, true], [false, false, false], [false, false, false],
            [false, false, false],
        ]
        for (message, purchase) in purchases.enumerated() {
            let planned = fanOut.planned.filter { $0.message == message }
            #expect(planned.map(\.integration) == [1, 2, 3])
            #expect(planned.allSatisfy { $0.purchase == purchase })
            #expect(planned.map(\.isBlocked) == blocked[message], "message \(message)")
        }
        #expect(fanOut.planned.count == 15)
    }

    @Test("The integrations that are asked for what they have waiting are those that get one of the messages")
    func receivers() {
        let filter = MessageFilter([.product: ["gold.*"]])
        let routes = RouteTable([
            route(1, .named("some", filter: filter)), route(2, .named("other", events: ["OTHER"])),
            route(3, .named("loose", order: .none)),
        ])
        func receivers(_ product: String) -> Set<Int32> {
            FanOut([fields("RENEWED", of: purchase, product: product)], by: routes).orderedReceivers
        }
        #expect(receivers("gold.monthly") == [1])
        #expect(receivers("bronze").isEmpty)
    }

    @Test("Who is sent a message is the same the first time and later, and beyond what is remembered")
    func remembered() {
        let all = (0..<60).map { row in
            route(Int32(row), .named("\(row)", events: row % 3 == 0 ? ["*"] : ["T\(row)*"]))
        }
        let table = RouteTable(all)
        for _ in 0..<2 {
            for type in (0..<3_000).map({ "T\($0)" }) {
                let wanted = all.filter {
                    $0.integration.selects(type: type, source: scope.source, environment: scope.environment)
                }
                #expect(table.selecting(fields(type)).map(\.row) == wanted.map(\.row))
            }
        }
    }
}
