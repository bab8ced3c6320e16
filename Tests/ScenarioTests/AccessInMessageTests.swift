import Foundation
import Testing
import Vocabulary

/// `include = ["access"]` over HTTP. Oracle: what the API of the same daemon answers.
@Suite struct AccessInMessageTests {
    private static let shared = ["product", "plan", "active", "until", "overdue", "app", "store", "purchase", "kind"]

    private static func text(_ entries: [[String: Any]]) -> [String] {
        entries.map { entry in shared.map { "\($0)=\(entry[$0] ?? "none")" }.joined(separator: " ") }.sorted()
    }

    @Test("Its integration gets data.access behind the original, as the API answers; another gets no such member")
    func included() throws {
        let (state, plain) = (try Receiver(), try Receiver())
        let relay = try Relay.running([
            .init("state", state, ["include": #"["access"]"#]), .init("plain", plain),
        ])
        defer { relay.end() }
        let webhooks = ["subs_1", "subs_2"].map {
            Webhook("ACTIVATE", .user("u-1"), purchase: $0, paidDays: 36_500)
        }
        for webhook in webhooks { #expect(try relay.source().post(webhook.body) == 200) }
        #expect(state.waitForAccepted(2) && plain.waitForAccepted(2))
        for message in plain.received { #expect(message.data["access"] == nil && message.isVerified) }

        let access = state.received.compactMap { ($0.data["access"] as? [[String: Any]])?.first }
        #expect(access.count == 2 && state.received.allSatisfy(\.isVerified))
        for message in state.received {
            let webhook = webhooks.first { message.body.firstRange(of: $0.body) != nil }
            let original = Array(#""original":"#.utf8) + (webhook?.body ?? []) + Array(#","access":["#.utf8)
            #expect(message.body.firstRange(of: original) != nil)
        }
        let sorted = access.sorted {
            ($0["version"] as? NSNumber)?.int64Value ?? 0 < ($1["version"] as? NSNumber)?.int64Value ?? 0
        }
        let newest = try #require(sorted.last)
        #expect(newest["holder"] as? [String: String] == ["user_id": "u-1"] && newest["more"] as? Bool == false)
        let listed = try #require(newest["purchases"] as? [[String: Any]])
        let answer = try relay.ask("GET", "/v1/entitlements?user_id=u-1&source=purchasely&environment=PRODUCTION")
        let json = try #require(JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
        let entitlements = try #require(json["data"] as? [[String: Any]], "\(answer.text)")
        #expect(listed.count == 2 && listed.allSatisfy { $0["active"] as? Bool == true })
        #expect(Self.text(listed) == Self.text(entitlements))
    }
}
