internal import CryptoExtras
internal import JSONText
internal import Vocabulary

/// The RSA keys of a JSON Web Key Set (RFC 7517 section 5), by their ids. Keys of another type or use, and those that
/// cannot be read, are left out: a set may hold kinds of key that came later.
package struct JSONWebKeys: Sendable {
    /// A document without a key that can be used.
    package struct Unusable: Error, Hashable, Sendable, CustomStringConvertible {
        /// For a person.
        package let reason: String

        package var description: String { reason }
    }

    /// A public key for signatures with RS256 (RFC 7518 section 3.3).
    package struct Key: Sendable {
        /// Bytes of a modulus: RFC 7518 section 3.3 asks for 2048 bits; the upper limit bounds the cost of a signature.
        private static let modulusBytes = 256...1_024
        /// Bytes of an exponent; 65537 has three.
        private static let exponentBytes = 1...4

        private let key: _RSA.Signing.PublicKey

        /// Nil unless the numbers make a key.
        fileprivate init?(modulus: [UInt8], exponent: [UInt8]) {
            guard Self.modulusBytes.contains(modulus.count), Self.exponentBytes.contains(exponent.count),
                let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent)
            else { return nil }
            self.key = key
        }

        /// Whether the owner of the key has signed `text`.
        func isValid(_ signature: [UInt8], over text: [UInt8]) -> Bool {
            key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: text, padding: .insecurePKCS1v1_5)
        }
    }

    /// Bytes of a document; Google's has some 2,000.
    package static let documentBytesMax = 64 << 10
    /// Keys of one document; Google's has two or three.
    private static let keysMax = 32
    /// Bytes of a key's id.
    static let keyIDBytesMax = 256
    /// Nesting of a document.
    private static let depthMax = 16

    /// By the bytes of the id: two spellings of one accented letter are two ids.
    private let keys: [[UInt8]: Key]

    /// Reads a document. Of two keys with one id the first counts.
    package init(_ document: [UInt8]) throws(Unusable) {
        guard document.count <= Self.documentBytesMax else {
            throw Unusable(reason: "the key set is longer than \(Self.documentBytesMax) bytes")
        }
        let entries: [JSONObject]
        do {
            entries = try JSONScan.topObject(document, depthMax: Self.depthMax).objects("keys")
        } catch {
            throw Unusable(reason: "the key set cannot be read: \(error)")
        }
        guard entries.count <= Self.keysMax else {
            throw Unusable(reason: "the key set has more than \(Self.keysMax) keys")
        }
        var keys: [[UInt8]: Key] = [:]
        for entry in entries {
            guard let (id, key) = Self.read(entry), keys[id] == nil else { continue }
            keys[id] = key
        }
        guard !keys.isEmpty else { throw Unusable(reason: "the key set has no RSA key for signatures with RS256") }
        self.keys = keys
    }

    /// The key with this id, compared byte for byte; nil: there is none.
    package func key(_ id: String) -> Key? { keys[Array(id.utf8)] }

    package var count: Int { keys.count }

    /// One entry; nil if it is no RSA key for RS256 signatures. A member that is absent restricts nothing.
    private static func read(_ entry: JSONObject) -> (id: [UInt8], key: Key)? {
        guard text("kty", in: entry) == "RSA", ["sig", nil].contains(text("use", in: entry)),
            ["RS256", nil].contains(text("alg", in: entry)), let id = text("kid", in: entry), !id.isEmpty,
            id.utf8.count <= keyIDBytesMax, let modulus = text("n", in: entry).flatMap(decode),
            let exponent = text("e", in: entry).flatMap(decode), let key = Key(modulus: modulus, exponent: exponent)
        else { return nil }
        return (Array(id.utf8), key)
    }

    /// Nil if the member is absent, null or no string.
    private static func text(_ key: String, in entry: JSONObject) -> String? { try? entry.string(key) }

    /// Base64url without padding (RFC 7515 section 2); nil for anything else.
    private static func decode(_ text: String) -> [UInt8]? {
        var digits: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "-"): digits.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): digits.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
            default: digits.append(byte)
            }
        }
        while !digits.count.isMultiple(of: 4) { digits.append(UInt8(ascii: "=")) }
        return Base64.decode(String(decoding: digits, as: UTF8.self))
    }
}
