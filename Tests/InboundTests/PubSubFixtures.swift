import Crypto
import CryptoExtras
import Vocabulary

@testable import Inbound

/// Tokens as Google signs them for Pub/Sub, by a key made for one run, and one token that was made elsewhere.
enum PubSubFixtures {
    static let audience = "https://hooks.example.com/ingest/google"
    static let sender = "push@example-project.iam.gserviceaccount.com"
    static let issuedAt: Int64 = 1_790_841_600
    /// A minute after the token was issued.
    static let now = Timestamp(milliseconds: 1_790_841_660_000)
    static let keyID = "run-1"
    static let privateKey = try! _RSA.Signing.PrivateKey(keySize: .bits2048)

    /// The modulus of the key that signed `vector`.
    static let vectorModulus = [
        "nkKDj0-ws-_E6UhSINfy5cJfL5tlFC5cgf4JyKx3bUmorg-XtGMeVDeAqjuH8_Wrr-O6gJGuAKhg04XLaWsNr7G3",
        "DMQNPvAbTi9A1bMaVqIU5WvKGdiDWbASA0ZZcjh6ki-3ON5SQlT1i1vzRd9QVCF2KTrvs4Yd1ilJGoha3h05J8cg",
        "nOOuIb6LhmKLc_5ve0NwIcdnBmsynTfnPEz6FVw-HUPqZsltB_dUgIbW19nD7eXCXDKTXNhssslimWL0NL-EKu01",
        "i7Wqd9TCgf-NBE3IzYIqc23ytkua7NBwej6rqaNIwp9ySAcMGmqNMKc9jOrOAS7yS_7SuSnDXAIU6w",
    ].joined()
    /// Made with `openssl dgst -sha256 -sign`: issued at 1790841600, expires at 1790845200.
    static let vector = [
        "eyJhbGciOiJSUzI1NiIsImtpZCI6InZlY3Rvci0xIiwidHlwIjoiSldUIn0",
        ".",
        "eyJhdWQiOiJodHRwczovL2hvb2tzLmV4YW1wbGUuY29tL2luZ2VzdC9nb29nbGUiLCJhenAiOiIxMTM3NzQyNjQ0",
        "NjMwMzgzMjE5NjQiLCJlbWFpbCI6InB1c2hAZXhhbXBsZS1wcm9qZWN0LmlhbS5nc2VydmljZWFjY291bnQuY29t",
        "IiwiZW1haWxfdmVyaWZpZWQiOnRydWUsImV4cCI6MTc5MDg0NTIwMCwiaWF0IjoxNzkwODQxNjAwLCJpc3MiOiJo",
        "dHRwczovL2FjY291bnRzLmdvb2dsZS5jb20iLCJzdWIiOiIxMTM3NzQyNjQ0NjMwMzgzMjE5NjQifQ",
        ".",
        "dvO4erNMUMoms843lYIRozNTLDS6KD9yM93RMiSADf5eMtxV60e3YkBk_yi-8T46db-fL3ZlB6YcrsijixKjhwRF",
        "H6OYGzYwmkz1uOIHVthi9USYH6bjB7tRXMKgo9E0g-a4eQIEQ8L5XB9sFfvFJhT-2VgxUhy5NFLmq9ABXxQzd_iP",
        "VwVKbHe8YynlSH0MYFhWwXaTEzUg1a7XJfx9U2CgsBtsWZ92UPEykalc44yor1KbQivEDUGTzJjjdmZVpgKq__rU",
        "dh0JJfTQ3L33nI8WPqB_KQDxA1Zi4FgHkCGZq_nSKC2vlzsuhQ5Os_yunqF7hPZsNQ7V2KUrdwCqBQ",
    ].joined()

    // MARK: Keys

    /// A key set with both keys.
    static let document = #"{"keys":[\#(entry(keyID, modulus)),\#(entry("vector-1", vectorModulus))]}"#
    static let keys = try! JSONWebKeys(Array(document.utf8))

    static let modulus: String = {
        let numbers = try! privateKey.publicKey.getKeyPrimitives()
        return base64url(Array(numbers.modulus))
    }()

    static func entry(_ id: String, _ modulus: String, _ more: String = #","alg":"RS256","use":"sig""#) -> String {
        #"{"kty":"RSA","kid":"\#(id)","n":"\#(modulus)","e":"AQAB"\#(more)}"#
    }

    static let lookup: JSONWebKeyLookup = { id in
        if let key = keys.key(id) { .key(key) } else { .unknown }
    }

    // MARK: Tokens

    static let header = #"{"alg":"RS256","kid":"run-1","typ":"JWT"}"#

    /// The claims of a token, with members (raw JSON values) set or, where nil, taken out.
    static func claims(_ fields: BodyEdit.Fields = []) -> String {
        let whole =
            #"{"aud":"\#(audience)","azp":"113774264463038321964","email":"\#(sender)","email_verified":true,"#
            + #""exp":1790845200,"iat":1790841600,"iss":"https://accounts.google.com","sub":"113774264463038321964"}"#
        return BodyEdit.edit(whole, fields)
    }

    static func base64url(_ bytes: [UInt8]) -> String {
        let text = Base64.encode(bytes).utf8.compactMap { byte -> UInt8? in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            case UInt8(ascii: "="): nil
            default: byte
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    static func signingInput(_ header: String, _ claims: String) -> String {
        base64url(Array(header.utf8)) + "." + base64url(Array(claims.utf8))
    }

    /// A token with RS256 over any header and claims.
    static func token(
        _ claims: String = claims(), header: String = header, by key: _RSA.Signing.PrivateKey = privateKey
    ) throws -> String {
        let input = signingInput(header, claims)
        let signature = try key.signature(for: Array(input.utf8), padding: .insecurePKCS1v1_5)
        return input + "." + base64url(Array(signature.rawRepresentation))
    }

    /// A token with an HMAC (RFC 7518 section 3.2) under `secret`.
    static func token(header: String, secret: [UInt8]) -> String {
        let input = signingInput(header, claims())
        let code = HMAC<SHA256>.authenticationCode(for: Array(input.utf8), using: SymmetricKey(data: secret))
        return input + "." + base64url(Array(code))
    }
}
