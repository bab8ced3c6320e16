internal import HTTPServer
internal import Vocabulary

/// Authorises requests by bearer tokens (RFC 6750) with scopes. Without a configured token no request is allowed.
struct Access: Sendable {
    private let tokens: [APIToken]

    init(_ tokens: [APIToken]) { self.tokens = tokens }

    /// Compares every configured token completely, so that the time reveals only the length.
    func token(of head: IncomingHead) throws(APIFailure) -> APIToken {
        let fields = head.all("authorization")
        guard let field = fields.first, fields.count == 1, let given = Self.bearer(field) else {
            throw Self.unauthorized(head, "a bearer token is needed: Authorization: Bearer TOKEN", challenge: "")
        }
        var found: APIToken?
        for token in tokens where token.token.matches(given) { found = found ?? token }
        guard let found else {
            throw Self.unauthorized(head, "the token is not known here", challenge: ", error=\"invalid_token\"")
        }
        return found
    }

    func require(_ operation: APIOperation, of token: APIToken) throws(APIFailure) {
        let scope = operation.scope
        guard !token.scopes.contains(scope) else { return }
        throw APIFailure(
            403, .request, .insufficientScope, "the token lacks the scope \(scope.rawValue)",
            headers: [
                (
                    "www-authenticate",
                    "Bearer realm=\"posthouse\", error=\"insufficient_scope\", scope=\"\(scope.rawValue)\""
                )
            ])
    }

    private static func unauthorized(_ head: IncomingHead, _ message: String, challenge: String) -> APIFailure {
        APIFailure(
            401, .request, head.path.hasPrefix("/v3") ? .controlUnauthorized : .unauthorized, message,
            headers: [("www-authenticate", "Bearer realm=\"posthouse\"" + challenge)])
    }

    /// Reads the scheme in upper or lower case, blanks, then the token.
    private static func bearer(_ field: String) -> [UInt8]? {
        let scheme = "bearer "
        guard field.utf8.count > scheme.utf8.count, field.prefix(scheme.count).lowercased() == scheme else {
            return nil
        }
        let token = field.utf8.dropFirst(scheme.utf8.count).drop { $0 == UInt8(ascii: " ") }
        return token.isEmpty ? nil : Array(token)
    }
}

/// Chooses the source of a request: the token's own takes precedence.
struct SourceChoice: Sendable {
    private let sources: [Source]

    init(_ sources: [Source]) { self.sources = sources }

    func contains(_ name: String) -> Bool { sources.contains { $0.name == name } }

    /// Nothing is configured or stored under the name.
    static var unknown: APIFailure {
        APIFailure(404, .resource, .sourceNotConfigured, "no [[source]] of this name is configured")
    }

    /// The one source to read; nil: all of them.
    static func shown(_ named: String?, to token: APIToken) throws(APIFailure) -> String? {
        guard let own = token.source else { return named }
        guard named == nil || named == own else {
            throw APIFailure(403, .request, .sourceForbidden, "the token is bound to another source")
        }
        return own
    }

    /// The one source to write: the token's, else the named one, else the only one in which installs and identities
    /// hold together.
    func changed(_ named: String?, by token: APIToken) throws(APIFailure) -> Source {
        if let name = try Self.shown(named, to: token) {
            guard let source = sources.first(where: { $0.name == name }) else { throw Self.unknown }
            return source
        }
        let candidates = sources.filter { $0.ownership == .installAndIdentity }
        guard let source = candidates.first else {
            throw APIFailure(
                404, .resource, .sourceNotConfigured,
                "no [[source]] with ownership = \"install_and_identity\" is configured; name another one by source=NAME"
            )
        }
        guard candidates.count == 1 else {
            let names = candidates.map(\.name).joined(separator: ", ")
            throw APIFailure(
                400, .request, .sourceAmbiguous,
                "several sources may be meant (\(names)): add source=NAME to the query, or bind the token to one")
        }
        return source
    }
}
