/// Whether a webhook comes from its source. Decided from the raw bytes, before any parsing.
package enum Authenticity: Hashable, Sendable {
    case authentic
    case refused(Refusal)

    /// Why a webhook is answered 401. For the journal: it names headers, never their contents or the secret's.
    package enum Refusal: String, Hashable, Sendable, CaseIterable {
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
    }
}

extension Authenticity.Refusal: CustomStringConvertible {
    package var description: String {
        switch self {
        case .missingSignature: "no signature header"
        case .malformedSignature: "the signature header is not of the form that this kind of source sends"
        case .missingMessageID: "no message id header"
        case .missingTimestamp: "no signed timestamp"
        case .malformedTimestamp: "the signed timestamp is not 1 to 20 digits"
        case .wrongSignature: "the signature matches none of the source's secrets"
        case .staleTimestamp: "the signed timestamp is outside the source's freshness window"
        case .missingToken: "no token header"
        case .wrongToken: "the token matches none of the source's secrets"
        case .unsupportedAuthentication: "this kind of source has no such authentication; check the source's auth key"
        }
    }
}
