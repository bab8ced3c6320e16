internal import Crypto
internal import Ledger
internal import Vocabulary

/// HMAC-SHA256 in hex over a prefix and a body, without joining them in memory.
enum HexSignature {
    /// Hex digits of an HMAC-SHA256.
    private static let digits = 64

    /// Lower-case hex of HMAC-SHA256(`secret`, `prefix` ++ `body`).
    static func sign(prefix: [UInt8], body: [UInt8], secret: Secret) -> String {
        Identifier.hex(of: KeyedSHA256(secret).code(of: [prefix, body]))
    }

    /// Decodes hex in either case; nil unless it has the length of one HMAC-SHA256.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        guard text.utf8.count == digits else { return nil }
        var bytes = [UInt8]()
        bytes.reserveCapacity(digits / 2)
        var high: UInt8?
        for character in text.utf8 {
            guard let value = Identifier.value(ofHexDigit: character) else { return nil }
            if let half = high {
                bytes.append(half << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return bytes
    }

    /// Whether any of `keys` made one of `signatures`. Comparisons take the same time wherever the bytes differ.
    static func matches(anyOf signatures: [[UInt8]], prefix: [UInt8], body: [UInt8], keys: [KeyedSHA256]) -> Bool {
        keys.contains { key in
            let code = key.code(of: [prefix, body])
            return signatures.contains { code == $0 }
        }
    }
}
