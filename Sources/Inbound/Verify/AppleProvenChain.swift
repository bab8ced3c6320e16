internal import Crypto
internal import SwiftASN1
internal import Vocabulary
internal import X509

/// A chain of three certificates that was checked: what is left to check with each notification is its signature, and
/// that its `signedDate` lies within the chain's validity.
///
/// The places are fixed (leaf, intermediate, root), so no path is searched. What each certificate must be is what
/// Apple's own libraries check (github.com/apple/app-store-server-library-python, signed_data_verifier.py), and the
/// parts of RFC 5280 sections 4.2.1.3, 4.2.1.9 and 6.1 that concern a chain of three. Without revocation by OCSP: a
/// request for each certificate on the way of an event would make its acknowledgement depend on another host.
struct AppleProvenChain: Sendable {
    typealias Refusal = Authenticity.Refusal

    /// The key of the leaf.
    let key: P256.Signing.PublicKey
    /// The latest start and the earliest end of the three validities, both inclusive (RFC 5280 section 4.1.2.5).
    let validFrom: Timestamp
    let validTo: Timestamp

    /// Checks a chain, each certificate as DER without trailing bytes. That `root` is one of the source's is checked
    /// before: here it proves nothing by itself.
    init(leaf: [UInt8], intermediate: [UInt8], root: [UInt8]) throws(Refusal) {
        try self.init(leaf: leaf, of: AppleProvenIntermediate(intermediate, root: root))
    }

    /// Checks the leaf, as DER without trailing bytes.
    init(leaf: [UInt8], of intermediate: AppleProvenIntermediate) throws(Refusal) {
        let leaf = try Certificate(proof: leaf)
        let issuer = intermediate.certificate
        // The signature first: extensions are read only of what the intermediate stands for.
        guard leaf.issuer == issuer.subject, issuer.publicKey.isValidSignature(leaf.signature, for: leaf) else {
            throw Refusal.brokenChain
        }
        try leaf.checkUse(isAuthority: false)
        guard issuer.extensions[oid: Self.intermediateMark] != nil, leaf.extensions[oid: Self.leafMark] != nil else {
            throw Refusal.unmarkedCertificate
        }
        guard let key = P256.Signing.PublicKey(leaf.publicKey) else { throw Refusal.unfitCertificate }
        self.key = key
        validFrom = max(leaf.validFrom, intermediate.validFrom)
        validTo = min(leaf.validTo, intermediate.validTo)
    }

    func isValid(at time: Timestamp) -> Bool { validFrom <= time && time <= validTo }

    /// The extensions by which Apple marks the certificates that sign for the App Store.
    static let leafMark: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 11, 1]
    static let intermediateMark: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 2, 1]
}
