import Crypto
import CryptoExtras
import Testing
import Vocabulary

@testable import Inbound

/// The ID tokens of Pub/Sub. Oracles: a token made with openssl; RFC 7515, 7517, 7519 and 8725; Pub/Sub's page
/// "Authentication for push subscriptions".
@Suite("The token of a Pub/Sub push")
struct JSONWebTokenTests {
    typealias Fixtures = PubSubFixtures

    static func judge(
        authorization: String?, source: Source = googlePlaySource(), now: Timestamp = Fixtures.now,
        keys: @escaping JSONWebKeyLookup = Fixtures.lookup
    ) -> Authenticity {
        GooglePlay(keys: keys).authenticate(
            header: { $0.lowercased() == "authorization" ? authorization : nil }, body: [], source: source, now: now)
    }

    static func judge(_ token: String, now: Timestamp = Fixtures.now) -> Authenticity {
        judge(authorization: "Bearer " + token, now: now)
    }

    /// The verdict on a token with other claims, signed by Google's key.
    static func judge(_ claims: BodyEdit.Fields, now: Timestamp = Fixtures.now) throws -> Authenticity {
        judge(try Fixtures.token(Fixtures.claims(claims)), now: now)
    }

    // MARK: Signatures

    @Test("A token of openssl and one of our own are taken, under any case of the scheme")
    func taken() throws {
        #expect(Self.judge(Fixtures.vector) == .authentic)
        let token = try Fixtures.token()
        for scheme in ["Bearer ", "bearer ", "BEARER "] {
            #expect(Self.judge(authorization: scheme + token) == .authentic)
        }
    }

