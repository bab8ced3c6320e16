import Vocabulary

@testable import Inbound

/// Bodies as an app's own server would post them.
enum SessionsFixtures {
    static let at = Timestamp(milliseconds: 1_700_000_000_000)

    static let login = """
        {"type":"SESSION_LOGIN","timestamp":"2023-11-14T22:13:20Z","data":{"event_id":"e-1","anonymous_id":"a1",\
        "user_id":"u1","expires_at":"2023-12-14T22:13:20Z","environment":"production"}}
        """

    static let purchase = """
        {"type":"ACTIVATE","timestamp":"2023-11-14T22:13:20Z","data":{"user_id":"u1","purchase_id":"sub-1",\
        "product":"premium","plan":"monthly","store":"app_store","purchase_type":"RENEWING_SUBSCRIPTION",\
        "store_transaction_id":2000000123,"store_original_transaction_id":"1000000123",\
        "purchased_at":"2023-11-14T22:13:19Z","effective_next_renewal_at_ms":1702592000000,"offer_type":"NONE",\
        "status":"AUTO_RENEWING","environment":"sandbox"}}
        """

    static func of(_ type: String, _ data: BodyEdit.Fields) -> String {
        BodyEdit.edit(#"{"type":"\#(type)","timestamp":"2023-11-14T22:13:20Z","data":{}}"#, in: "data", set: data)
    }

    static let source = source()

    static func source(
        authentication: Source.Authentication = .signature, secrets: [String] = ["abc"], app: String? = nil,
        freshness: Duration? = nil, merges: Bool = false
    ) -> Source {
        Source(
            name: "sessions", kind: .sessions, authentication: authentication,
            secrets: secrets.map { Secret(Array($0.utf8)) }, app: app, defaultEnvironment: "PRODUCTION",
            freshness: freshness, merges: merges)
    }
}
