import Foundation
import Vocabulary

/// A source that never gives up, as Purchasely within its schedule: several kept-alive connections, each sending one
/// purchase after another, every webhook again and again until it is answered 200.
///
/// It is half of the oracle: what it was answered 200 for has to be in the ledger and at every receiver.
final class FaultLoad: Sendable {
    /// What the answers were, over all connections.
    struct Tally: Sendable {
        /// Event ids that were answered 200.
        var acknowledged: Set<String> = []
        /// Purchases whose last webhook was answered 200.
        var purchases: [FaultPurchase] = []
        /// Answers other than 200 by status.
        var refusals: [Int: Int] = [:]
        /// Answers 503 without a Retry-After in whole seconds.
        var refusalsWithoutDelay = 0
        /// Requests that got no answer: whether they were stored is not known.
        var unanswered = 0
        var longestAnswerSeconds = 0.0
        var connectionsLeft = 0

        /// Whether every request was answered, and at most 19 with 503, which is what a webhook gets when the machine
        /// stands still for its 8 s.
        func isServed(by relays: [Relay]) -> Bool {
            unanswered == 0 && Set(refusals.keys).isSubset(of: [503]) && refusals[503] ?? 0 < 20
                && relays.allSatisfy(\.refusalsByFault.isEmpty)
        }
    }

    private struct State: Sendable {
        var tally = Tally()
        var ports: [UInt16]
        var isStopping = false
        var nextPurchase = 0
    }

    private let state: Monitor<State>
    private let prefix: String

    /// Begins at once.
    /// - Parameters:
    ///   - prefix: distinguishes this load's ids from those of another on the same database.
    ///   - ports: of the daemons; the connections spread over them.
    ///   - pause: between two webhooks of one connection, in seconds: the load is meant to be steady, not heavy.
    init(_ prefix: String, on ports: [UInt16], connections: Int = 6, pause: Double = 0.01) {
        self.prefix = prefix
        state = Monitor(State(ports: ports))
        state.change { $0.tally.connectionsLeft = connections }
        for number in 0..<connections {
            Thread.detachNewThread { [self] in
                run(number, pause: pause)
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

    /// Waits until so many more answers were 503.
    func waitForRefusals(_ count: Int, within seconds: Double = 180) -> Bool {
        let target = state.read { $0.tally.refusals[503] ?? 0 } + count
        return state.wait(seconds) { $0.tally.refusals[503] ?? 0 >= target }
    }

    /// Lets every connection finish its purchase; nil: some webhook was not answered 200 within `seconds`.
    func finish(within seconds: Double = 180) -> Tally? {
        state.change { $0.isStopping = true }
        guard state.wait(seconds, until: { $0.tally.connectionsLeft == 0 }) else { return nil }
        return tally
    }

    private func run(_ number: Int, pause: Double) {
        var connection: SourceConnection?
        while let purchase = next() {
            for webhook in purchase.webhooks {
                while !post(webhook, over: &connection, number) {}
                Thread.sleep(forTimeInterval: pause)
            }
            state.change { $0.tally.purchases.append(purchase) }
        }
    }

    private func next() -> FaultPurchase? {
        state.change { state in
            guard !state.isStopping else { return nil }
            state.nextPurchase += 1
            return FaultPurchase(prefix: prefix, number: state.nextPurchase)
        }
    }

    /// One attempt; whether it was answered 200.
    private func post(_ webhook: Webhook, over connection: inout SourceConnection?, _ number: Int) -> Bool {
        let ports = state.read(\.ports)
        let current = connection ?? SourceConnection(Source(port: ports[number % ports.count]))
        connection = current
        let began = Date()
        do {
            let answer = try current.post(webhook.body)
            let seconds = Date().timeIntervalSince(began)
            state.change { state in
                state.tally.longestAnswerSeconds = max(state.tally.longestAnswerSeconds, seconds)
                if answer.status == 200 {
                    state.tally.acknowledged.insert(webhook.eventID ?? "")
                } else {
                    state.tally.refusals[answer.status, default: 0] += 1
                    let delay = answer["retry-after"].flatMap { Int($0) }
                    if answer.status == 503, delay ?? 0 < 1 { state.tally.refusalsWithoutDelay += 1 }
                }
            }
            // Sooner than Retry-After asks: the scenario is bounded, and the relay must bear it.
            if answer.status != 200 { Thread.sleep(forTimeInterval: 0.1) }
            return answer.status == 200
        } catch {
            state.change { $0.tally.unanswered += 1 }
            connection = nil
            Thread.sleep(forTimeInterval: 0.02)
            return false
        }
    }
}

extension SourceConnection {
    /// Whether a webhook is answered 200, in the end (`insisting`).
    func store(_ webhook: Webhook) -> Bool { store(body: webhook.body) }

    func store(body: [UInt8]) -> Bool { (try? insist(on: body).status) == 200 }
}

/// The life of one purchase: bought by an anonymous user, transferred to a user by the pair of identity events,
/// renewed.
struct FaultPurchase: Sendable {
    let prefix: String
    let number: Int

    var key: String { "subs_\(prefix)\(number)" }
    var anonymous: String { "anonymous-\(prefix)\(number)" }
    var user: String { "user-\(prefix)\(number)" }

    /// In the order in which they are sent, each after the one before was acknowledged.
    var webhooks: [Webhook] {
        let steps: [(String, Bool, Int64)] = [
            ("ACTIVATE", true, 0), ("DEACTIVATE", true, 60_000), ("ACTIVATE", false, 60_000),
            ("RENEWAL_DISABLED", false, 120_000), ("RENEWAL_ENABLED", false, 180_000), ("ACTIVATE", false, 240_000),
        ]
        return steps.enumerated().map { index, step in
            Webhook(
                step.0, step.1 ? .anonymous(anonymous) : .user(user), purchase: key, transaction: "9\(prefix)\(number)",
                at: Webhook.epoch + step.2, eventID: "\(prefix)\(number)-\(index)")
        }
    }

    /// What each receiver has to get: the webhooks, and the one transfer that they state.
    static let messagesEach = 8
}
