import Crypto
import FoundationEssentials
import SwiftASN1
import Vocabulary
import X509

@testable import Inbound

/// A chain of certificates with one thing wrong, and signatures in any form. Written beside `AppleChain`, not with it,
/// so that the two check each other.
struct AppleTestChain: Sendable {
    /// What the certificates are; changed, what is wrong with them.
    struct Shape {
        var leafMark: ASN1ObjectIdentifier? = [1, 2, 840, 113_635, 100, 6, 11, 1]
        var intermediateMark: ASN1ObjectIdentifier? = [1, 2, 840, 113_635, 100, 6, 2, 1]
        /// Seconds since 1970.
        var rootValidity = (from: 1_400_000_000, to: 2_200_000_000)
        var intermediateValidity = (from: 1_500_000_000, to: 2_100_000_000)
        var leafValidity = (from: 1_600_000_000, to: 1_800_000_000)
        var intermediateConstraints: BasicConstraints? = .isCertificateAuthority(maxPathLength: 0)
        var leafConstraints: BasicConstraints? = .notCertificateAuthority
        var intermediateUsage: KeyUsage? = KeyUsage(keyCertSign: true, cRLSign: true)
        var leafUsage: KeyUsage? = KeyUsage(digitalSignature: true)
        /// Another extension of the leaf.
        var strange: Certificate.Extension?
        var leafIssuer = "Test Intermediate"
        var intermediateIssuer = "Test Root"
        /// The leaf's key is of another curve; the JWS is still signed with P-256.
        var isOfOtherCurve = false
    }

    var root: [UInt8]
    var intermediate: [UInt8]
    var leaf: [UInt8]
    let key: P256.Signing.PrivateKey

    init(_ change: (inout Shape) -> Void = { _ in }) throws {
        var shape = Shape()
        change(&shape)
        let rootKey = Certificate.PrivateKey(P384.Signing.PrivateKey())
        let intermediateKey = Certificate.PrivateKey(P384.Signing.PrivateKey())
        key = P256.Signing.PrivateKey()
        let leafKey =
            shape.isOfOtherCurve
            ? Certificate.PublicKey(P384.Signing.PrivateKey().publicKey) : Certificate.PublicKey(key.publicKey)
        root = try Self.issue(
            rootKey.publicKey, "Test Root", by: "Test Root", rootKey, shape.rootValidity,
            Self.extensions(
                .isCertificateAuthority(maxPathLength: nil), KeyUsage(keyCertSign: true, cRLSign: true), nil))
        intermediate = try Self.issue(
            intermediateKey.publicKey, "Test Intermediate", by: shape.intermediateIssuer, rootKey,
            shape.intermediateValidity,
            Self.extensions(shape.intermediateConstraints, shape.intermediateUsage, shape.intermediateMark))
        var leafExtensions = try Self.extensions(shape.leafConstraints, shape.leafUsage, shape.leafMark)
        if let strange = shape.strange { leafExtensions.append(strange) }
        leaf = try Self.issue(
            leafKey, "Test Leaf", by: shape.leafIssuer, intermediateKey, shape.leafValidity, leafExtensions)
    }

    private static func extensions(
        _ constraints: BasicConstraints?, _ usage: KeyUsage?, _ mark: ASN1ObjectIdentifier?
    ) throws -> [Certificate.Extension] {
        var extensions: [Certificate.Extension] = []
        if let constraints { extensions.append(try Certificate.Extension(constraints, critical: true)) }
        if let usage { extensions.append(try Certificate.Extension(usage, critical: true)) }
        if let mark { extensions.append(Certificate.Extension(oid: mark, critical: false, value: [0x05, 0x00])) }
        return extensions
    }

    private static func issue(
        _ key: Certificate.PublicKey, _ subject: String, by issuer: String, _ issuerKey: Certificate.PrivateKey,
        _ validity: (from: Int, to: Int), _ extensions: [Certificate.Extension]
    ) throws -> [UInt8] {
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(1), publicKey: key,
            notValidBefore: Date(timeIntervalSince1970: Double(validity.from)),
            notValidAfter: Date(timeIntervalSince1970: Double(validity.to)),
            issuer: try DistinguishedName { CommonName(issuer) },
            subject: try DistinguishedName { CommonName(subject) },
            signatureAlgorithm: .ecdsaWithSHA384, extensions: try Certificate.Extensions(extensions),
            issuerPrivateKey: issuerKey)
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }

    // MARK: Signing

    var fingerprint: [UInt8] { Array(SHA256.hash(data: root)) }

    var certificates: [[UInt8]] { [leaf, intermediate, root] }

    /// The usual header, with other texts in x5c.
    func header(x5c: [String]? = nil, alg: String = "\"ES256\"", more: String = "") -> String {
        let texts = x5c ?? certificates.map { Base64.encode($0) }
        return "{\"alg\":\(alg),\"x5c\":[\(texts.map { "\"\($0)\"" }.joined(separator: ","))]\(more)}"
    }

    /// The first two parts.
    static func signingInput(header: String, payload: [UInt8]) -> [UInt8] {
        Base64URL.encode(Array(header.utf8)) + Array(".".utf8) + Base64URL.encode(payload)
    }

    static func jws(_ signingInput: [UInt8], _ signature: [UInt8]) -> String {
        String(decoding: signingInput + Array(".".utf8) + Base64URL.encode(signature), as: UTF8.self)
    }

    func signature(_ signingInput: [UInt8]) throws -> P256.Signing.ECDSASignature {
        try key.signature(for: signingInput)
    }

    /// A compact JWS of `payload`.
    func jws(_ payload: [UInt8], header: String? = nil) throws -> String {
        let input = Self.signingInput(header: header ?? self.header(), payload: payload)
        return Self.jws(input, [UInt8](try signature(input).rawRepresentation))
    }

    /// The body of a notification in clear, its parts inside sealed by the usual chain.
    func body(_ decoded: String, header: String? = nil) throws -> [UInt8] {
        AppleFixtures.body(try jws(AppleFixtures.payload(decoded), header: header))
    }
}
