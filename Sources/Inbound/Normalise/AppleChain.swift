internal import Crypto
internal import FoundationEssentials
internal import JSONText
internal import SwiftASN1
package import Vocabulary
internal import X509

/// A chain of certificates like Apple's, with the key of its leaf, for samples: a notification that it signs is
/// authentic for a source whose `roots` has its fingerprint, and for no other.
///
/// Pure: whoever keeps one on disk reads and writes the files. The keys of root and intermediate are forgotten when it
/// is made, so nothing else can be issued under it.
package struct AppleChain: Sendable {
    /// The files of a chain, with their names. Each is one PEM document (RFC 7468).
    package enum File: String, Sendable, CaseIterable {
        case root = "root.pem"
        case intermediate = "intermediate.pem"
        case leaf = "leaf.pem"
        /// PKCS #8. Secret, but only as far as the root is trusted by a source.
        case key = "leaf.key"
    }

    /// A chain cannot be made, read or signed with.
    package struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// What is wrong, for a person; it quotes nothing of a file.
        package let reason: String

        package var description: String { reason }
    }

    /// Bytes of one file.
    package static let fileBytesMax = 16 << 10

    /// The certificates, as DER.
    package let root: [UInt8]
    package let intermediate: [UInt8]
    package let leaf: [UInt8]
    private let key: P256.Signing.PrivateKey

    /// SHA-256 of the root, 32 bytes: what `roots` of a source has.
    package var fingerprint: [UInt8] { Array(SHA256.hash(data: root)) }

    // MARK: Making

    /// The usual validity: from 2000-01-01T00:00:00Z to 2100-01-01T00:00:00Z.
    package static let usualStart = Timestamp(milliseconds: 946_684_800_000)
    package static let usualEnd = Timestamp(milliseconds: 4_102_444_800_000)

    /// A new chain with new keys. Certificates, curves, extensions and their criticality are those of Apple's chain of
    /// 2021 to 2027; the names are not.
    ///
    /// - Parameters:
    ///   - start: the first instant of the validity of all three, in whole seconds.
    ///   - end: the last one.
    package static func make(
        from start: Timestamp = AppleChain.usualStart, to end: Timestamp = AppleChain.usualEnd
    ) throws(Failure) -> AppleChain {
        do {
            return try made(from: date(start), to: date(end))
        } catch {
            throw Failure(reason: "no chain of certificates can be made: \(error)")
        }
    }

    private init(root: [UInt8], intermediate: [UInt8], leaf: [UInt8], key: P256.Signing.PrivateKey) {
        self.root = root
        self.intermediate = intermediate
        self.leaf = leaf
        self.key = key
    }

    private static func made(from start: Date, to end: Date) throws -> AppleChain {
        let rootKey = Certificate.PrivateKey(P384.Signing.PrivateKey())
        let intermediateKey = Certificate.PrivateKey(P384.Signing.PrivateKey())
        let leafKey = P256.Signing.PrivateKey()
        let rootName = try name("Example Root CA - G3")
        let intermediateName = try name("Example Relations Certification Authority")

        func certificate(
            _ key: Certificate.PublicKey, named subject: DistinguishedName, by issuer: DistinguishedName,
            _ issuerKey: Certificate.PrivateKey, _ extensions: [Certificate.Extension]
        ) throws -> [UInt8] {
            let certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(bytes: Identifier.random().bytes), publicKey: key,
                notValidBefore: start, notValidAfter: end, issuer: issuer, subject: subject,
                signatureAlgorithm: .ecdsaWithSHA384,
                extensions: try Certificate.Extensions(
                    extensions + [Certificate.Extension(SubjectKeyIdentifier(hash: key), critical: false)]),
                issuerPrivateKey: issuerKey)
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return serializer.serializedBytes
        }

        let issuing = try Certificate.Extension(KeyUsage(keyCertSign: true, cRLSign: true), critical: true)
        let root = try certificate(
            rootKey.publicKey, named: rootName, by: rootName, rootKey,
            [
                try Certificate.Extension(
                    BasicConstraints.isCertificateAuthority(maxPathLength: nil), critical: true),
                issuing,
            ])
        let intermediate = try certificate(
            intermediateKey.publicKey, named: intermediateName, by: rootName, rootKey,
            [
                try Certificate.Extension(BasicConstraints.isCertificateAuthority(maxPathLength: 0), critical: true),
                issuing, try authority(rootKey.publicKey), mark(AppleProvenChain.intermediateMark),
            ])
        let leaf = try certificate(
            Certificate.PublicKey(leafKey.publicKey), named: try name("Example Receipt Signing"),
            by: intermediateName, intermediateKey,
            [
                try Certificate.Extension(BasicConstraints.notCertificateAuthority, critical: true),
                try Certificate.Extension(KeyUsage(digitalSignature: true), critical: true),
                try authority(intermediateKey.publicKey), mark(AppleProvenChain.leafMark),
            ])
        return AppleChain(root: root, intermediate: intermediate, leaf: leaf, key: leafKey)
    }

    private static func name(_ commonName: String) throws -> DistinguishedName {
        try DistinguishedName {
            CountryName("XX")
            OrganizationName("Example Store")
            CommonName(commonName)
        }
    }

    private static func authority(_ key: Certificate.PublicKey) throws -> Certificate.Extension {
        let identifier = SubjectKeyIdentifier(hash: key).keyIdentifier
        return try Certificate.Extension(AuthorityKeyIdentifier(keyIdentifier: identifier), critical: false)
    }

    /// The value of Apple's marks is an ASN.1 NULL.
    private static func mark(_ oid: ASN1ObjectIdentifier) -> Certificate.Extension {
        Certificate.Extension(oid: oid, critical: false, value: [0x05, 0x00])
    }

    private static func date(_ time: Timestamp) -> Date {
        Date(timeIntervalSince1970: Double(time.nearestWritable.milliseconds / 1_000))
    }

    // MARK: Files

    /// The bytes of a file.
    package func pem(_ file: File) -> [UInt8] {
        let text =
            switch file {
            case .root: Self.pem(ofCertificate: root)
            case .intermediate: Self.pem(ofCertificate: intermediate)
            case .leaf: Self.pem(ofCertificate: leaf)
            case .key: key.pemRepresentation
            }
        return Array((text + "\n").utf8)
    }

    /// Reads the files of a chain. They must be four, and the key the leaf's; whether each certificate is signed by the
    /// next one is not checked, because the source checks it.
    package init(files: [File: [UInt8]]) throws(Failure) {
        root = try Self.certificate(.root, of: files)
        intermediate = try Self.certificate(.intermediate, of: files)
        leaf = try Self.certificate(.leaf, of: files)
        let text = try Self.text(.key, of: files)
        do {
            key = try P256.Signing.PrivateKey(pemRepresentation: text)
        } catch {
            throw Failure(reason: "\(File.key.rawValue) is not one PEM document with a P-256 private key")
        }
        guard let certificate = try? Certificate(derEncoded: leaf),
            certificate.publicKey == Certificate.PublicKey(key.publicKey)
        else {
            throw Failure(reason: "\(File.key.rawValue) is not the key of \(File.leaf.rawValue)")
        }
    }

    private static func certificate(_ file: File, of files: [File: [UInt8]]) throws(Failure) -> [UInt8] {
        let text = try text(file, of: files)
        guard let document = try? PEMDocument(pemString: text), document.discriminator == certificateMark,
            (try? Certificate(derEncoded: document.derBytes)) != nil
        else { throw Failure(reason: "\(file.rawValue) is not one PEM document with a certificate") }
        return document.derBytes
    }

    private static func text(_ file: File, of files: [File: [UInt8]]) throws(Failure) -> String {
        guard let bytes = files[file] else { throw Failure(reason: "\(file.rawValue) is missing") }
        guard bytes.count <= fileBytesMax else {
            throw Failure(reason: "\(file.rawValue) has more than \(fileBytesMax) bytes")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func pem(ofCertificate bytes: [UInt8]) -> String {
        PEMDocument(type: certificateMark, derBytes: bytes).pemString
    }

    private static let certificateMark = "CERTIFICATE"

    // MARK: Signing

    /// A compact JWS of `payload`, as Apple writes it: signed with ES256 (RFC 7518 section 3.4), the chain in `x5c`.
    package func sign(_ payload: [UInt8]) throws(Failure) -> String {
        let header = JSONWriter.object { json in
            json.member("alg", "ES256")
            json.member("x5c", strings: [leaf, intermediate, root].map { Base64.encode($0) })
        }
        let dot = UInt8(ascii: ".")
        let signingInput = Base64URL.encode(header) + [dot] + Base64URL.encode(payload)
        let signature: [UInt8]
        do {
            signature = [UInt8](try key.signature(for: signingInput).rawRepresentation)
        } catch {
            throw Failure(reason: "the key of the leaf certificate cannot sign")
        }
        return String(decoding: signingInput + [dot] + Base64URL.encode(signature), as: UTF8.self)
    }
}
