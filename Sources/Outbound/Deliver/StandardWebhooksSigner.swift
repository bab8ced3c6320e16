import Crypto
package import NIOCore
package import Vocabulary

/// Signs after Standard Webhooks 1.0, "Signature scheme" (github.com/standard-webhooks/standard-webhooks, spec):
/// HMAC-SHA256 over `id.timestamp.body`, one `v1,<base64>` for each key, separated by a space.
package struct StandardWebhooksSigner: Sendable {
    private let keys: [SymmetricKey]

    /// One signature for each key, in this order: while a key is rotated both hold.
    package init(keys: [Integration.SigningKey]) {
        self.keys = keys.map(StandardWebhooksHash.key)
    }

    /// The value of `webhook-signature`. `body` is hashed in sequence, without being copied together.
    package func signature(id: String, unixSeconds: Int64, body: [ByteBuffer]) -> String {
        var out = ""
        for key in keys {
            let code = StandardWebhooksHash.code(id: id, timestamp: String(unixSeconds), body: body, key: key)
            if !out.isEmpty { out += " " }
            out += "v1,"
            out += code.withUnsafeBytes { Base64.encode($0) }
        }
        return out
    }

    /// The three headers of an attempt.
    package func headers(id: String, unixSeconds: Int64, body: [ByteBuffer]) -> [(String, String)] {
        [
            ("webhook-id", id), ("webhook-timestamp", String(unixSeconds)),
            ("webhook-signature", signature(id: id, unixSeconds: unixSeconds, body: body)),
        ]
    }
}

/// What signer and verifier share.
enum StandardWebhooksHash {
    static func key(_ key: Integration.SigningKey) -> SymmetricKey {
        switch key {
        case .symmetric(let secret): secret.withBytes { SymmetricKey(data: $0) }
        }
    }

    static func code(
        id: String, timestamp: String, body: [ByteBuffer], key: SymmetricKey
    ) -> HashedAuthenticationCode<SHA256> {
        var prefix = [UInt8]()
        prefix.reserveCapacity(id.utf8.count + timestamp.utf8.count + 2)
        prefix += id.utf8
        prefix.append(UInt8(ascii: "."))
        prefix += timestamp.utf8
        prefix.append(UInt8(ascii: "."))
        var hash = HMAC<SHA256>(key: key)
        hash.update(data: prefix)
        for part in body { part.withUnsafeReadableBytes { hash.update(data: $0) } }
        return hash.finalize()
    }
}
