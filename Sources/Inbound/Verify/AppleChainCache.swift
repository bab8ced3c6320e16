internal import Crypto
internal import Synchronization

/// The chains that were found good, so that a notification costs one signature instead of three. There are few: Apple
/// signs with one leaf for about two years.
///
/// Only what a pinned root has signed gets in, so that nobody outside can fill it. A chain is known by all three
/// certificates: the same leaf and intermediate under another root, whose fingerprint may be pinned as well, are
/// another chain.
final class AppleChainCache: Sendable {
    /// Chains; with one more, all are forgotten and checked anew.
    static let chainsMax = 16

    private struct Chain: Hashable, Sendable {
        let leaf: SHA256Digest
        let intermediate: SHA256Digest
        let root: SHA256Digest
    }

    private let proven = Mutex<[Chain: AppleProvenChain]>([:])

    var count: Int { proven.withLock { $0.count } }

    /// The chain of these certificates (DER), if its root has one of the SHA-256 fingerprints `roots`, which is checked
    /// each time, before anything that is remembered is looked at.
    func chain(
        leaf: [UInt8], intermediate: [UInt8], root: [UInt8], roots: [[UInt8]]
    ) throws(Authenticity.Refusal) -> AppleProvenChain {
        let fingerprint = SHA256.hash(data: root)
        guard roots.contains(where: { fingerprint.elementsEqual($0) }) else { throw Authenticity.Refusal.unknownRoot }
        let chain = Chain(
            leaf: SHA256.hash(data: leaf), intermediate: SHA256.hash(data: intermediate), root: fingerprint)
        if let known = proven.withLock({ $0[chain] }) { return known }
        // Outside the lock: other event loops go on meanwhile.
        let found = try AppleProvenChain(leaf: leaf, intermediate: intermediate, root: root)
        proven.withLock { proven in
            if proven.count >= Self.chainsMax { proven.removeAll(keepingCapacity: true) }
            proven[chain] = found
        }
        return found
    }
}
