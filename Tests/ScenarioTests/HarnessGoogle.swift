import Crypto
import CryptoExtras
import Foundation

/// Google's servers in this process: the keys of its tokens, access tokens, and the Google Play Developer API; and the
/// pushes of Pub/Sub, whose tokens those keys sign. The shapes are those of Google's documents; nothing of the relay is
/// asked.
final class Google: Sendable {
    typealias Answer = (status: Int, body: String)

    static let audience = "https://hooks.example.com/ingest/play"
    static let sender = "push@example-project.iam.gserviceaccount.com"
    private static let key = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    private struct State: Sendable {
        var answers: [String: Answer] = [:]
        /// Tokens about which no answer goes out.
        var held: Set<String> = []
        /// What the API answers about every purchase; nil: what it knows of it.
        var outage: Int?
        var keysStatus = 200
        var keyID = "key-1"
    }

    let receiver: Receiver
    private let state = Monitor(State())

    init() throws {
        let document = try Self.keySet(id: "key-1")
        let state = state
        receiver = try Receiver(secrets: []) { request in
            let path = request.request.start.split(separator: " ").dropFirst().first.map(String.init) ?? ""
            let (outage, keysStatus, answers) = state.read { ($0.outage, $0.keysStatus, $0.answers) }
            switch path {
            case "/certs":
                return .status(keysStatus, headers: ["cache-control: public, max-age=3600"], body: document)
            case "/token":
                return .status(200, body: #"{"access_token":"ya29.test","expires_in":3599,"token_type":"Bearer"}"#)
            default:
                if let outage { return .status(outage, body: "{}") }
                guard request.request["authorization"] == "Bearer ya29.test" else { return .status(401) }
                let token = path.split(separator: "/").last.map(String.init) ?? ""
                let answer = answers[token] ?? (404, Self.unknownToken)
                _ = state.wait(300) { !$0.held.contains(token) }
                return .status(answer.status, body: answer.body)
            }
        }
    }

    private var url: String { "http://127.0.0.1:\(receiver.port)" }

    /// What the API knows of a purchase.
    func know(_ token: String, _ answer: Answer) { state.change { $0.answers[token] = answer } }

    /// The API takes questions about a purchase, and answers them once it is released.
    func hold(_ token: String) { state.change { _ = $0.held.insert(token) } }
    func release(_ token: String) { state.change { _ = $0.held.remove(token) } }

    /// The API answers this status to everything; nil: it works.
    func fail(_ status: Int?) { state.change { $0.outage = status } }

    func failKeys(_ status: Int) { state.change { $0.keysStatus = status } }

    /// The tokens that the API was asked about, in order.
    var asked: [String] {
        receiver.received.map(\.request.start).filter { $0.contains("/tokens/") }
            .compactMap { $0.split(separator: " ")[1].split(separator: "/").last.map(String.init) }
    }

    func count(_ path: String) -> Int {
        receiver.received.count { $0.request.start.split(separator: " ").dropFirst().first == path[...] }
    }

    // MARK: The source

    /// `[[source]]` named play.
    func source(asksAPI: Bool = true, in directory: ScratchDirectory, _ more: [String: String] = [:]) throws
        -> Relay.SourceTable
    {
        var settings = [
            "packages": #"["com.example.app"]"#, "audience": "\"\(Self.audience)\"", "sender": "\"\(Self.sender)\"",
            "keys": "\"\(url)/certs\"", "allow_private": "true",
        ]
        if asksAPI {
            settings["api"] = "{ file = \"\(try directory.write("account.json", try account()))\" }"
            settings["api_url"] = "\"\(url)\""
        }
        return .init(name: "play", kind: "google-play", secrets: [], settings: settings.merging(more) { $1 })
    }

    private func account() throws -> String {
        let document = [
            "type": "service_account", "private_key_id": "k", "client_email": "play@p.iam.gserviceaccount.com",
            "private_key": try Self.key.get().pemRepresentation, "token_uri": url + "/token",
        ]
        // In another order it would be a changed file.
        let text = try JSONSerialization.data(withJSONObject: document, options: .sortedKeys)
        return String(decoding: text, as: UTF8.self)
    }

    // MARK: Pushes

    static func keySet(id: String) throws -> String {
        let numbers = try key.get().publicKey.getKeyPrimitives()
        let (n, e) = (base64url(numbers.modulus), base64url(numbers.publicExponent))
        return #"{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":"\#(id)","n":"\#(n)","e":"\#(e)"}]}"#
    }

    /// The header of a push, signed now.
    static func authorization(audience: String = audience, keyID: String = "key-1") throws -> [(String, String)] {
        [("Authorization", "Bearer " + (try token(keyID: keyID, ["aud": "\"\(audience)\""])))]
    }

    /// An ID token.
    /// - Parameters:
    ///   - other: claims in place of the good ones, as JSON; nil: the claim is left out.
    ///   - seconds: since it was issued.
    ///   - sign: nil: with Google's key.
    static func token(
        algorithm: String = "RS256", keyID: String = "key-1", _ other: [String: String?] = [:], seconds: Int = 0,
        sign: ((_ input: Data) throws -> Data)? = nil
    ) throws -> String {
        let issuedAt = Int(Date().timeIntervalSince1970) - seconds
        let good: [String: String?] = [
            "aud": "\"\(audience)\"", "email": "\"\(sender)\"", "email_verified": "true",
            "exp": "\(issuedAt + 3_600)", "iat": "\(issuedAt)", "iss": #""https://accounts.google.com""#,
            "sub": #""1""#,
        ]
        let claims = good.merging(other) { $1 }.compactMap { name, value in value.map { "\"\(name)\":\($0)" } }
        let header = #"{"alg":"\#(algorithm)","kid":"\#(keyID)","typ":"JWT"}"#
        let body = "{" + claims.joined(separator: ",") + "}"
        let input = base64url(Data(header.utf8)) + "." + base64url(Data(body.utf8))
        let signature =
            try sign?(Data(input.utf8))
            ?? key.get().signature(for: Data(input.utf8), padding: .insecurePKCS1v1_5).rawRepresentation
        return input + "." + base64url(signature)
    }

    /// The key by which tokens are verified, as PEM.
    static func publicKey() throws -> String { try key.get().publicKey.pemRepresentation }

    static func base64url(_ data: Data) -> String {
        data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// A push about a subscription.
    static func push(_ type: Int, _ token: String, id: String, at: Int64 = Webhook.epoch, attempt: Int = 1) -> String {
        push(
            #""subscriptionNotification":{"version":"1.0","notificationType":\#(type),"purchaseToken":"\#(token)"}"#,
            id: id, at: at, attempt: attempt)
    }

    static func push(_ member: String, id: String, at: Int64 = Webhook.epoch, attempt: Int = 1) -> String {
        let notification =
            #"{"version":"1.0","packageName":"com.example.app","eventTimeMillis":"\#(at)",\#(member)}"#
        return push(data: Data(notification.utf8).base64EncodedString(), id: id, attempt: attempt)
    }

    /// - Parameter data: the notification in base64.
    static func push(data: String, id: String, attempt: Int = 1) -> String {
        #"{"message":{"data":"\#(data)","messageId":"\#(id)","message_id":"\#(id)"},"#
            + #""subscription":"projects/p/subscriptions/s","deliveryAttempt":\#(attempt)}"#
    }

    /// The name of a purchase: the first 12 characters of its first token, a dot, and half of its SHA-256
    /// (posthouse-sources(7), "Google Play").
    static func name(of token: String) -> String {
        let hash = SHA256.hash(data: Data(token.utf8)).prefix(16).map { String(format: "%02x", $0) }.joined()
        return "\(token.prefix(12)).\(hash)"
    }

    // MARK: Answers of the API

    /// An answer of purchases.subscriptionsv2.get.
    static func state(_ state: String = "ACTIVE", account: String? = nil, until: String = end, _ more: String...)
        -> Answer
    {
        var members = [
            #""subscriptionState":"SUBSCRIPTION_STATE_\#(state)""#, #""startTime":"2026-01-15T08:00:00Z""#,
            #""lineItems":[{"productId":"plus","expiryTime":"\#(until)","latestSuccessfulOrderId":"GPA.1","#
                + #""autoRenewingPlan":{"autoRenewEnabled":true},"offerDetails":{"basePlanId":"monthly"}}]"#,
        ]
        if let account {
            members.append(#""externalAccountIdentifiers":{"obfuscatedExternalAccountId":"\#(account)"}"#)
        }
        return (200, "{" + (members + more).joined(separator: ",") + "}")
    }

    static let unknownToken = #"{"error":{"code":404,"errors":[{"reason":"purchaseTokenNotFound"}]}}"#
    static let end = "2099-01-15T08:00:00Z"
}
