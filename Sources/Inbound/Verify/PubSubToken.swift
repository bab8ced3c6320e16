internal import JSONText
internal import Vocabulary

/// The ID token of a Pub/Sub push (cloud.google.com/pubsub/docs/authenticate-push-subscriptions):
/// `Authorization: Bearer <JSON Web Token>`, signed by Google for the service account of the push subscription.
///
/// The audience alone proves nothing: anybody with a service account at Google can have a token made for any audience.
/// So the service account's verified address is compared, too. A token lives for an hour, is sent with many messages
/// and is not bound to a body; a repeated message is recognised by its id.
enum PubSubToken {
    private static let header = "Authorization"
    private static let scheme = "bearer "
    /// Google's names for itself. Most of its tokens have the first, some the second.
    private static let issuers = ["https://accounts.google.com", "accounts.google.com"]
    /// Seconds by which this machine's clock and Google's may differ.
    static let clockLeewaySeconds: Int64 = 60

    /// - Parameter now: this machine's wall clock.
    static func authenticate(
        header: (String) -> String?, settings: GooglePlaySettings, keys: JSONWebKeyLookup, now: Timestamp
    ) -> Authenticity {
        guard let given = header(Self.header), !given.isEmpty else { return .refused(.missingIDToken) }
        guard let text = bearer(in: given) else { return .refused(.malformedIDToken) }
        let token: JSONWebToken
        do throws(JSONWebToken.Malformed) {
            token = try JSONWebToken(text)
        } catch {
            switch error {
            case .unreadable: return .refused(.malformedIDToken)
            case .algorithm: return .refused(.wrongIDTokenAlgorithm)
            }
        }
        switch keys(token.keyID) {
        case .unverifiable: return .unverifiable
        case .possiblyNew: return .unknownKey
        case .unknown: return .refused(.unknownIDTokenKey)
        case .key(let key):
            // Only a signed claim is worth a look.
            guard token.isSigned(by: key) else { return .refused(.wrongIDTokenSignature) }
        }
        if let refusal = refusal(of: token.claims, settings: settings, now: now) { return .refused(refusal) }
        return .authentic
    }

    /// What follows the scheme, whose case does not matter (RFC 9110 section 11.1); nil for another scheme.
    private static func bearer(in field: String) -> [UInt8]? {
        let bytes = Array(field.utf8)
        let start = bytes.prefix(scheme.utf8.count).map(\.asciiLowercased)
        return start.elementsEqual(scheme.utf8) ? Array(bytes.dropFirst(scheme.utf8.count)) : nil
    }

    /// Nil: the claims are those of the source's push subscription, and it is their time.
    private static func refusal(
        of claims: JSONObject, settings: GooglePlaySettings, now: Timestamp
    ) -> Authenticity.Refusal? {
        guard let issuer = text("iss", in: claims), issuers.contains(where: { issuer.hasSameBytes(as: $0) }) else {
            return .wrongIssuer
        }
        // Google sends one text; a list is not what was configured.
        guard let audience = text("aud", in: claims),
            settings.audiences.contains(where: { audience.hasSameBytes(as: $0) })
        else { return .wrongAudience }
        guard let sender = text("email", in: claims), settings.sender.hasSameBytes(as: sender) else {
            return .wrongSender
        }
        guard (try? claims.bool("email_verified")) == true else { return .unverifiedSender }
        guard let expiry = seconds("exp", in: claims), let issue = seconds("iat", in: claims) else {
            return .malformedIDToken
        }
        // Nothing is added to a claim, so that none can overflow.
        let nowSeconds = now.milliseconds / 1_000
        if expiry < nowSeconds - clockLeewaySeconds { return .expiredIDToken }
        return issue > nowSeconds + clockLeewaySeconds ? .futureIDToken : nil
    }

    /// Nil if the claim is absent or no string.
    private static func text(_ key: String, in claims: JSONObject) -> String? { try? claims.string(key) }

    /// Nil if the claim is absent or no integer.
    private static func seconds(_ key: String, in claims: JSONObject) -> Int64? { try? claims.integer(key) }
}
