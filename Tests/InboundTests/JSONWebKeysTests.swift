import CryptoExtras
import Testing

@testable import Inbound

/// Oracle: RFC 7517 and RFC 7518 section 6.3; a key made with openssl.
@Suite("A JSON Web Key Set")
struct JSONWebKeysTests {
    typealias Fixtures = PubSubFixtures

    static func read(_ document: String) throws -> JSONWebKeys { try JSONWebKeys(Array(document.utf8)) }

    /// What is wrong with a document; nil: it has a key that can be used.
    static func reason(_ document: String) -> String? {
        do {
            _ = try JSONWebKeys(Array(document.utf8))
            return nil
        } catch {
            return error.reason
        }
    }

    @Test("Keys are found by their id, byte for byte")
    func ids() throws {
        let keys = try Self.read(Fixtures.document)
        #expect(keys.count == 2)
        let known = ["run-1", "vector-1", "", "Run-1", "run-1 ", "other"].filter { keys.key($0) != nil }
        #expect(known == ["run-1", "vector-1"])
        let entry = Fixtures.entry("\u{E9}", Fixtures.vectorModulus)
        let accents = try Self.read("{\"keys\":[\(entry)]}")
        let found = ["\u{E9}", "e\u{301}"].map { accents.key($0) != nil }
        #expect(found == [true, false])
    }

    @Test("Keys of another type, use or algorithm are left out, and so are those that cannot be read")
    func leftOut() throws {
        let modulus = Fixtures.vectorModulus
        let others = [
            #"{"kty":"EC","kid":"a","crv":"P-256","x":"AA","y":"AA"}"#, #"{"kty":"oct","kid":"b","k":"AAAA"}"#,
            Fixtures.entry("c", modulus, #","use":"enc""#), Fixtures.entry("d", modulus, #","alg":"RS512""#),
            #"{"kty":"RSA","n":"\#(modulus)","e":"AQAB"}"#, Fixtures.entry("", modulus), Fixtures.entry("e", "AQAB"),
            Fixtures.entry("f", modulus + "="), Fixtures.entry("g", "+\(modulus.dropFirst())"),
            Fixtures.entry("h", ""), #"{"kty":"RSA","kid":"i","n":"\#(modulus)","e":"AQ"}"#,
            #"{"kty":"RSA","kid":"j","n":"\#(modulus)","e":"AQABAQAB"}"#, #"{"kty":"RSA","kid":"k","n":7,"e":"AQAB"}"#,
            #"{"kty":"RSA","kid":7,"n":"\#(modulus)","e":"AQAB"}"#, #"{"kty":"RSA","kid":"l"}"#, "7", "null", "{}",
            Fixtures.entry("m", String(modulus.prefix(171))),
            Fixtures.entry("n", String(repeating: "_", count: 2_000)),
        ]
        let document = "{\"keys\":[" + (others + [Fixtures.entry("good", modulus, "")]).joined(separator: ",") + "]}"
        let keys = try Self.read(document)
        let isThere = keys.key("good") != nil
        #expect(keys.count == 1 && isThere)
        for other in others { #expect(Self.reason("{\"keys\":[\(other)]}") != nil, "\(other.prefix(40))") }
    }

    @Test("A key checks what its owner signed, and nothing else")
    func signatures() throws {
        let key = try #require(Fixtures.keys.key(Fixtures.keyID))
        let text = Array("text".utf8)
        let signature = Array(
            try Fixtures.privateKey.signature(for: text, padding: .insecurePKCS1v1_5).rawRepresentation)
        #expect(key.isValid(signature, over: text))
        #expect(!key.isValid(signature, over: Array("other".utf8)))
        for wrong in [[], [0], Array(signature.dropLast()), signature + [0], [0] + signature] as [[UInt8]] {
            #expect(!key.isValid(wrong, over: text))
        }
    }

    @Test("Of two keys with one id the first counts")
    func sameID() throws {
        let entries = [Fixtures.modulus, Fixtures.vectorModulus].map { Fixtures.entry("x", $0) }
        let keys = try Self.read("{\"keys\":[" + entries.joined(separator: ",") + "]}")
        let key = try #require(keys.key("x"))
        let text = Array("text".utf8)
        let signature = try Fixtures.privateKey.signature(for: text, padding: .insecurePKCS1v1_5)
        #expect(key.isValid(Array(signature.rawRepresentation), over: text))
    }

    @Test("A document without a key that can be used says why")
    func unusable() {
        let entry = Fixtures.entry("a", Fixtures.vectorModulus)
        for document in ["", "[]", "{", "<html>", #"{"keys":{}}"#, #"{"keys":[7}"#] {
            #expect(Self.reason(document)?.hasPrefix("the key set cannot be read: ") == true, "\(document)")
        }
        for document in ["{}", #"{"keys":[]}"#, #"{"keys":null}"#, #"{"Keys":[\#(entry)]}"#] {
            #expect(Self.reason(document) == "the key set has no RSA key for signatures with RS256")
        }
        let many = Array(repeating: entry, count: 33).joined(separator: ",")
        #expect(Self.reason(#"{"keys":[\#(many)]}"#) == "the key set has more than 32 keys")
        let long = #"{"keys":[\#(entry)]}"# + String(repeating: " ", count: JSONWebKeys.documentBytesMax)
        #expect(Self.reason(long) == "the key set is longer than 65536 bytes")
    }
}
