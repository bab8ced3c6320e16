import Foundation
import Testing
import Vocabulary

/// Invariants I1 and I2 over HTTP: a transfer shows in up to four webhooks, in any order, each perhaps twice or never.
/// Whatever arrives, each transfer is announced as exactly one pair, and access ends up with the user.
///
/// The oracle is `Case`: what a person reads off the set of webhooks, without regard to their order.
@Suite struct TransferOrderTests {
    /// One purchase of its own, so that all cases run in one relay at once.
    struct Case: Sendable {
        enum Piece: CaseIterable { case deactivate, activate, transferred, received }
        enum Seen: CaseIterable { case never, before, after }
        enum Renewal: CaseIterable { case none, last, first }

        let number: Int
        /// In their order of arrival.
        var order: [Piece]
        /// Whether the purchase by the anonymous user, a day earlier, was sent, too, and when that arrives.
        var seen: Seen
        /// An ACTIVATE(user) inside the last day of the paid period, on a transaction of its own.
        var renewal: Renewal
        var hasEventIDs: Bool

        var purchase: String { "subs_\(number)" }
        var anonymous: Holder { .anonymous("anon-\(number)") }
        var user: Holder { .user("user-\(number)") }

        private var hasNative: Bool { order.contains(.transferred) || order.contains(.received) }
        private var knowsAnonymous: Bool { hasNative || order.contains(.deactivate) || seen != .never }
        private var knowsUser: Bool { hasNative || order.contains(.activate) || renewal != .none }

        /// Both holders are known, so the purchase has passed from one to the other: once.
        var isTransfer: Bool { knowsAnonymous && knowsUser }

        var access: [String: Bool] {
            var access: [String: Bool] = [:]
            if knowsUser { access[user.storageKey] = true }
            if knowsAnonymous { access[anonymous.storageKey] = false }
            return access
        }

        /// Types that the receiver gets, sorted: each event but the natives, and one pair for the transfer.
        var types: [String] {
            var types = order.filter { $0 == .activate || $0 == .deactivate }
                .map { $0 == .activate ? "ACTIVATE" : "DEACTIVATE" }
            if seen != .never { types.append("ACTIVATE") }
            if renewal != .none { types.append("ACTIVATE") }
            if isTransfer { types += ["SUBSCRIPTION_RECEIVED", "SUBSCRIPTION_TRANSFERRED"] }
            return types.sorted()
        }

        /// Everything that is sent, in order, each webhook twice.
        var webhooks: [Webhook] {
            var once = order.map(webhook)
            switch seen {
            case .never: break
            case .before: once.insert(purchased, at: 0)
            case .after: once.append(purchased)
            }
            switch renewal {
            case .none: break
            case .last: once.append(renewed)
            case .first: once.insert(renewed, at: 0)
            }
            if hasEventIDs {
                for index in once.indices { once[index].eventID = UUID().uuidString.lowercased() }
            }
            // The second copy comes at once, or when all is over.
            return number.isMultiple(of: 2) ? once.flatMap { [$0, $0] } : once + once.reversed()
        }

        private func webhook(_ piece: Piece) -> Webhook {
            // DEACTIVATE and ACTIVATE carry one time, as in Purchasely's sample; the natives one about then.
            let skew: Int64 = [-700, 0, 900][number % 3]
            let at = Webhook.epoch
            return switch piece {
            case .deactivate: Webhook("DEACTIVATE", anonymous, purchase: purchase, at: at)
            case .activate: Webhook("ACTIVATE", user, purchase: purchase, at: at)
            case .transferred:
                Webhook("SUBSCRIPTION_TRANSFERRED", anonymous, to: user, purchase: purchase, at: at + skew)
            case .received:
                Webhook("SUBSCRIPTION_RECEIVED", user, to: anonymous, purchase: purchase, at: at + skew + 100)
            }
        }

        private var purchased: Webhook {
            Webhook("ACTIVATE", anonymous, purchase: purchase, at: Webhook.epoch - Webhook.day)
        }

        private var renewed: Webhook {
            let at = Webhook.epoch + 29 * Webhook.day
            return Webhook("ACTIVATE", user, purchase: purchase, transaction: "8000\(number)", at: at)
        }

