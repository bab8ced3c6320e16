internal import FoundationEssentials
internal import SwiftASN1
internal import Vocabulary
internal import X509

/// An intermediate certificate that a root was found to have signed. All its leaves share it, so that of a chain with
/// another leaf only the leaf is left to check.
struct AppleProvenIntermediate: Sendable {
    typealias Refusal = Authenticity.Refusal

    let certificate: Certificate
    /// The later start and the earlier end of its validity and the root's, both inclusive (RFC 5280 section 4.1.2.5).
    let validFrom: Timestamp
    let validTo: Timestamp

    /// Checks both, each as DER without trailing bytes. That `root` is one of the source's is checked before: here it
    /// proves nothing by itself.
    init(_ intermediate: [UInt8], root: [UInt8]) throws(Refusal) {
        let root = try Certificate(proof: root)
        let intermediate = try Certificate(proof: intermediate)
        // The signature first: extensions are read only of what the root stands for.
        guard intermediate.issuer == root.subject,
            root.publicKey.isValidSignature(intermediate.signature, for: intermediate)
        else { throw Refusal.brokenChain }
        try intermediate.checkUse(isAuthority: true)
        certificate = intermediate
        validFrom = max(intermediate.validFrom, root.validFrom)
        validTo = min(intermediate.validTo, root.validTo)
    }
}

extension Certificate {
    /// The extensions that are looked at. A certificate with another critical one must be refused (RFC 5280 section
    /// 4.2).
    private static let understood: Set<ASN1ObjectIdentifier> = [
        ASN1ObjectIdentifier.X509ExtensionID.basicConstraints, ASN1ObjectIdentifier.X509ExtensionID.keyUsage,
    ]

    /// A certificate of a proof, as DER.
    init(proof bytes: [UInt8]) throws(Authenticity.Refusal) {
        do {
            self = try Certificate(derEncoded: bytes)
        } catch {
            throw Authenticity.Refusal.malformedCertificate
        }
    }

    /// Refuses a certificate that must not be used so (RFC 5280 sections 4.2.1.3 and 4.2.1.9).
    func checkUse(isAuthority: Bool) throws(Authenticity.Refusal) {
        let constraints: BasicConstraints?
        let usage: KeyUsage?
        do {
            constraints = try extensions.basicConstraints
            usage = try extensions.keyUsage
        } catch {
            throw Authenticity.Refusal.unfitCertificate
        }
        let mayIssue = if case .some(.isCertificateAuthority) = constraints { true } else { false }
        let mayBeUsed = isAuthority ? usage?.keyCertSign : usage?.digitalSignature
        guard mayIssue == isAuthority, mayBeUsed == true,
            extensions.allSatisfy({ !$0.critical || Self.understood.contains($0.oid) })
        else { throw Authenticity.Refusal.unfitCertificate }
    }

    var validFrom: Timestamp { Self.timestamp(notValidBefore) }
    var validTo: Timestamp { Self.timestamp(notValidAfter) }

    /// Validities are in whole seconds.
    private static func timestamp(_ date: Date) -> Timestamp {
        Timestamp(milliseconds: Int64(date.timeIntervalSince1970) * 1_000)
    }
}
