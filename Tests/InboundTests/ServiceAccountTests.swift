import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Oracle: RFC 7523 and Google's page "Using OAuth 2.0 for Server to Server Applications"; the public key checks the
/// signature.
@Suite("How a service account proves itself")
struct ServiceAccountTests {
    @Test("The assertion has Google's claims and the account's signature")
    func assertion() throws {
        let account = try ServiceAccount(StoreRequestFixtures.account, readURL: StoreRequestFixtures.readURL)
        #expect(account.tokenURL == StoreRequestFixtures.tokenURL)
        let text = try #require(account.assertion(for: "a scope", now: PubSubFixtures.now))
        let token = try JSONWebToken(Array(text.utf8))
        #expect(token.keyID == "run-1")
        #expect(token.isSigned(by: try #require(PubSubFixtures.keys.key("run-1"))))
        #expect(try token.claims.string("iss") == "play@p.iam.gserviceaccount.com")
        #expect(try token.claims.string("scope") == "a scope")
        #expect(try token.claims.string("aud") == "https://oauth2.example.com/token")
        #expect(try token.claims.integer("iat") == 1_790_841_660)
        #expect(try token.claims.integer("exp") == 1_790_845_260)
    }

    static let faults: [(fields: BodyEdit.Fields, reason: String)] = [
        ([(key: "type", raw: #""authorized_user""#)], "its type is not service_account"),
        ([(key: "client_email", raw: nil)], "client_email is missing"),
        ([(key: "token_uri", raw: nil)], "token_uri is missing, or no https:// URL"),
        ([(key: "token_uri", raw: #""http://elsewhere.example.com/""#)], "token_uri is missing, or no https:// URL"),
        ([(key: "private_key", raw: #""-----BEGIN PRIVATE KEY-----\nTUlJ\n-----END PRIVATE KEY-----\n""#)], keyReason),
        ([(key: "private_key", raw: nil)], keyReason),
        ([(key: "private_key", raw: "7")], "it is not the JSON document of a service account's key"),
    ]
    private static let keyReason = "private_key is missing, or no RSA key in PEM with 2048 bits or more"

    @Test("A document that is none of a service account's key is refused with what is wrong in it")
    func unusable() {
        for (fields, reason) in Self.faults {
            #expect(throws: ServiceAccount.Unusable(reason: reason)) {
                try ServiceAccount(StoreRequestFixtures.account(fields), readURL: StoreRequestFixtures.readURL)
            }
        }
        #expect(throws: ServiceAccount.Unusable(reason: "it is not the JSON document of a service account's key")) {
            try ServiceAccount(Secret(Array("AIza-a-key".utf8)), readURL: StoreRequestFixtures.readURL)
        }
    }

    @Test("A token is renewed two minutes before its end, a short one at its half")
    func lifetimes() throws {
        func token(_ answer: String) -> AccessToken? { AccessToken(Array(answer.utf8), now: .seconds(10)) }
        let hour = try #require(token(#"{"access_token":"t","expires_in":3600}"#))
        #expect(hour.renewAt == .seconds(3_490) && hour.endsAt == .seconds(3_610))
        let short = try #require(token(#"{"access_token":"t","expires_in":100}"#))
        #expect(short.renewAt == .seconds(60) && short.endsAt == .seconds(110))
        let silent = try #require(token(#"{"access_token":"t"}"#))
        #expect(silent.endsAt == .seconds(310))
        let odd = try #require(token(#"{"access_token":"t","expires_in":-5}"#))
        #expect(odd.endsAt == .seconds(10))
        for none in ["", "[]", "{}", #"{"access_token":""}"#, #"{"access_token":7}"#, #"{"access_token":"a\nb"}"#] {
            #expect(token(none) == nil, "\(none)")
        }
    }
}
