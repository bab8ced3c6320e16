import Crypto
import Ledger
package import Vocabulary

/// Signs after Standard Webhooks 1.0, "Signature scheme" (github.com/standard-webhooks/standard-webhooks, spec): over
/// `id.timestamp.body`, for each key one `v1,<base64>` (HMAC-SHA256) or `v1a,<base64>` (ed25519), separated by a space.
package struct StandardWebhooksSigner: Sendable {
    private enum Key: Sendable {
        case symmetric(KeyedSHA256)
        case asymmetric(Curve25519.Signing.PrivateKey)
    }

    /// Bytes of the longer kind of signature, an ed25519 one, and of a space.
    private static let signatureBytesMax = 93

    private let keys: [Key]

    /// Signs once with each key, in this order: while a key is rotated, both are valid.
    package init(keys: [Integration.SigningKey]) throws(SigningFailure) {
        var read: [Key] = []
        for key in keys {
            switch key {
            case .symmetric(let secret): read.append(.symmetric(KeyedSHA256(secret)))
            case .asymmetric(let seed): read.append(.asymmetric(try Ed25519.privateKey(seed: seed)))
            }
        }
        self.keys = read
    }

    /// The value of `webhook-signature`. For `v1` the parts of the body are hashed in sequence, without a copy.
    package func signature(id: String, unixSeconds: Int64, body: [[UInt8]]) throws(SigningFailure) -> String {
        var content = SignedContent(id: id, timestamp: String(unixSeconds), body: body)
        var out = [UInt8]()
        out.reserveCapacity(Self.signatureBytesMax * keys.count)
        for key in keys {
            if !out.isEmpty { out.append(UInt8(ascii: " ")) }
            switch key {
            case .symmetric(let key):
                out += SignedContent.symmetricVersion.utf8
                key.code(of: content.parts).withUnsafeBytes { Base64.append($0, to: &out) }
            case .asymmetric(let key):
                out += SignedContent.asymmetricVersion.utf8
                try Ed25519.sign(content.whole, with: key).withUnsafeBytes { Base64.append($0, to: &out) }
            }
        }
        return String(decoding: out, as: UTF8.self)
    }

    /// The three headers of an attempt.
    package func headers(
        id: String, unixSeconds: Int64, body: [[UInt8]]
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

    let parts: [[UInt8]]
    /// The content in one piece, as ed25519 needs it: it reads the message twice. Made once, and only if needed.
    private(set) lazy var whole: [UInt8] = parts.reduce(into: []) { $0 += $1 }

    init(id: String, timestamp: String, body: [[UInt8]]) {
        var prefix = [UInt8]()
        prefix.reserveCapacity(id.utf8.count + timestamp.utf8.count + 2)
        prefix += id.utf8
        prefix.append(UInt8(ascii: "."))
        prefix += timestamp.utf8
        prefix.append(UInt8(ascii: "."))
        parts = [prefix] + body
    }
}
