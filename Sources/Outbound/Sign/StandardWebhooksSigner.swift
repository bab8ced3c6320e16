import Crypto
package import NIOCore
package import Vocabulary

/// Signs after Standard Webhooks 1.0, "Signature scheme" (github.com/standard-webhooks/standard-webhooks, spec): over
/// `id.timestamp.body`, for each key one `v1,<base64>` (HMAC-SHA256) or `v1a,<base64>` (ed25519), separated by a space.
package struct StandardWebhooksSigner: Sendable {
    private enum Key: Sendable {
        /// The state after the key's own blocks, from which every signature starts.
        case symmetric(HMAC<SHA256>)
        case asymmetric(Curve25519.Signing.PrivateKey)
    }

    private let keys: [Key]

    /// Signs once with each key, in this order: while a key is rotated, both are valid.
    package init(keys: [Integration.SigningKey]) throws(SigningFailure) {
        var read: [Key] = []
        for key in keys {
            switch key {
            case .symmetric(let secret): read.append(.symmetric(HMAC(key: SignedContent.key(secret))))
            case .asymmetric(let seed): read.append(.asymmetric(try Ed25519.privateKey(seed: seed)))
            }
        }
        self.keys = read
    }

    /// The value of `webhook-signature`. For `v1` the parts of the body are hashed in sequence, without a copy.
    package func signature(id: String, unixSeconds: Int64, body: [ByteBuffer]) throws(SigningFailure) -> String {
        var content = SignedContent(id: id, timestamp: String(unixSeconds), body: body)
        var out = ""
        for key in keys {
            if !out.isEmpty { out += " " }
            switch key {
            case .symmetric(let keyed):
                out += SignedContent.symmetricVersion
                out += content.code(keyed).withUnsafeBytes { Base64.encode($0) }
            case .asymmetric(let key):
                out += SignedContent.asymmetricVersion
                out += Base64.encode(try Ed25519.sign(content.whole, with: key))
            }
        }
        return out
    }

    /// The three headers of an attempt.
    package func headers(
        id: String, unixSeconds: Int64, body: [ByteBuffer]
    ) throws(SigningFailure) -> [(String, String)] {
        [
            ("webhook-id", id), ("webhook-timestamp", String(unixSeconds)),
            ("webhook-signature", try signature(id: id, unixSeconds: unixSeconds, body: body)),
        ]
    }
}

/// The signed content and the marks of its signatures, shared by signer and verifier.
struct SignedContent {
    static let symmetricVersion = "v1,"
    static let asymmetricVersion = "v1a,"

    private let prefix: [UInt8]
    private let body: [ByteBuffer]
    /// The content in one piece, as ed25519 needs it: it reads the message twice. Made once, and only if needed.
    private(set) lazy var whole: [UInt8] = body.reduce(into: prefix) { $0 += $1.readableBytesView }

    init(id: String, timestamp: String, body: [ByteBuffer]) {
        var prefix = [UInt8]()
        prefix.reserveCapacity(id.utf8.count + timestamp.utf8.count + 2)
        prefix += id.utf8
        prefix.append(UInt8(ascii: "."))
        prefix += timestamp.utf8
        prefix.append(UInt8(ascii: "."))
        self.prefix = prefix
        self.body = body
    }

    static func key(_ secret: Secret) -> SymmetricKey { secret.withBytes { SymmetricKey(data: $0) } }

    /// - Parameter keyed: has its key, and no data yet.
    func code(_ keyed: HMAC<SHA256>) -> HashedAuthenticationCode<SHA256> {
        var hash = keyed
        hash.update(data: prefix)
        for part in body { part.withUnsafeReadableBytes { hash.update(data: $0) } }
        return hash.finalize()
    }
}
