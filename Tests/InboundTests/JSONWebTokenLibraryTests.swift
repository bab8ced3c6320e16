import CryptoExtras
import Testing
import Vocabulary

@testable import Inbound

/// Oracle: PyJWT (PyPI), which signs tokens that are read here, reads those that are signed here, and is asked for its
/// verdict on everything that is wrong. It judges times by the clock, so it is told not to.
@Suite(
    "What PyJWT says",
    .enabled(if: VendorLibrary.has("jwt"), "set POSTHOUSE_TEST_PYTHON to a Python with the package pyjwt"))
struct JSONWebTokenLibraryTests {
    typealias Fixtures = PubSubFixtures

    // MARK: Its tokens

    private struct Claims: Encodable {
        var claims = Fixtures.claims()
        var algorithm = "RS256"
        var keyID = "run-1"
        var key = Fixtures.privateKey.pkcs8PEMRepresentation
    }

    private static let signing = """
        import json, jwt, sys
        for line in open(sys.argv[1]):
            case = json.loads(line)
            key = None if case["algorithm"] == "none" else case["key"]
            print(jwt.encode(json.loads(case["claims"]), key, case["algorithm"], headers={"kid": case["keyID"]}))
        """

    @Test("Its tokens are taken here, and refused under another algorithm, key or claim")
    func read() throws {
        let other = try _RSA.Signing.PrivateKey(keySize: .bits2048).pkcs8PEMRepresentation
        var cases = [Claims(), Claims(claims: Fixtures.claims([("iss", "\"accounts.google.com\"")]))]
        let good = cases.count
        cases += ["PS256", "RS512", "none"].map { Claims(algorithm: $0) }
        cases += [
            Claims(algorithm: "HS256", key: "a secret of more than thirty-two bytes"), Claims(key: other),
            Claims(keyID: "other"), Claims(keyID: "vector-1"), Claims(claims: Fixtures.claims([("aud", "\"else\"")])),
            Claims(claims: Fixtures.claims([("email_verified", "false")])),
        ]
        let tokens = try VendorLibrary.run(Self.signing, cases)
        try #require(tokens.count == cases.count)
        for (number, token) in tokens.enumerated() {
            let isGood = JSONWebTokenTests.judge(token) == .authentic
            #expect(isGood == (number < good), "\(cases[number].algorithm) \(cases[number].keyID) \(token)")
        }
    }

    // MARK: Its verdicts

    private struct Token: Encodable {
        var token: String
        var keys = Fixtures.document
        var audience = Fixtures.audience
    }

    /// Prints `read` and the issuer, or `refused`.
    private static let reading = """
        import json, jwt, sys
        options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
        for line in open(sys.argv[1]):
            case = json.loads(line)
            try:
                keys = jwt.PyJWKSet.from_dict(json.loads(case["keys"]))
                key = keys[jwt.get_unverified_header(case["token"]).get("kid")]
                claims = jwt.decode(
                    case["token"], key, algorithms=["RS256"], audience=case["audience"], options=options)
                print("read", claims["iss"])
            except (jwt.PyJWTError, KeyError):
                print("refused")
        """

    @Test("It reads what the tests sign, and what a service account signs here")
    func made() throws {
        let account = try ServiceAccount(StoreRequestFixtures.account, readURL: StoreRequestFixtures.readURL)
        let assertion = try #require(account.assertion(for: "a scope", now: Fixtures.now))
        let cases = [
            Token(token: try Fixtures.token()), Token(token: Fixtures.vector),
            Token(token: assertion, audience: "https://oauth2.example.com/token"),
        ]
        let said = ["https://accounts.google.com", "https://accounts.google.com", "play@p.iam.gserviceaccount.com"]
        #expect(try VendorLibrary.run(Self.reading, cases) == said.map { "read " + $0 })
    }

    @Test("It refuses the tokens that are refused here")
    func faults() throws {
        let token = try Fixtures.token()
        let parts = token.split(separator: ".").map(String.init)
        let other = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let secret = Array(Fixtures.privateKey.publicKey.pemRepresentation.utf8)
        let faults = [
            "", "..", "\(parts[0]).\(parts[1])", token + ".x", "\(parts[0]).\(parts[1]).",
            "\(parts[0]).\(parts[1]).\(Fixtures.vector.split(separator: ".")[2])",
            try Fixtures.token(by: other), try Fixtures.token(header: #"{"alg":"RS256","kid":"vector-1"}"#),
            try Fixtures.token(header: #"{"alg":"RS256","kid":"other"}"#),
            try Fixtures.token(header: #"{"alg":"RS384","kid":"run-1"}"#),
            Fixtures.token(header: #"{"alg":"HS256","kid":"run-1"}"#, secret: secret),
            Fixtures.token(header: Fixtures.header, secret: secret),
            Fixtures.signingInput(#"{"alg":"none","kid":"run-1"}"#, Fixtures.claims()) + ".",
            try Fixtures.token(Fixtures.claims([("aud", "\"https://hooks.example.com/ingest/other\"")])),
            try Fixtures.token(Fixtures.claims([("aud", nil)])), try Fixtures.token("[]"),
            try Fixtures.token(header: #"{"alg":"RS256","kid":"run-1","crit":["x"],"x":1}"#),
        ]
        let verdicts = try VendorLibrary.run(Self.reading, faults.map { Token(token: $0) })
        #expect(verdicts == Array(repeating: "refused", count: faults.count))
        for fault in faults { #expect(JSONWebTokenTests.judge(fault) != .authentic, "\(fault)") }
    }
}
