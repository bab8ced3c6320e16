internal import HTTPServer
internal import JSONText
internal import Ledger
internal import Vocabulary

/// An identity and the install that was the first to identify as it.
extension Backend {
    func readIdentity(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let view = try version3(call)
        let id = call.route.names[0]
        guard let install = try await install(identifiedAs: id, in: view, environment: view.environment) else {
            throw APIFailure(404, .resource, .notFound, "identity not found")
        }
        return Self.answer(identity: id, install: install.id)
    }

    func createIdentity(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let view = try version3(call)
        let id = call.route.names[0]
        let body = try RequestBody(call.body, mayBeAbsent: true)
        if let user = try body.identifier("user_id") { return try await link(id, to: user, in: view, for: call) }
        let scope = view.scope(view.environment ?? EnvironmentChoice.usual)
        guard try await install(identifiedAs: id, in: view, environment: scope.environment) == nil else {
            throw Self.linkedToAnother
        }
        // The link alone makes a new install known. Registered before, it would be nobody's if the link then failed.
        return try await link(id, to: Identifier.random().hex, in: view, scope: scope, for: call)
    }

    private func link(
        _ id: String, to user: String, in view: Version3Source, for call: Call
    ) async throws(APIFailure) -> HTTPAnswer {
        guard let user = try await knownUser(user, in: view) else {
            throw APIFailure(400, .resource, .userNotFound, "user not found")
        }
        let scope = view.scope(user.environment)
        if let linked = try await install(identifiedAs: id, in: view, environment: user.environment) {
            guard linked.id.hasSameBytes(as: user.id) else { throw Self.linkedToAnother }
            // The request was repeated, for example after a lost answer.
            return Self.answer(identity: id, install: user.id)
        }
        let identity = try await identity(of: user, in: view)
        guard identity.own == nil, identity.current == nil else {
            throw Self.hasIdentity
        }
        return try await link(id, to: user.id, in: view, scope: scope, for: call)
    }

    /// Links an identity. Of two simultaneous requests the ledger accepts the first and stores nothing of the other.
    private func link(
        _ id: String, to user: String, in view: Version3Source, scope: Scope, for call: Call
    ) async throws(APIFailure) -> HTTPAnswer {
        if try await identify(user, as: id, of: view.source, in: scope, isClaim: true, for: call) {
            return Self.answer(identity: id, install: user)
        }
        let linked = try await install(identifiedAs: id, in: view, environment: scope.environment)
        if let linked, !linked.id.hasSameBytes(as: user) { throw Self.linkedToAnother }
        guard linked == nil else { return Self.answer(identity: id, install: user) }
        throw Self.hasIdentity
    }

    private func install(
        identifiedAs id: String, in view: Version3Source, environment: String?
    ) async throws(APIFailure) -> (id: String, environment: String)? {
        try await gate.pass { () async throws(LookupFailure) in
            try await lookup.install(
                identifiedAs: id, of: view.source.name, app: view.app, environment: environment)
        }
    }

    private static let hasIdentity = APIFailure(
        422, .resource, .userAlreadyHasIdentity, "user already has identity")

    private static let linkedToAnother = APIFailure(
        422, .resource, .identityAlreadyExists, "identity already exists: it's linked to another user")

    private static func answer(identity: String, install: String) -> HTTPAnswer {
        .object { json in
            json.member("id", identity)
            json.member("user_id", install)
        }
    }
}
