import HTTPClient
import Testing
import Vocabulary

@testable import Outbound

/// What the request of an attempt carries. Oracle: posthouse-messages(7), "Access", for the standard payload's members.
@Suite struct SignedRequestTests {
    private static let key = Integration.SigningKey.symmetric(Secret(Array("key".utf8)))
    private static let seconds: Int64 = 1_614_265_330
    private static let url = EndpointURL(isTLS: false, host: "h", port: 80, target: "/")

    private func request(
        _ format: Integration.Format, _ include: Set<Integration.Inclusion> = [], derived: String? = nil,
        access: String? = nil
    ) throws -> EndpointRequest {
        let message = Message(
            row: 1, id: "msg_1", eventID: "e", type: "RENEW", source: "s", transaction: nil, purchase: nil,
            purchaseKey: nil, transferID: nil, envelope: Array(#"{"data":{"original":"#.utf8),
            original: Array(#"{"a":1}"#.utf8), derivedBody: derived.map { Array($0.utf8) },
            access: access.map { Array($0.utf8) })
        let integration = Integration(
            name: "a", url: Self.url, events: [], environments: [], sources: [], format: format, include: include,
            signingKeys: [Self.key], headers: [], timeout: .seconds(1),
            schedule: RetrySchedule(gaps: [], jitter: 0, giveUpAfter: nil), permanentStatuses: [], concurrency: 1,
            order: .none, allowsPrivateAddresses: false, certificateAuthorityFile: nil)
        return try EndpointRequest(
            carrying: message, to: integration, head: RequestHead(.post, Self.url, userAgent: "t"),
            signer: StandardWebhooksSigner(keys: [Self.key]), source: nil, unixSeconds: Self.seconds)
    }

    @Test func theBodyIsInItsOrderAndSignedAsAWhole() throws {
        let requests = [
            (try request(.standard, access: "[]"), #"{"data":{"original":{"a":1}}}"#),
            (try request(.standard, [.access], access: "[2]"), #"{"data":{"original":{"a":1},"access":[2]}}"#),
            (try request(.standard, [.access]), #"{"data":{"original":{"a":1},"access":null}}"#),
            (try request(.source), #"{"a":1}"#), (try request(.source, derived: "{}"), "{}"),
        ]
        let verifier = try StandardWebhooksVerifier(keys: [Self.key], tolerance: .seconds(1))
        for (request, text) in requests {
            #expect(String(decoding: request.body.joined(), as: UTF8.self) == text)
            #expect(request.headers.map { $0.0 } == ["webhook-id", "webhook-timestamp", "webhook-signature"])
            try verifier.verify(
                id: "msg_1", timestamp: String(Self.seconds), signature: request.headers[2].1,
                body: [Array(text.utf8)], now: Timestamp(milliseconds: Self.seconds * 1_000))
        }
    }
}
