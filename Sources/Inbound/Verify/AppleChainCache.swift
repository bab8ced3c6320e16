internal import Crypto
internal import Synchronization

/// The chains that were found good, so that a notification costs one signature instead of three, and the intermediates
/// of chains that were looked at: anybody may send Apple's own root and intermediate with a leaf of theirs, and such a
/// request costs one signature, too. There are few of either: Apple signs with one leaf for about two years.
///
/// Only what a pinned root has signed gets in, so that nobody outside can fill it. A chain is known by all three
/// certificates: the same leaf and intermediate under another root, whose fingerprint may be pinned as well, are
/// another chain.
final class AppleChainCache: Sendable {
    /// Chains, and intermediates; with one more, all of them are forgotten and checked anew.
    static let chainsMax = 16

    private struct Issuer: Hashable, Sendable {
        let intermediate: SHA256Digest
        let root: SHA256Digest
    }

    private struct Chain: Hashable, Sendable {
        let leaf: SHA256Digest
        let issuer: Issuer
    }

    private struct Proven: Sendable {
        var chains: [Chain: AppleProvenChain] = [:]
        var intermediates: [Issuer: AppleProvenIntermediate] = [:]
    }

    private let proven = Mutex(Proven())

    // Read by tests.
    var count: Int { proven.withLock { $0.chains.count } }
    var intermediatesCount: Int { proven.withLock { $0.intermediates.count } }

    /// The chain of these certificates (DER), if its root has one of the SHA-256 fingerprints `roots`, which is checked
    /// each time, before anything that is remembered is looked at.
    func chain(
        leaf: [UInt8], intermediate: [UInt8], root: [UInt8], roots: [[UInt8]]
    ) throws(Authenticity.Refusal) -> AppleProvenChain {
        let fingerprint = SHA256.hash(data: root)
        guard roots.contains(where: { fingerprint.elementsEqual($0) }) else { throw Authenticity.Refusal.unknownRoot }
        let issuer = Issuer(intermediate: SHA256.hash(data: intermediate), root: fingerprint)
        let chain = Chain(leaf: SHA256.hash(data: leaf), issuer: issuer)
        if let known = proven.withLock({ $0.chains[chain] }) { return known }
        // Outside the lock: other event loops go on meanwhile.
        let found = try AppleProvenChain(leaf: leaf, of: self.intermediate(issuer, intermediate, root: root))
        proven.withLock { proven in
            if proven.chains.count >= Self.chainsMax { proven.chains.removeAll(keepingCapacity: true) }
            proven.chains[chain] = found
        }
        return found
    }

    private func intermediate(
        _ issuer: Issuer, _ intermediate: [UInt8], root: [UInt8]
    ) throws(Authenticity.Refusal) -> AppleProvenIntermediate {
        if let known = proven.withLock({ $0.intermediates[issuer] }) { return known }
        let found = try AppleProvenIntermediate(intermediate, root: root)
        proven.withLock { proven in
            if proven.intermediates.count >= Self.chainsMax { proven.intermediates.removeAll(keepingCapacity: true) }
            proven.intermediates[issuer] = found
        }
        return found
    }
}
