internal import Crypto
internal import Ledger
internal import Vocabulary

/// Standard Webhooks 1.0, "Signature scheme" (github.com/standard-webhooks/standard-webhooks, spec):
/// `webhook-signature` contains, separated by spaces, `v1,<base64 of HMAC-SHA256(webhook-id.webhook-timestamp.body)>`
/// for each key of the sender. Signatures of other versions are ignored.
enum StandardWebhooksSignature: WebhookSignature {
    static let idHeader = "webhook-id"
    private static let timestampHeader = "webhook-timestamp"
    private static let signatureHeader = "webhook-signature"
    private static let version = "v1,"
    /// Signatures of one request that are checked; a sender has one or two keys while it rotates them.
    private static let signaturesMax = 16

    /// The id of the message, used as the event's id if the body has none.
    static func messageID(_ header: (String) -> String?) -> String? {
        guard let id = header(idHeader), !id.isEmpty else { return nil }
        return id
    }

    /// Headers signed under every reading of the secret. The id is made from the body, so that the same body has the
    /// same id.
    static func headers(body: [UInt8], unixSeconds: Int64, secret: Secret) -> [(name: String, value: String)] {
        let id = "msg_" + Identifier.hex(of: SHA256.hash(data: body).prefix(16))
        let timestamp = String(unixSeconds)
        let content = content(id: id, timestamp: timestamp, body: body)
        let signatures = keys(of: secret).map { version + Base64.encode($0.code(of: content)) }
        return [
            (idHeader, id), (timestampHeader, timestamp), (signatureHeader, signatures.joined(separator: " ")),
        ]
    }

    static func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, keys: [KeyedSHA256], now: Timestamp
    ) -> Authenticity {
        guard let given = header(signatureHeader), !given.isEmpty else { return .refused(.missingSignature) }
        guard let id = messageID(header) else { return .refused(.missingMessageID) }
        guard let written = header(timestampHeader), !written.isEmpty else { return .refused(.missingTimestamp) }
        guard let signatures = decode(given) else { return .refused(.malformedSignature) }
        guard let timestamp = SignedTimestamp(written) else { return .refused(.malformedTimestamp) }
        let content = content(id: id, timestamp: timestamp.text, body: body)
        let codes = keys.map { $0.code(of: content) }
        // Crypto compares a code with bytes in a time that does not depend on where they differ.
        let isSigned = codes.contains { code in signatures.contains { code == $0 } }
        return timestamp.verdict(isSigned: isSigned, source: source, now: now)
    }

    /// The v1 signatures of a header; nil if none can be read.
    private static func decode(_ header: String) -> [[UInt8]]? {
        let signatures = header.split(separator: " ").prefix(signaturesMax).compactMap { part -> [UInt8]? in
            guard part.utf8.starts(with: version.utf8),
                let bytes = Base64.decode(part.dropFirst(version.count)), bytes.count == SHA256.byteCount
            else { return nil }
            return bytes
        }
        return signatures.isEmpty ? nil : signatures
    }

    /// The keys that a secret may mean. After `whsec_` it is base64; a text without it is the key itself, or, as the
    /// reference libraries read it, base64 of the key.
    static func keys(of secret: Secret) -> [KeyedSHA256] {
        secret.withBytes { bytes in
            let prefix = Array("whsec_".utf8)
            let isMarked = bytes.starts(with: prefix)
            let text = String(decoding: isMarked ? bytes.dropFirst(prefix.count) : bytes[...], as: UTF8.self)
            guard let decoded = Base64.decode(text), !decoded.isEmpty else { return [KeyedSHA256(secret)] }
            let key = KeyedSHA256(Secret(decoded))
            return isMarked ? [key] : [KeyedSHA256(secret), key]
        }
    }

    private static func content(id: String, timestamp: String, body: [UInt8]) -> [[UInt8]] {
        [Array("\(id).\(timestamp).".utf8), body]
    }
}
