import HTTPClient
import Vocabulary

extension EndpointRequest {
    /// The signed request that carries `message` to `integration`; each attempt has its own.
    /// - Parameters:
    ///   - source: how the source of the message signs, for `format = "source"`; nil: no such headers.
    ///   - unixSeconds: `webhook-timestamp`.
    init(
        carrying message: Message, to integration: Integration, head: RequestHead, signer: StandardWebhooksSigner,
        source: SourceSigning?, unixSeconds: Int64
    ) throws(SigningFailure) {
        let body = message.body(for: integration)
        var headers = try signer.headers(id: message.id, unixSeconds: unixSeconds, body: body)
        if let source {
            // A source that signs after Standard Webhooks uses the same header names, and one that proves itself by a
            // token may use the name of an own header: those of the receiver's secret and of the integration win. Two
            // lines of one name are a request that servers may refuse (RFC 9110 §5.3).
            let names = headers.map { $0.0 } + integration.headers.map(\.name)
            let taken = Set(names.map { $0.lowercased() })
            headers += source.headers(body: message.derivedBody ?? message.original, unixSeconds: unixSeconds)
                .filter { !taken.contains($0.0.lowercased()) }
        }
        self.init(
            head: head, headers: headers, body: body, timeout: integration.timeout,
            answerBytesMax: Limits.responseBodyBytesMax, keptBytesMax: Limits.responseExcerptBytesMax)
    }
}

extension Message {
    /// In parts, which are signed where they are and copied once, into the request.
    fileprivate func body(for integration: Integration) -> [[UInt8]] {
        switch integration.format {
        case .standard where integration.include.contains(.access):
            [envelope, original, accessMember, Self.envelopeEnd]
        case .standard: [envelope, original, Self.envelopeEnd]
        case .source: [derivedBody ?? original]
        }
    }
}