    @Test("A token with one changed character is taken nowhere")
    func changed() {
        let whole = Array(Fixtures.vector.utf8)
        // Every one costs a signature: some of each part.
        let places = Array(stride(from: 0, to: whole.count, by: 7)) + [whole.count - 1]
        for place in places where whole[place] != UInt8(ascii: ".") {
            var bytes = whole
            bytes[place] = bytes[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(Self.judge(String(decoding: bytes, as: UTF8.self)) != .authentic, "at \(place)")
        }
    }

    @Test("A token that another key signed is refused, whichever key it names")
    func otherKey() throws {
        let other = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        #expect(try Self.judge(Fixtures.token(by: other)) == .refused(.wrongIDTokenSignature))
        let named = #"{"alg":"RS256","kid":"vector-1"}"#
        #expect(try Self.judge(Fixtures.token(header: named)) == .refused(.wrongIDTokenSignature))
        let unknown = #"{"alg":"RS256","kid":"other"}"#
        #expect(try Self.judge(Fixtures.token(header: unknown)) == .refused(.unknownIDTokenKey))
    }

    @Test("A signature with other padding is refused")
    func otherPadding() throws {
        let input = Fixtures.signingInput(Fixtures.header, Fixtures.claims())
        let signature = try Fixtures.privateKey.signature(for: Array(input.utf8), padding: .PSS)
        let token = input + "." + Fixtures.base64url(Array(signature.rawRepresentation))
        #expect(Self.judge(token) == .refused(.wrongIDTokenSignature))
    }

    @Test("While there are no keys nothing is decided, and without a readable token no key is looked for")
    func unverifiable() throws {
        let token = try Fixtures.token()
        #expect(Self.judge(authorization: "Bearer " + token, keys: { _ in .unverifiable }) == .unverifiable)
        let plain = GooglePlay().authenticate(
            header: { _ in "Bearer " + token }, body: [], source: googlePlaySource(), now: Fixtures.now)
        #expect(plain == .unverifiable)
        #expect(Self.judge(authorization: "Bearer " + token, keys: { _ in .possiblyNew }) == .unknownKey)
        #expect(Self.judge(authorization: "Bearer x.y.z", keys: { _ in .unverifiable }) == .refused(.malformedIDToken))
    }

    // MARK: Algorithms

    @Test(
        "No other algorithm is taken, and none that the token chooses",
        arguments: [
            #"{"alg":"HS256","kid":"run-1"}"#, #"{"alg":"none","kid":"run-1"}"#, #"{"alg":"None","kid":"run-1"}"#,
            #"{"alg":"rs256","kid":"run-1"}"#, #"{"alg":"RS384","kid":"run-1"}"#, #"{"alg":"PS256","kid":"run-1"}"#,
            #"{"alg":"ES256","kid":"run-1"}"#, #"{"kid":"run-1"}"#, #"{"alg":null,"kid":"run-1"}"#,
        ])
    func algorithms(_ header: String) throws {
        #expect(try Self.judge(Fixtures.token(header: header)) == .refused(.wrongIDTokenAlgorithm))
    }

    @Test("An HMAC under the public key is no signature of it")
    func publicKeyAsSecret() throws {
        let key = Fixtures.privateKey.publicKey
        let secrets = [
            Array(key.derRepresentation), Array(key.pemRepresentation.utf8), Array(key.pkcs1DERRepresentation),
            Array(Fixtures.modulus.utf8),
        ]
        for secret in secrets {
            let named = Fixtures.token(header: #"{"alg":"HS256","kid":"run-1"}"#, secret: secret)
            #expect(Self.judge(named) == .refused(.wrongIDTokenAlgorithm))
            let posing = Fixtures.token(header: Fixtures.header, secret: secret)
            #expect(Self.judge(posing) == .refused(.wrongIDTokenSignature))
        }
    }

    @Test("A token without a signature is refused")
    func unsigned() {
        let input = Fixtures.signingInput(#"{"alg":"none","kid":"run-1"}"#, Fixtures.claims())
        for token in [input, input + ".", Fixtures.signingInput(Fixtures.header, Fixtures.claims()) + "."] {
            let verdict = Self.judge(token)
            #expect(verdict != .authentic && verdict != .unverifiable)
        }
    }

    // MARK: Form

    @Test("The header field is read strictly")
    func field() throws {
        let token = try Fixtures.token()
        for missing in [nil, ""] as [String?] {
            #expect(Self.judge(authorization: missing) == .refused(.missingIDToken))
        }
        let parts = token.split(separator: ".").map(String.init)
        let malformed = [
            token, "Bearer", "Bearer ", "Basic " + token, "Bearer  " + token, "Bearer\t" + token,
            "Bearer " + token + " ", "Bearer " + token + "=", "Bearer " + token + "\n", "Bearer " + token + ".x",
            "Bearer \(parts[0]).\(parts[1])", "Bearer ..", "Bearer \(parts[0])=.\(parts[1]).\(parts[2])",
            "Bearer \(parts[0]).\(parts[1])=.\(parts[2])", "Bearer \(parts[0])+.\(parts[1]).\(parts[2])",
            "Bearer .\(parts[1]).\(parts[2])", "Bearer \(parts[0])..\(parts[2])", "Bearer é",
            "Bearer " + String(repeating: "A", count: JSONWebToken.bytesMax + 1),
        ]
        for field in malformed {
            #expect(Self.judge(authorization: field) == .refused(.malformedIDToken), "\(field.prefix(12))")
        }
    }

    @Test(
        "A header without a key, with an extension, or that is no JSON is refused",
        arguments: [
            #"{"alg":"RS256"}"#, #"{"alg":"RS256","kid":""}"#, #"{"alg":"RS256","kid":7}"#,
            #"{"alg":"RS256","kid":"run-1","crit":["exp"],"exp":1}"#, #"{"alg":7,"kid":"run-1"}"#,
            #"{"alg":"RS256","alg":"RS256","kid":"run-1"}"#, "RS256", "[]",
            #"{"alg":"RS256","kid":""# + String(repeating: "k", count: JSONWebKeys.keyIDBytesMax + 1) + #""}"#,
        ])
    func headers(_ header: String) throws {
        #expect(try Self.judge(Fixtures.token(header: header)) == .refused(.malformedIDToken))
    }

    @Test("Claims that are no flat JSON object are refused", arguments: ["", "[]", "{", "{}{}", #""claims""#])
    func noClaims(_ claims: String) throws {
        #expect(try Self.judge(Fixtures.token(claims)) == .refused(.malformedIDToken))
    }

    @Test("Deeply nested claims are refused")
    func nestedClaims() throws {
        let depth = JSONWebToken.claimsDepthMax
        let nested = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        #expect(try Self.judge([(key: "more", raw: nested)]) == .refused(.malformedIDToken))
        let flatter = String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1)
        #expect(try Self.judge([(key: "more", raw: flatter)]) == .authentic)
    }

    // MARK: Claims

    struct Row: Sendable, CustomStringConvertible {
        let claim: String
        let raw: String?
        let refusal: Authenticity.Refusal?

        init(_ claim: String, _ raw: String?, _ refusal: Authenticity.Refusal?) {
            self.claim = claim
            self.raw = raw
            self.refusal = refusal
        }

        var description: String { "\(claim) \(raw ?? "absent")" }
    }

    static let claims: [Row] = [
        Row("iss", #""accounts.google.com""#, nil), Row("iss", #""https://accounts.google.com/""#, .wrongIssuer),
        Row("iss", #""http://accounts.google.com""#, .wrongIssuer),
        Row("iss", #""accounts.example.com""#, .wrongIssuer),
        Row("iss", #"["https://accounts.google.com"]"#, .wrongIssuer), Row("iss", nil, .wrongIssuer),
        Row("aud", #""https://hooks.example.com/ingest/other""#, .wrongAudience),
        Row("aud", #""https://hooks.example.com/ingest/google/""#, .wrongAudience),
        Row("aud", #""HTTPS://hooks.example.com/ingest/google""#, .wrongAudience),
        Row("aud", #"["https://hooks.example.com/ingest/google"]"#, .wrongAudience), Row("aud", nil, .wrongAudience),
        Row("email", #""pull@example-project.iam.gserviceaccount.com""#, .wrongSender),
        Row("email", #""Push@example-project.iam.gserviceaccount.com""#, .wrongSender),
        Row("email", nil, .wrongSender), Row("email", "null", .wrongSender),
        Row("email_verified", "false", .unverifiedSender), Row("email_verified", #""true""#, .unverifiedSender),
        Row("email_verified", "1", .unverifiedSender), Row("email_verified", nil, .unverifiedSender),
        Row("exp", nil, .malformedIDToken), Row("exp", #""1790845200""#, .malformedIDToken),
        Row("exp", "1790845200.5", .malformedIDToken), Row("exp", "-9223372036854775808", .expiredIDToken),
        Row("exp", "9223372036854775807", nil), Row("exp", "9223372036854775808", .malformedIDToken),
        Row("iat", nil, .malformedIDToken), Row("iat", "9223372036854775807", .futureIDToken),
        Row("iat", "-9223372036854775808", nil), Row("azp", nil, nil), Row("sub", #""other""#, nil),
    ]

    @Test("Issuer, audience, sender and times must be those of the source's subscription", arguments: claims)
    func claim(_ row: Row) throws {
        let verdict = try Self.judge([(key: row.claim, raw: row.raw)])
        #expect(verdict == (row.refusal.map { Authenticity.refused($0) } ?? .authentic))
    }

    @Test("An audience and the next are both taken while it is changed")
    func audiences() throws {
        let token = try Fixtures.token()
        let both = googlePlaySource(audiences: ["https://new.example.com", Fixtures.audience])
        #expect(Self.judge(authorization: "Bearer " + token, source: both) == .authentic)
        for audiences in [["https://new.example.com"], []] {
            let source = googlePlaySource(audiences: audiences)
            #expect(Self.judge(authorization: "Bearer " + token, source: source) == .refused(.wrongAudience))
        }
    }

    @Test("A token is taken from its issue to its end, and a little beyond, because clocks differ")
    func times() throws {
        let leeway = PubSubToken.clockLeewaySeconds
        let token = try Fixtures.token()
        let cases: [(Int64, Authenticity)] = [
            (0, .authentic), (-leeway, .authentic), (-leeway - 1, .refused(.futureIDToken)), (3_600, .authentic),
            (3_600 + leeway, .authentic), (3_600 + leeway + 1, .refused(.expiredIDToken)),
        ]
        for (seconds, verdict) in cases {
            let now = Timestamp(milliseconds: (Fixtures.issuedAt + seconds) * 1_000)
            #expect(Self.judge(token, now: now) == verdict, "\(seconds)")
        }
        for milliseconds in [Int64.min, .max] {
            #expect(Self.judge(token, now: Timestamp(milliseconds: milliseconds)) != .authentic)
        }
    }

    @Test("A claim counts only under a signature")
    func order() throws {
        let other = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let claims = Fixtures.claims([(key: "aud", raw: "\"x\""), (key: "exp", raw: "1")])
        #expect(try Self.judge(Fixtures.token(claims, by: other)) == .refused(.wrongIDTokenSignature))
    }

    @Test("A source without authentication asks for nothing, and one of another kind has no such token")
    func otherSources() throws {
        let open = googlePlaySource(authentication: .none)
        #expect(Self.judge(authorization: nil, source: open) == .authentic)
        let other = Source(
            name: "other", kind: .purchasely, authentication: .token, secrets: [], app: nil, defaultEnvironment: nil,
            freshness: nil)
        let field = "Bearer " + (try Fixtures.token())
        #expect(Self.judge(authorization: field, source: other) == .refused(.unsupportedAuthentication))
    }

    @Test("Every refusal has a sentence of its own, and quotes nothing")
    func sentences() {
        let sentences = Authenticity.Refusal.allCases.map { "\($0)" }
        #expect(Set(sentences).count == sentences.count)
        #expect(sentences.allSatisfy { !$0.isEmpty && !$0.contains(Fixtures.sender) })
    }
}
