internal import HTTPServer
internal import JSONText
internal import Vocabulary

/// Error codes by which a client can decide; the messages beside them are for people.
enum ErrorCode: String, CaseIterable {
    case unauthorized
    /// `unauthorized` under /v3.
    case controlUnauthorized = "control_unauthorized"
    case insufficientScope = "insufficient_scope"
    case sourceForbidden = "source_forbidden"
    case sourceNotConfigured = "source_not_configured"
    case sourceAmbiguous = "source_ambiguous"
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case invalidParameter = "invalid_parameter"
    case invalidBody = "invalid_body"
    case invalidEntitlementData = "invalid_entitlement_data"
    case bodyTooLarge = "body_too_large"
    case userNotFound = "user_not_found"
    case userAlreadyExists = "user_already_exists"
    case userAlreadyHasIdentity = "user_already_has_identity"
    case identityAlreadyExists = "identity_already_exists"
    case unavailable
}

/// A request that is answered with an error. No message quotes a token or a body, at most the name of a parameter.
struct APIFailure: Error {
    /// Whether the request itself is wrong, or the state of what it names does not allow it.
    enum Kind: String, CaseIterable {
        case request
        case resource
    }

    let status: Int
    let kind: Kind
    let code: ErrorCode
    let message: String
    let headers: [(String, String)]
    /// The cause, for the journal; never sent.
    var cause: String?

    init(
        _ status: Int, _ kind: Kind, _ code: ErrorCode, _ message: String, headers: [(String, String)] = []
    ) {
        self.status = status
        self.kind = kind
        self.code = code
        self.message = message
        self.headers = headers
    }

    /// `{"error": {"type": …, "code": …, "message": …}}`, the same envelope everywhere.
    var answer: HTTPAnswer {
        let body = JSONWriter.object { json in
            json.member("error", object: self) { failure, json in
                json.member("type", failure.kind.rawValue)
                json.member("code", failure.code.rawValue)
                json.member("message", failure.message)
            }
        }
        return .json(status, body, headers: [("cache-control", "no-store")] + headers)
    }

    static func parameter(_ message: String) -> APIFailure { APIFailure(400, .request, .invalidParameter, message) }

    static func body(_ message: String) -> APIFailure { APIFailure(400, .request, .invalidBody, message) }

    static let notFound = APIFailure(404, .request, .notFound, "there is nothing under this path")

    static func bodyTooLarge(bytesMax: Int) -> APIFailure {
        APIFailure(413, .request, .bodyTooLarge, "the body of a request may have at most \(bytesMax) bytes here")
    }

    /// Nothing is known to have happened: the client may retry.
    static func unavailable(_ message: String, after seconds: Int = APILimits.retryAfterSeconds) -> APIFailure {
        APIFailure(503, .resource, .unavailable, message, headers: [("retry-after", String(seconds))])
    }

    static let busy = unavailable("too many requests wait for the database; try again")
    static let databaseAway = unavailable("the database did not answer; try again")
    static let tooSlow = unavailable("the answer took too long; try again")
}
