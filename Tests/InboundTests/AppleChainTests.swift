import Crypto
import JSONText
import SwiftASN1
import Testing
import Vocabulary
import X509

@testable import Inbound

/// Oracles: swift-certificates' own reading of what was made, the extensions of Apple's chain of 2021 to 2027, and
/// swift-crypto's check of a signature.
@Suite("A chain of certificates for samples")
struct AppleChainTests {
    private static let chain = AppleFixtures.chain

    @Test("The certificates are those of Apple's chain in all but the names")
    func shape() throws {
        let chain = Self.chain
        let root = try Certificate(derEncoded: chain.root)
        let intermediate = try Certificate(derEncoded: chain.intermediate)
        let leaf = try Certificate(derEncoded: chain.leaf)
        #expect(P384.Signing.PublicKey(root.publicKey) != nil && P384.Signing.PublicKey(intermediate.publicKey) != nil)
        #expect(P256.Signing.PublicKey(leaf.publicKey) != nil)
        #expect(root.issuer == root.subject && intermediate.issuer == root.subject)
        #expect(leaf.issuer == intermediate.subject)
        let looked: Set<ASN1ObjectIdentifier> = [[2, 5, 29, 19], [2, 5, 29, 15]]
        for certificate in [root, intermediate, leaf] {
            #expect(certificate.signatureAlgorithm == .ecdsaWithSHA384 && certificate.version == .v3)
            let critical = certificate.extensions.filter(\.critical).map(\.oid)
            #expect(Set(critical) == looked)
        }
        #expect(try intermediate.extensions.basicConstraints == .isCertificateAuthority(maxPathLength: 0))
        #expect(try leaf.extensions.basicConstraints == .notCertificateAuthority)
        #expect(try leaf.extensions.keyUsage == KeyUsage(digitalSignature: true))
        let leafMark = leaf.extensions[oid: [1, 2, 840, 113_635, 100, 6, 11, 1]]
        let intermediateMark = intermediate.extensions[oid: [1, 2, 840, 113_635, 100, 6, 2, 1]]
        #expect(leafMark?.value == [0x05, 0x00] && intermediateMark?.value == [0x05, 0x00])
        #expect(try root.extensions.authorityKeyIdentifier == nil)
        let issued = [(intermediate, root), (leaf, intermediate)]
        for (certificate, issuer) in issued {
            let authority = try certificate.extensions.authorityKeyIdentifier?.keyIdentifier
            #expect(try authority == issuer.extensions.subjectKeyIdentifier?.keyIdentifier && authority != nil)
        }
        #expect(chain.fingerprint == Array(SHA256.hash(data: chain.root)))
    }

    @Test("It is valid from its start to its end, and usually for a century")
    func validity() throws {
        let start = Timestamp(milliseconds: 1_700_000_000_000)
        let end = Timestamp(milliseconds: 1_800_000_000_000)
        let chain = try AppleChain.make(from: start, to: end)
        let proven = try AppleProvenChain(leaf: chain.leaf, intermediate: chain.intermediate, root: chain.root)
        #expect(proven.validFrom == start && proven.validTo == end)
        #expect(proven.isValid(at: start) && proven.isValid(at: end))
        #expect(!proven.isValid(at: start.advanced(byMilliseconds: -1)))
        #expect(!proven.isValid(at: end.advanced(byMilliseconds: 1)))
        let usual = try AppleProvenChain(
            leaf: Self.chain.leaf, intermediate: Self.chain.intermediate, root: Self.chain.root)
        #expect(usual.validFrom.iso8601 == "2000-01-01T00:00:00.000Z")
        #expect(usual.validTo.iso8601 == "2100-01-01T00:00:00.000Z")
    }

    @Test("No two chains are alike")
    func fresh() throws {
        let other = try AppleChain.make()
        #expect(other.root != Self.chain.root && other.fingerprint != Self.chain.fingerprint)
    }

    @Test("What it signs is a compact JWS with the chain in x5c")
    func signing() throws {
        let payload = Array("{\"é\":1}".utf8)
        let jws = try CompactJWS(Self.chain.sign(payload).utf8)
        #expect(jws.payload == payload && jws.header.keys == ["alg", "x5c"])
        #expect(try jws.header.string("alg") == "ES256")
        let certificates = [Self.chain.leaf, Self.chain.intermediate, Self.chain.root]
        #expect(try jws.header.texts("x5c") == certificates.map { Base64.encode($0) })
        let leaf = try Certificate(derEncoded: Self.chain.leaf)
        let key = try #require(P256.Signing.PublicKey(leaf.publicKey))
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: jws.signature)
        #expect(key.isValidSignature(signature, for: jws.signingInput))
    }

    // MARK: Files

    private static var files: [AppleChain.File: [UInt8]] {
        Dictionary(uniqueKeysWithValues: AppleChain.File.allCases.map { ($0, chain.pem($0)) })
    }

    private static func failure(_ files: [AppleChain.File: [UInt8]]) -> String? {
        do {
            _ = try AppleChain(files: files)
            return nil
        } catch {
            return error.description
        }
    }

    @Test("What was written is read again, and signs as before")
    func files() throws {
        let read = try AppleChain(files: Self.files)
        #expect(read.root == Self.chain.root && read.leaf == Self.chain.leaf)
        #expect(read.intermediate == Self.chain.intermediate)
        let body = AppleFixtures.body(
            try read.sign(AppleFixtures.payload(AppleFixtures.notification("DID_RENEW"))))
        let verdict = Apple().authenticate(
            header: { _ in nil }, body: body, source: appleSource(), now: Timestamp(milliseconds: 0))
        #expect(verdict == .authentic)
        for file in AppleChain.File.allCases {
            #expect(read.pem(file) == Self.chain.pem(file))
            let text = String(decoding: read.pem(file), as: UTF8.self)
            #expect(text.hasPrefix("-----BEGIN ") && text.hasSuffix("-----\n"))
        }
    }

    @Test("A file that is missing, another's or none is said by its name, and nothing of it is shown")
    func brokenFiles() throws {
        for file in AppleChain.File.allCases {
            var files = Self.files
            files[file] = nil
            #expect(Self.failure(files) == "\(file.rawValue) is missing")
            let text = String(decoding: Self.files[file] ?? [], as: UTF8.self)
            let broken = [
                "", "secret", String(text.dropLast(60)), text + text, text.replacing("BEGIN", with: "START"),
            ]
            for broken in broken {
                files[file] = Array(broken.utf8)
                let failure = Self.failure(files)
                #expect(failure?.hasPrefix("\(file.rawValue) is not one PEM document") == true)
                #expect(failure?.contains("secret") == false)
            }
            files[file] = [UInt8](repeating: 0x41, count: AppleChain.fileBytesMax + 1)
            #expect(Self.failure(files) == "\(file.rawValue) has more than \(AppleChain.fileBytesMax) bytes")
        }
        var swapped = Self.files
        swapped[.leaf] = swapped[.key]
        #expect(Self.failure(swapped) == "leaf.pem is not one PEM document with a certificate")
        var foreign = Self.files
        foreign[.key] = try AppleChain.make().pem(.key)
        #expect(Self.failure(foreign) == "leaf.key is not the key of leaf.pem")
    }
}
