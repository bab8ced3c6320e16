package import Crypto
package import Vocabulary

/// HMAC-SHA256 under one key (RFC 2104), for what sources sign and for what is signed to integrations. It is here
/// because Inbound and Outbound both build on this module.
///
/// Made once for a key: both hashes have taken in the key's block, and every code begins with copies of them. Crypto's
/// `HMAC` is generic, which costs more than hashing a webhook.
///
/// These hashes are as secret as the key: printing, interpolating or reflecting them reveals nothing.
package struct KeyedSHA256: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private var inner = SHA256()
    private var outer = SHA256()

    package init(_ key: Secret) {
        var block = key.withBytes { $0.count > SHA256.blockByteCount ? Array(SHA256.hash(data: $0)) : $0 }
        block += repeatElement(0, count: SHA256.blockByteCount - block.count)
        inner.update(data: block.map { $0 ^ 0x36 })
        outer.update(data: block.map { $0 ^ 0x5C })
    }

    /// The code of `parts` in sequence, without joining them in memory.
    package func code(of parts: [[UInt8]]) -> SHA256Digest {
        var (inner, outer) = (inner, outer)
        for part in parts { part.withUnsafeBytes { inner.update(bufferPointer: $0) } }
        inner.finalize().withUnsafeBytes { outer.update(bufferPointer: $0) }
        return outer.finalize()
    }

    package var description: String { "(secret)" }
    package var debugDescription: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}
