internal import Crypto
internal import FoundationEssentials
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
        let root = try Self.certificate(root)
        let intermediate = try Self.certificate(intermediate)
        let leaf = try Self.certificate(leaf)
        // Signatures first: extensions are read only of what the root stands for.
        guard intermediate.issuer == root.subject, leaf.issuer == intermediate.subject,
            root.publicKey.isValidSignature(intermediate.signature, for: intermediate),
            intermediate.publicKey.isValidSignature(leaf.signature, for: leaf)
        else { throw Refusal.brokenChain }
        try Self.checkUse(of: intermediate, isAuthority: true)
        try Self.checkUse(of: leaf, isAuthority: false)
        guard intermediate.extensions[oid: Self.intermediateMark] != nil, leaf.extensions[oid: Self.leafMark] != nil
        else { throw Refusal.unmarkedCertificate }
        guard let key = P256.Signing.PublicKey(leaf.publicKey) else { throw Refusal.unfitCertificate }
        self.key = key
        let all = [leaf, intermediate, root]
        validFrom = all.map { Self.timestamp($0.notValidBefore) }.max() ?? Timestamp(milliseconds: .max)
        validTo = all.map { Self.timestamp($0.notValidAfter) }.min() ?? Timestamp(milliseconds: .min)
    }

    func isValid(at time: Timestamp) -> Bool { validFrom <= time && time <= validTo }

    /// The extensions by which Apple marks the certificates that sign for the App Store.
    static let leafMark: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 11, 1]
    static let intermediateMark: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 2, 1]

    /// The extensions that are looked at here. A certificate with another critical one must be refused (RFC 5280
    /// section 4.2).
    private static let understood: Set<ASN1ObjectIdentifier> = [
        ASN1ObjectIdentifier.X509ExtensionID.basicConstraints, ASN1ObjectIdentifier.X509ExtensionID.keyUsage,
    ]

    private static func certificate(_ bytes: [UInt8]) throws(Refusal) -> Certificate {
        do {
            return try Certificate(derEncoded: bytes)
        } catch {
            throw Refusal.malformedCertificate
        }
    }

    private static func checkUse(of certificate: Certificate, isAuthority: Bool) throws(Refusal) {
        let constraints: BasicConstraints?
        let usage: KeyUsage?
        do {
            constraints = try certificate.extensions.basicConstraints
            usage = try certificate.extensions.keyUsage
        } catch {
            throw Refusal.unfitCertificate
        }
        let mayIssue = if case .some(.isCertificateAuthority) = constraints { true } else { false }
        let mayBeUsed = isAuthority ? usage?.keyCertSign : usage?.digitalSignature
        guard mayIssue == isAuthority, mayBeUsed == true,
            certificate.extensions.allSatisfy({ !$0.critical || understood.contains($0.oid) })
        else { throw Refusal.unfitCertificate }
    }

    /// Validities are in whole seconds.
    private static func timestamp(_ date: Date) -> Timestamp {
        Timestamp(milliseconds: Int64(date.timeIntervalSince1970) * 1_000)
    }
}
