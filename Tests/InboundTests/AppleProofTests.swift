import Crypto
import SwiftASN1
import Testing
import Vocabulary
import X509

@testable import Inbound

/// Oracles: RFC 7515 and RFC 7518 section 3.4 for the signature, RFC 5280 for the chain, and what Apple's libraries
/// refuse (signed_data_verifier.py). Every refusal is the one that says what is wrong.
@Suite("The proof of Apple's notifications")
struct AppleProofTests {
    private static let decoded = AppleFixtures.notification("DID_RENEW")
    /// One good chain for the suite.
    private static let chain = try! AppleTestChain()

    private static func judge(
        _ body: [UInt8], _ adapter: Apple = Apple(), roots: [[UInt8]] = [chain.fingerprint],
        bundleIDs: [String] = [AppleFixtures.bundleID]
    ) -> Authenticity {
        adapter.authenticate(
            header: { _ in nil }, body: body, source: appleSource(bundleIDs: bundleIDs, roots: roots),
            now: Timestamp(milliseconds: 0))
    }

    /// A whole chain of its own, whose root is pinned.
    private static func judge(_ chain: AppleTestChain, _ decoded: String = decoded) throws -> Authenticity {
        judge(try chain.body(decoded), roots: [chain.fingerprint])
    }

    // MARK: Good

    @Test("A notification of a pinned root's chain is authentic, whatever its type")
    func good() throws {
        let all = [
            Self.decoded, AppleFixtures.test, AppleFixtures.summary, AppleFixtures.rescindConsent,
            AppleFixtures.externalPurchase, AppleFixtures.notification("SOMETHING_NEW"),
        ]
        for decoded in all {
            #expect(Self.judge(try Self.chain.body(decoded)) == .authentic)
            let other = try AppleFixtures.seal(decoded)
            #expect(Self.judge(other, roots: [AppleFixtures.chain.fingerprint]) == .authentic)
        }
    }

    @Test("Any of several roots and bundle ids will do")
    func several() throws {
        let body = try Self.chain.body(Self.decoded)
        let roots = [[UInt8](repeating: 0, count: 32), Self.chain.fingerprint]
        #expect(Self.judge(body, roots: roots, bundleIDs: ["com.example.other", "com.example.one"]) == .authentic)
    }

