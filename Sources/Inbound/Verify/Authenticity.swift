/// Whether a webhook comes from its source. Decided from the raw bytes, before any parsing.
package enum Authenticity: Hashable, Sendable {
    case authentic
    case refused(Refusal)
    /// Nothing is known that could decide it yet: the sender must try again. Answered 503.
    case unverifiable
    /// The same, but only because it names a key that the known keys lack and that may be new (`possiblyNew`).
    case unknownKey

    /// Why a webhook is answered 401. For the journal: it names headers, never their contents or the secret's.
    package enum Refusal: String, Error, Hashable, Sendable, CaseIterable {
        case missingSignature
        case malformedSignature
        case missingMessageID
        case missingTimestamp
        case malformedTimestamp
        case wrongSignature
        case staleTimestamp
        case missingToken
        case wrongToken
        case unsupportedAuthentication

        // Notifications that are JSON Web Signatures with their certificates in x5c (RFC 7515 section 4.1.6).
        case missingSignedPayload
        case malformedSignedPayload
        case unsupportedAlgorithm
        case wrongCertificateCount
        case malformedCertificate
        case unknownRoot
        case brokenChain
        case unfitCertificate
        case unmarkedCertificate
        case expiredCertificate
        case malformedPayloadSignature
        case wrongPayloadSignature
        case unreadablePayload
        case missingBundleID
        case foreignBundleID
        case foreignEnvironment

        // ID tokens of Google (OpenID Connect Core 1.0 section 2), signed as JSON Web Tokens (RFC 7519).
        case missingIDToken
        case malformedIDToken
        case wrongIDTokenAlgorithm
        case unknownIDTokenKey
        case wrongIDTokenSignature
        case wrongIssuer
        case wrongAudience
        case wrongSender
        case unverifiedSender
        case expiredIDToken
        case futureIDToken
    }
}

extension Authenticity.Refusal: CustomStringConvertible {
    package var description: String {
        switch self {
        case .missingSignature: "no signature header; posthouse-sources(7) names it"
        case .malformedSignature: "the signature header is not of the form that this kind of source sends"
        case .missingMessageID: "no message id header; posthouse-sources(7) names it"
        case .missingTimestamp: "no signed timestamp; posthouse-sources(7) says where it is"
        case .malformedTimestamp: "the signed timestamp is not 1 to 20 digits"
        case .wrongSignature: "the signature matches none of the source's secrets"
        case .staleTimestamp:
            """
            the signed timestamp is outside the source's freshness window; unless it is an old webhook, check the clocks of \
            this machine and of the sender
            """
        case .missingToken: "no token header; posthouse-sources(7) names it"
        case .wrongToken: "the token matches none of the source's secrets"
        case .unsupportedAuthentication: "this kind of source has no such authentication; check the source's auth key"
        case .missingSignedPayload:
            "the body has no signedPayload; choose version 2 of the server notifications in App Store Connect"
        case .malformedSignedPayload: "signedPayload is not a JSON Web Signature in compact form"
        case .unsupportedAlgorithm: "the signature's algorithm is not the one that this kind of source signs with"
        case .wrongCertificateCount: "the signature does not come with exactly three certificates (x5c)"
        case .malformedCertificate: "a certificate in x5c is not DER in base64 with padding"
        case .unknownRoot: "the root certificate in x5c is none of the source's; check the source's roots key"
        case .brokenChain:
            "the certificates in x5c are not a chain: leaf, intermediate and root do not sign one another"
        case .unfitCertificate:
            "a certificate in x5c is not for this use: see its basicConstraints, keyUsage, key and critical extensions"
        case .unmarkedCertificate: "a certificate in x5c lacks the extension by which Apple marks the App Store's own"
        case .expiredCertificate: "a certificate in x5c was not valid at the payload's signedDate"
        case .malformedPayloadSignature: "the signature is not the 64 bytes of ES256"
        case .wrongPayloadSignature: "the signature was not made with the key of the leaf certificate in x5c"
        case .unreadablePayload: "the signed payload is not one strict JSON object with a signedDate"
        case .missingBundleID: "the signed payload names no bundle id"
        case .foreignBundleID: "the payload's bundle id is none of the source's; check the source's bundle_ids key"
        case .foreignEnvironment:
            "the payload's environment is neither Sandbox nor Production; only these two come from the App Store"
        case .missingIDToken:
            "no Authorization header with an ID token; enable authentication for the push subscription at Google"
        case .malformedIDToken: "the Authorization header has no readable ID token"
        case .wrongIDTokenAlgorithm: "the ID token is not signed with RS256"
        case .unknownIDTokenKey: "the ID token names a key that is none of Google's"
        case .wrongIDTokenSignature: "the ID token was not signed with the key that it names"
        case .wrongIssuer: "the ID token was not issued by Google"
        case .wrongAudience:
            "the ID token was made for another audience than the source's; check the source's audience key"
        case .wrongSender:
            "the ID token was made for another service account than the source's; check the source's sender key"
        case .unverifiedSender: "the ID token's service account is not verified"
        case .expiredIDToken: "the ID token has expired"
        case .futureIDToken: "the ID token was issued in the future; check this machine's clock"
        }
    }
}