        /// Every order of all four with every variant; every order of every smaller set with the likely ones.
        static let all: [Case] = {
            var cases: [Case] = []
            func add(_ order: [Piece], _ seen: Seen, _ renewal: Renewal, _ hasEventIDs: Bool) {
                cases.append(
                    Case(
                        number: cases.count + 1, order: order, seen: seen, renewal: renewal, hasEventIDs: hasEventIDs))
            }
            for order in orders(of: Piece.allCases) {
                if order.count == Piece.allCases.count {
                    for seen in Seen.allCases {
                        for renewal in Renewal.allCases {
                            add(order, seen, renewal, cases.count.isMultiple(of: 2))
                        }
                    }
                } else {
                    add(order, .never, .none, true)
                    add(order, .never, .last, false)
                    add(order, .before, .none, false)
                    add(order, .before, .last, true)
                }
            }
            return cases
        }()

        /// Every order of every non-empty subset.
        private static func orders(of pieces: [Piece]) -> [[Piece]] {
            pieces.flatMap { piece in
                let rest = orders(of: pieces.filter { $0 != piece })
                return [[piece]] + rest.map { [piece] + $0 }
            }
        }
    }

    @Test("Each order of a transfer's webhooks, with duplicates: one pair, the right holders, the right access")
    func everyOrder() throws {
        let cases = Case.all
        #expect(cases.count == 24 * 9 + 40 * 4)
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver, ["concurrency": "8"])])
        defer { relay.end() }

        let refused = Monitor<[String]>([])
        let source = relay.source()
        onThreads(8) { thread in
            let connection = source.connect()
            for item in cases where item.number % 8 == thread {
                for webhook in item.webhooks {
                    let status = (try? connection.insist(on: webhook.body).status) ?? 0
                    if status != 200 { refused.change { $0.append("case \(item.number): \(status)") } }
                }
            }
        }
        #expect(refused.current == [])

        let expected = cases.map(\.types.count).reduce(0, +)
        #expect(receiver.waitForAccepted(expected, 180))
        let database = try relay.database
        #expect(try database.drained())
        let received = receiver.received
        #expect(received.count == expected)
        #expect(received.allSatisfy { $0.isVerified })
        #expect(Set(received.map(\.id)).count == expected)

        let byPurchase = Dictionary(grouping: received) { message in
            (message.data["purchase"] as? [String: Any])?["key"] as? String ?? ""
        }
        let access = try database.access()
        for item in cases {
            let messages = byPurchase[item.purchase] ?? []
            let comment = Comment(rawValue: "\(item)")
            #expect(messages.map(\.type).sorted() == item.types, comment)
            #expect(access[item.purchase] == item.access, comment)
            checkPair(messages, of: item, comment)
        }
        let transfers = cases.filter(\.isTransfer).count
        #expect(try database.count("transfers") == transfers)
        let reported = Set(received.compactMap { ($0.data["transfer"] as? [String: Any])?["id"] as? String })
        #expect(reported.count == transfers)
    }

    /// Both messages name both holders under one id, each about its own side, the old holder's first.
    private func checkPair(_ messages: [Received], of item: Case, _ comment: Comment) {
        let pair = messages.filter { $0.type.hasPrefix("SUBSCRIPTION_") }
        guard item.isTransfer, pair.count == 2 else { return }
        #expect(pair.map(\.type) == ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"], comment)
        let transfers = pair.compactMap { $0.data["transfer"] as? [String: Any] }
        #expect(transfers.count == 2, comment)
        #expect(Set(transfers.compactMap { $0["id"] as? String }).count == 1, comment)
        for transfer in transfers {
            #expect(transfer["from"] as? [String: String] == ["anonymous_user_id": item.anonymous.id], comment)
            #expect(transfer["to"] as? [String: String] == ["user_id": item.user.id], comment)
        }
        #expect(pair[0].data["holder"] as? [String: String] == ["anonymous_user_id": item.anonymous.id], comment)
        #expect(pair[1].data["holder"] as? [String: String] == ["user_id": item.user.id], comment)
        #expect(messages.allSatisfy { $0.type.hasPrefix("SUBSCRIPTION_") || $0.data["transfer"] is NSNull }, comment)
    }
}