    @Test("Other members of the header say nothing")
    func otherMembers() throws {
        let header = Self.chain.header(more: #","typ":"JWT","kid":"1","jwk":{},"jku":"https://example.com","x5u":"x""#)
        #expect(Self.judge(try Self.chain.body(Self.decoded, header: header)) == .authentic)
    }

    @Test("A source without the settings of its kind takes nothing for authentic")
    func withoutSettings() throws {
        let source = Source(
            name: "apple", kind: .apple, authentication: .none, secrets: [], app: nil, defaultEnvironment: nil,
            freshness: nil)
        let verdict = Apple().authenticate(
            header: { _ in nil }, body: try Self.chain.body(Self.decoded), source: source,
            now: Timestamp(milliseconds: 0))
        #expect(verdict == .refused(.unsupportedAuthentication))
    }

    // MARK: The body

    @Test(
        "A body that has no signed payload is refused",
        arguments: [
            "", "{", "[]", "{}", #"{"signedPayload":null}"#, #"{"signedPayload":7}"#, #"{"signedPayload":{}}"#,
            #"{"notification_type":"DID_RENEW","password":"x"}"#, #"{"signedPayload":"a.b.c","signedPayload":"a.b.c"}"#,
        ])
    func noPayload(_ body: String) {
        #expect(Self.judge(Array(body.utf8)) == .refused(.missingSignedPayload))
    }

    @Test("A text that is no strict compact JWS is refused")
    func malformed() throws {
        let jws = try Self.chain.jws(AppleFixtures.payload(Self.decoded))
        let parts = jws.split(separator: ".").map(String.init)
        try #require(parts.count == 3)
        let (header, payload, signature) = (parts[0], parts[1], parts[2])
        let texts = [
            "", ".", "..", "a.b", jws + ".", jws + ".a", "\(header).\(payload)", "\(header)\(payload).\(signature)",
            "\(header)=.\(payload).\(signature)", "\(header).\(payload)==.\(signature)",
            "\(header).\(payload).\(signature)==", "\(header).\(payload).\(signature) ", " \(jws)",
            "\(header).\(payload) .\(signature)", "\(header).\(payload).\(signature.dropLast())+",
            "\(header).\(payload).\(signature.dropLast())/",
            "\\u0065\(jws.dropFirst())", ".\(payload).\(signature)",
            String(repeating: "A", count: 2 << 20),
            "\(String(repeating: "A", count: CompactJWS.headerBytesMax + 4)).\(payload).\(signature)",
            "\(header).\(payload).\(String(repeating: "A", count: CompactJWS.signatureBytesMax + 4))",
        ]
        for text in texts {
            let body = Array(#"{"signedPayload":"\#(text)"}"#.utf8)
            #expect(Self.judge(body) == .refused(.malformedSignedPayload), "\(text.prefix(40))")
        }
    }

    @Test("Signature bits after the last byte are refused, so that one signature has one text")
    func trailingBits() throws {
        let jws = try Self.chain.jws(AppleFixtures.payload(Self.decoded))
        // 64 bytes are 85 digits and one of which two bits count.
        let last = try #require(jws.utf8.last)
        try #require("AQgw".utf8.contains(last))
        for digit in "BCDEFPRSfhixz09-_" {
            let changed = jws.dropLast() + String(digit)
            #expect(Self.judge(AppleFixtures.body(String(changed))) == .refused(.malformedSignedPayload))
        }
    }

    @Test(
        "A header that is no object, or asks for an extension, is refused",
        arguments: ["", "[]", "7", "{", #"{"alg":"ES256","alg":"none"}"#])
    func header(_ header: String) throws {
        let body = try Self.chain.body(Self.decoded, header: header)
        #expect(Self.judge(body) == .refused(.malformedSignedPayload))
    }

    @Test(
        "No extension of JWS is supported",
        arguments: [#","crit":["b64"],"b64":false"#, #","b64":true"#, #","crit":[]"#])
    func extensions(_ more: String) throws {
        let body = try Self.chain.body(Self.decoded, header: Self.chain.header(more: more))
        #expect(Self.judge(body) == .refused(.malformedSignedPayload))
    }

    // MARK: The algorithm

    @Test(
        "Only ES256 is taken, by this name",
        arguments: ["\"none\"", "\"None\"", "\"HS256\"", "\"ES384\"", "\"RS256\"", "\"es256\"", "\"\"", "7", "null"])
    func algorithm(_ alg: String) throws {
        let body = try Self.chain.body(Self.decoded, header: Self.chain.header(alg: alg))
        #expect(Self.judge(body) == .refused(.unsupportedAlgorithm))
    }

    @Test("Neither an absent signature nor an HMAC with a certificate as the key counts")
    func confusedAlgorithms() throws {
        let payload = try AppleFixtures.payload(Self.decoded)
        let none = AppleTestChain.signingInput(header: Self.chain.header(alg: "\"none\""), payload: payload)
        #expect(Self.judge(AppleFixtures.body(AppleTestChain.jws(none, []))) == .refused(.unsupportedAlgorithm))
        for alg in ["HS256", "ES256"] {
            let input = AppleTestChain.signingInput(header: Self.chain.header(alg: "\"\(alg)\""), payload: payload)
            for certificate in Self.chain.certificates {
                let code = HMAC<SHA256>.authenticationCode(for: input, using: SymmetricKey(data: certificate))
                let verdict = Self.judge(AppleFixtures.body(AppleTestChain.jws(input, Array(code))))
                #expect(
                    verdict == .refused(alg == "HS256" ? .unsupportedAlgorithm : .malformedPayloadSignature))
            }
        }
    }

    // MARK: The certificates

    @Test("Exactly three certificates are taken")
    func count() throws {
        let texts = Self.chain.certificates.map { Base64.encode($0) }
        let wrong: [[String]] = [[], Array(texts.prefix(1)), Array(texts.prefix(2)), texts + [texts[2]]]
        for x5c in wrong {
            let body = try Self.chain.body(Self.decoded, header: Self.chain.header(x5c: x5c))
            #expect(Self.judge(body) == .refused(.wrongCertificateCount))
        }
        for header in [#"{"alg":"ES256"}"#, #"{"alg":"ES256","x5c":null}"#, #"{"alg":"ES256","x5c":"x"}"#] {
            let body = try Self.chain.body(Self.decoded, header: header)
            #expect(Self.judge(body) == .refused(.wrongCertificateCount))
        }
    }

    @Test("Certificates are DER in base64 with padding, with nothing behind them")
    func encoding() throws {
        let texts = Self.chain.certificates.map { Base64.encode($0) }
        let forURLs = String(decoding: Base64URL.encode(Self.chain.leaf), as: UTF8.self)
        try #require(forURLs != texts[0], "the certificate's base64 is the same in both alphabets")
        let leaves = [
            forURLs, "", "!", texts[0] + "\\n", " " + texts[0], Base64.encode(Self.chain.leaf + [0]),
            Base64.encode(Self.chain.leaf.dropLast()), Base64.encode(Array("certificate".utf8)),
        ]
        for leaf in leaves {
            let header = Self.chain.header(x5c: [leaf, texts[1], texts[2]])
            #expect(Self.judge(try Self.chain.body(Self.decoded, header: header)) == .refused(.malformedCertificate))
        }
        // Three elements, of which one is no text.
        let header = #"{"alg":"ES256","x5c":["\#(texts[0])","\#(texts[1])",{}]}"#
        #expect(Self.judge(try Self.chain.body(Self.decoded, header: header)) == .refused(.malformedCertificate))
    }

    @Test("Another order is another root, or no chain")
    func order() throws {
        let texts = Self.chain.certificates.map { Base64.encode($0) }
        let orders: [([Int], Authenticity.Refusal)] = [
            ([1, 0, 2], .brokenChain), ([0, 2, 1], .unknownRoot), ([2, 1, 0], .unknownRoot), ([1, 2, 0], .unknownRoot),
            ([0, 0, 2], .brokenChain), ([1, 1, 2], .brokenChain), ([0, 2, 2], .brokenChain),
            // The root stands for itself and for the intermediate, but no authority signs notifications.
            ([1, 2, 2], .unfitCertificate), ([2, 2, 2], .unfitCertificate),
        ]
        for (order, refusal) in orders {
            let header = Self.chain.header(x5c: order.map { texts[$0] })
            let verdict = Self.judge(try Self.chain.body(Self.decoded, header: header))
            #expect(verdict == .refused(refusal), "\(order)")
        }
    }

    @Test("A root that is not pinned proves nothing, and a pinned one nothing about another's chain")
    func otherRoot() throws {
        // The same names, other keys.
        let other = try AppleTestChain()
        #expect(Self.judge(try other.body(Self.decoded)) == .refused(.unknownRoot))
        #expect(Self.judge(try other.body(Self.decoded), roots: []) == .refused(.unknownRoot))
        var mixed = other
        mixed.root = Self.chain.root
        #expect(Self.judge(try mixed.body(Self.decoded)) == .refused(.brokenChain))
        mixed.intermediate = Self.chain.intermediate
        #expect(Self.judge(try mixed.body(Self.decoded)) == .refused(.brokenChain))
        mixed.leaf = Self.chain.leaf
        #expect(Self.judge(try mixed.body(Self.decoded)) == .refused(.wrongPayloadSignature))
    }

    @Test("Names must lead from the leaf to the root")
    func names() throws {
        #expect(try Self.judge(AppleTestChain { $0.leafIssuer = "Test Root" }) == .refused(.brokenChain))
        #expect(try Self.judge(AppleTestChain { $0.intermediateIssuer = "Test" }) == .refused(.brokenChain))
    }

    @Test("Both marks of Apple's must be there, each in its place")
    func marks() throws {
        let leafMark = AppleProvenChain.leafMark
        let intermediateMark = AppleProvenChain.intermediateMark
        #expect(try Self.judge(AppleTestChain { $0.leafMark = nil }) == .refused(.unmarkedCertificate))
        #expect(try Self.judge(AppleTestChain { $0.intermediateMark = nil }) == .refused(.unmarkedCertificate))
        let swapped = try AppleTestChain {
            $0.leafMark = intermediateMark
            $0.intermediateMark = leafMark
        }
        #expect(try Self.judge(swapped) == .refused(.unmarkedCertificate))
    }

    @Test("Constraints, usages, the key and critical extensions must fit")
    func use() throws {
        let strange: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 55_555, 1]
        let unfit: [(inout AppleTestChain.Shape) -> Void] = [
            { $0.leafConstraints = .isCertificateAuthority(maxPathLength: nil) },
            { $0.intermediateConstraints = .notCertificateAuthority },
            { $0.intermediateConstraints = nil },
            { $0.leafUsage = nil },
            { $0.leafUsage = KeyUsage(keyAgreement: true) },
            { $0.intermediateUsage = nil },
            { $0.intermediateUsage = KeyUsage(digitalSignature: true) },
            { $0.strange = Certificate.Extension(oid: strange, critical: true, value: [0x05, 0x00]) },
            { $0.isOfOtherCurve = true },
        ]
        for change in unfit {
            #expect(try Self.judge(AppleTestChain(change)) == .refused(.unfitCertificate))
        }
        let harmless: [(inout AppleTestChain.Shape) -> Void] = [
            { $0.leafConstraints = nil },
            { $0.strange = Certificate.Extension(oid: strange, critical: false, value: [0x05, 0x00]) },
            { $0.intermediateConstraints = .isCertificateAuthority(maxPathLength: nil) },
        ]
        for change in harmless { #expect(try Self.judge(AppleTestChain(change)) == .authentic) }
    }

    // MARK: Time

    @Test("Each certificate must be valid at signedDate, to the millisecond; now does not matter")
    func validity() throws {
        let shapes: [(inout AppleTestChain.Shape) -> Void] = [
            { $0.leafValidity = (from: 1_000_000_000, to: 1_100_000_000) },
            { $0.intermediateValidity = (from: 1_000_000_000, to: 1_100_000_000) },
            { $0.rootValidity = (from: 1_000_000_000, to: 1_100_000_000) },
        ]
        for change in shapes {
            let chain = try AppleTestChain { shape in
                shape.leafValidity = (from: 900_000_000, to: 1_200_000_000)
                shape.intermediateValidity = shape.leafValidity
                shape.rootValidity = shape.leafValidity
                change(&shape)
            }
            let times: [(Int64, Authenticity)] = [
                (1_000_000_000_000, .authentic), (999_999_999_999, .refused(.expiredCertificate)),
                (1_100_000_000_000, .authentic), (1_100_000_000_001, .refused(.expiredCertificate)),
                (.max, .refused(.expiredCertificate)), (.min, .refused(.expiredCertificate)),
            ]
            for (signedAt, verdict) in times {
                let decoded = BodyEdit.edit(Self.decoded, [("signedDate", "\(signedAt)")])
                #expect(try Self.judge(chain, decoded) == verdict, "\(signedAt)")
            }
        }
    }

    // MARK: The signature

    @Test("A signature is 64 bytes, raw")
    func signatureForm() throws {
        let input = AppleTestChain.signingInput(
            header: Self.chain.header(), payload: try AppleFixtures.payload(Self.decoded))
        let signature = try Self.chain.signature(input)
        let raw = [UInt8](signature.rawRepresentation)
        let forms: [[UInt8]] = [
            [], Array(raw.dropLast()), raw + [0], [0] + raw, raw + raw, [UInt8](signature.derRepresentation),
        ]
        for form in forms {
            let verdict = Self.judge(AppleFixtures.body(AppleTestChain.jws(input, form)))
            #expect(verdict == .refused(.malformedPayloadSignature), "\(form.count) bytes")
        }
        let wrong: [[UInt8]] = [[UInt8](repeating: 0, count: 64), [UInt8](repeating: 0xFF, count: 64), raw.reversed()]
        for form in wrong {
            let verdict = Self.judge(AppleFixtures.body(AppleTestChain.jws(input, form)))
            #expect(verdict == .refused(.wrongPayloadSignature))
        }
        #expect(Self.judge(AppleFixtures.body(AppleTestChain.jws(input, raw))) == .authentic)
    }

    @Test("A signature of another chain's key does not count")
    func otherKey() throws {
        let input = AppleTestChain.signingInput(
            header: Self.chain.header(), payload: try AppleFixtures.payload(Self.decoded))
        let signature = [UInt8](try AppleTestChain().signature(input).rawRepresentation)
        let verdict = Self.judge(AppleFixtures.body(AppleTestChain.jws(input, signature)))
        #expect(verdict == .refused(.wrongPayloadSignature))
    }

    @Test("A changed bit anywhere is refused")
    func changedBits() throws {
        let adapter = Apple()
        let jws = Array(try Self.chain.jws(AppleFixtures.payload(AppleFixtures.test)).utf8)
        let firstDot = try #require(jws.firstIndex(of: UInt8(ascii: ".")))
        // Of the header every seventh byte: most of it is certificates, whose check takes longest.
        for at in jws.indices where at > firstDot || at % 7 == 0 {
            var changed = jws
            changed[at] ^= 1 << UInt8(at % 7)
            let body = AppleFixtures.body(String(decoding: changed, as: UTF8.self))
            let verdict = Self.judge(body, adapter)
            #expect(verdict != .authentic, "byte \(at)")
        }
        #expect(adapter.proof.chains.count <= 1, "a chain that is not good was remembered")
    }

    // MARK: The payload

    @Test(
        "A payload without a signedDate cannot be judged",
        arguments: [
            "", "[]", "not JSON", "{}", #"{"signedDate":"1"}"#, #"{"signedDate":1.5}"#, #"{"signedDate":null}"#,
        ])
    func payload(_ payload: String) throws {
        let body = AppleFixtures.body(try Self.chain.jws(Array(payload.utf8)))
        #expect(Self.judge(body) == .refused(.unreadablePayload))
    }

    @Test(
        "The app must be one of the source's",
        arguments: [
            ("\"com.example.other\"", .foreignBundleID), ("\"com.example.onE\"", .foreignBundleID),
            ("\"com.example.one \"", .foreignBundleID), ("\"\"", .missingBundleID), ("7", .missingBundleID),
            ("null", .missingBundleID), (nil, .missingBundleID),
        ] as [(String?, Authenticity.Refusal)])
    func bundle(_ bundleID: String?, _ refusal: Authenticity.Refusal) throws {
        let edit: BodyEdit.Fields = [("bundleId", bundleID)]
        let all = [
            BodyEdit.edit(Self.decoded, in: "data", set: edit),
            BodyEdit.edit(AppleFixtures.summary, in: "summary", set: edit),
            BodyEdit.edit(AppleFixtures.rescindConsent, in: "appData", set: edit),
            BodyEdit.edit(AppleFixtures.externalPurchase, in: "externalPurchaseToken", set: edit),
        ]
        for decoded in all { #expect(Self.judge(try Self.chain.body(decoded)) == .refused(refusal)) }
    }

    @Test("A payload about no app is nobody's; one about two needs both")
    func subjects() throws {
        let none = AppleFixtures.whole(AppleName("TEST"), [])
        #expect(Self.judge(try Self.chain.body(none)) == .refused(.missingBundleID))
        let two = BodyEdit.edit(
            Self.decoded, [("summary", #"{"bundleId":"com.example.other","environment":"Production"}"#)])
        #expect(Self.judge(try Self.chain.body(two)) == .refused(.foreignBundleID))
    }

    @Test("No source without bundle ids takes anything")
    func noBundleIDs() throws {
        #expect(Self.judge(try Self.chain.body(Self.decoded), bundleIDs: []) == .refused(.foreignBundleID))
    }

    @Test(
        "Only the two environments that Apple signs are taken",
        arguments: ["\"Xcode\"", "\"LocalTesting\"", "\"sandbox\"", "\"PRODUCTION\"", "\"\"", "null", "1", nil]
            as [String?])
    func environment(_ environment: String?) throws {
        let edit: BodyEdit.Fields = [("environment", environment)]
        let all = [
            BodyEdit.edit(Self.decoded, in: "data", set: edit),
            BodyEdit.edit(AppleFixtures.summary, in: "summary", set: edit),
            BodyEdit.edit(AppleFixtures.rescindConsent, in: "appData", set: edit),
        ]
        for decoded in all { #expect(Self.judge(try Self.chain.body(decoded)) == .refused(.foreignEnvironment)) }
    }

    // MARK: The cache

    @Test("A good chain is remembered, and its root is compared each time")
    func remembered() throws {
        let adapter = Apple()
        let body = try Self.chain.body(Self.decoded)
        #expect(Self.judge(body, adapter) == .authentic && adapter.proof.chains.count == 1)
        #expect(Self.judge(body, adapter) == .authentic && adapter.proof.chains.count == 1)
        // Another root configured: what is remembered must not count.
        let other = try AppleTestChain()
        #expect(Self.judge(body, adapter, roots: [other.fingerprint]) == .refused(.unknownRoot))
        #expect(Self.judge(body, adapter, roots: []) == .refused(.unknownRoot))
        // The same leaf and intermediate behind a root that is pinned, but did not sign them.
        var mixed = Self.chain
        mixed.root = other.root
        let verdict = Self.judge(try mixed.body(Self.decoded), adapter, roots: [other.fingerprint])
        #expect(verdict == .refused(.brokenChain))
        #expect(Self.judge(body, adapter) == .authentic)
    }

    @Test("A remembered chain is judged at each signedDate anew, and each signature is checked")
    func rememberedValidity() throws {
        let adapter = Apple()
        #expect(Self.judge(try Self.chain.body(Self.decoded), adapter) == .authentic)
        let late = BodyEdit.edit(Self.decoded, [("signedDate", "1800000000001")])
        #expect(Self.judge(try Self.chain.body(late), adapter) == .refused(.expiredCertificate))
        let input = AppleTestChain.signingInput(
            header: Self.chain.header(), payload: try AppleFixtures.payload(Self.decoded))
        let zeros = AppleFixtures.body(AppleTestChain.jws(input, [UInt8](repeating: 0, count: 64)))
        #expect(Self.judge(zeros, adapter) == .refused(.wrongPayloadSignature))
        #expect(adapter.proof.chains.count == 1)
    }

    @Test("What is remembered is bounded")
    func bounded() throws {
        let adapter = Apple()
        for _ in 0...AppleChainCache.chainsMax {
            let chain = try AppleTestChain()
            let verdict = Self.judge(try chain.body(Self.decoded), adapter, roots: [chain.fingerprint])
            #expect(verdict == .authentic && (1...AppleChainCache.chainsMax).contains(adapter.proof.chains.count))
            #expect((1...AppleChainCache.chainsMax).contains(adapter.proof.chains.intermediatesCount))
        }
        #expect(adapter.proof.chains.count == 1)
    }

    /// The root and the intermediate are public: anybody can send them with a leaf of their own.
    @Test("A forged leaf costs one signature: its intermediate is remembered once it is proven, and the leaf never")
    func forgedLeaves() throws {
        let adapter = Apple()
        for _ in 0..<3 {
            var forged = try AppleTestChain()
            forged.intermediate = Self.chain.intermediate
            forged.root = Self.chain.root
            #expect(Self.judge(try forged.body(Self.decoded), adapter) == .refused(.brokenChain))
            #expect(adapter.proof.chains.intermediatesCount == 1 && adapter.proof.chains.count == 0)
        }
        #expect(Self.judge(try Self.chain.body(Self.decoded), adapter) == .authentic)
        #expect(adapter.proof.chains.intermediatesCount == 1 && adapter.proof.chains.count == 1)
        // What no pinned root has signed is not remembered, nor is what its root signed for another use.
        var other = try AppleTestChain()
        other.root = Self.chain.root
        #expect(Self.judge(try other.body(Self.decoded), adapter) == .refused(.brokenChain))
        let unfit = try AppleTestChain { $0.intermediateConstraints = .notCertificateAuthority }
        let verdict = Self.judge(try unfit.body(Self.decoded), adapter, roots: [unfit.fingerprint])
        #expect(verdict == .refused(.unfitCertificate))
        #expect(adapter.proof.chains.intermediatesCount == 1)
    }

    @Test("A remembered intermediate counts with its own root alone")
    func rememberedIntermediate() throws {
        let adapter = Apple()
        #expect(Self.judge(try Self.chain.body(Self.decoded), adapter) == .authentic)
        let other = try AppleTestChain()
        var mixed = Self.chain
        mixed.root = other.root
        let verdict = Self.judge(try mixed.body(Self.decoded), adapter, roots: [other.fingerprint])
        #expect(verdict == .refused(.brokenChain) && adapter.proof.chains.intermediatesCount == 1)
    }

    @Test("A certificate longer than any of Apple's is not parsed")
    func longCertificate() throws {
        let strange: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 55_555, 1]
        let long = try AppleTestChain {
            $0.strange = Certificate.Extension(
                oid: strange, critical: false, value: ArraySlice([UInt8](repeating: 0, count: 4 << 10)))
        }
        #expect(try Self.judge(long) == .refused(.malformedCertificate))
    }

    @Test("A refusal says what to look at, in its own words", arguments: Authenticity.Refusal.allCases)
    func sentences(_ refusal: Authenticity.Refusal) {
        let others = Authenticity.Refusal.allCases.filter { $0 != refusal }.map(\.description)
        #expect(!refusal.description.isEmpty && !others.contains(refusal.description))
    }
}
