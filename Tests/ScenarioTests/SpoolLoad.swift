import Foundation
import Vocabulary

/// A source that sends each webhook once, whatever the answer, as Apphud does: several connections, each sending one
/// purchase after another. A purchase is started by one user and renewed by another, which is a transfer.
///
/// It is half of the oracle: what was answered 200 has to be in the ledger, once.
final class SpoolLoad: Sendable {
    struct Tally: Sendable {
        /// Event ids that were answered 200.
        var acknowledged: Set<String> = []
        /// Purchases of which all webhooks were answered 200.
        var transferred: Set<String> = []
        /// Answers other than 200 by status.
        var refusals: [Int: Int] = [:]
        /// Requests that got no answer.
        var unanswered = 0
        var connectionsLeft = 0
    }

    private struct State: Sendable {
        var tally = Tally()
        var isStopping = false
        var next = 0
    }

    private let state: Monitor<State>
    private let port: UInt16
    static let header = [("X-Apphud-Token", "source-secret"), ("content-type", "application/json")]

    init(on port: UInt16, connections: Int = 4, pause: Double = 0.01) {
        self.port = port
        state = Monitor(State())
        state.change { $0.tally.connectionsLeft = connections }
        for _ in 0..<connections {
            Thread.detachNewThread { [self] in
                run(pause)
                state.change { $0.tally.connectionsLeft -= 1 }
            }
        }
    }

    var tally: Tally { state.read(\.tally) }

    /// Waits until so many more webhooks were answered 200.
    func waitForProgress(_ count: Int, within seconds: Double = 180) -> Bool {
        let target = state.read { $0.tally.acknowledged.count } + count
        return state.wait(seconds) { $0.tally.acknowledged.count >= target }
    }

    func finish(within seconds: Double = 180) -> Tally? {
        state.change { $0.isStopping = true }
        guard state.wait(seconds, until: { $0.tally.connectionsLeft == 0 }) else { return nil }
        return tally
    }

    private func run(_ pause: Double) {
        let client = HTTPClient(port: port)
        while let number = state.change({ state -> Int? in
            state.next += 1
            return state.isStopping ? nil : state.next
        }) {
            let isWhole = Self.webhooks(number).map { id, body in
                defer { Thread.sleep(forTimeInterval: pause) }
                return post(id, body, over: client)
            }.allSatisfy(\.self)
            if isWhole { state.change { _ = $0.tally.transferred.insert(Self.purchase(number)) } }
        }
    }

    private func post(_ id: String, _ body: String, over client: HTTPClient) -> Bool {
        do {
            let answer = try client.request(
                "POST", "/ingest/apphud", headers: Self.header, body: Array(body.utf8))
            state.change { state in
                if answer.status == 200 {
                    state.tally.acknowledged.insert(id)
                } else {
                    state.tally.refusals[answer.status, default: 0] += 1
                }
            }
            return answer.status == 200
        } catch {
            state.change { $0.tally.unanswered += 1 }
            return false
        }
    }

    static func purchase(_ number: Int) -> String { "2000\(number)" }

    static func webhooks(_ number: Int) -> [(id: String, body: String)] {
        [("a", "subscription_started", 0), ("b", "subscription_renewed", Webhook.day)].map { user, name, after in
            let id = "\(number)-\(user)"
            return (id, body(id, name, user: "user-\(user)-\(number)", purchase: purchase(number), after: after))
        }
    }

    /// In the shape of Apphud's published webhook (docs.apphud.com/docs/webhook).
    static func body(_ id: String, _ name: String, user: String, purchase: String, after: Int64) -> String {
        func time(_ milliseconds: Int64) -> String { Timestamp(milliseconds: Webhook.epoch + milliseconds).iso8601 }
        return """
            {"app": {"uid": "89a4b2c1", "bundle_id": "com.example.app"},
             "event": {"id": "\(id)", "created_at": "\(time(after))", "name": "\(name)", "store": "app_store",
              "properties": {"product_id": "com.example.app.monthly"},
              "receipt": {"transaction_id": "\(purchase)\(after)", "original_transaction_id": "\(purchase)",
               "purchased_at": "\(time(after))", "product_id": "com.example.app.monthly"}},
             "user": {"user_id": "\(user)", "subscriptions": [
              {"id": "line-1", "status": "regular", "environment": "production", "store": "app_store",
               "original_transaction_id": "\(purchase)", "expires_at": "\(time(after + 30 * Webhook.day))",
               "product_id": "com.example.app.monthly"}]}}
            """
    }
}
