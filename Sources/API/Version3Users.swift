internal import HTTPServer
internal import JSONText
internal import Ledger
internal import Vocabulary

// The third version of a vendor's REST API with its paths, bodies, status codes and texts. Its "users" are installs,
// which are anonymous holders in the ledger; its "identities" are users.

/// The environments as version 3 spells them.
enum Version3Environment: String, CaseIterable {
    case prod
    case sandbox

    private var shared: String {
        switch self {
        case .prod: EnvironmentChoice.usual
        case .sandbox: "SANDBOX"
        }
    }

    static func write(_ environment: String) -> String {
        allCases.first { $0.shared == environment }?.rawValue ?? environment
    }
}

/// The installs of one source as version 3 sees them. Its ids have no environment: if a request names none, an install
/// is looked for in production first, then elsewhere.
struct Version3Source {
    let source: Source
    let app: String
    /// nil: the request names none.
    let environment: String?

    func scope(_ environment: String) -> Scope { Scope(source: source.name, app: app, environment: environment) }
}

extension Backend {
    func version3(_ call: Call) throws(APIFailure) -> Version3Source {
        let parameters = try call.parameters()
        let environment = try environment(parameters)
        let source = try sources.changed(try parameters.identifier(.source), by: call.token)
        return Version3Source(source: source, app: try app(of: source, parameters), environment: environment)
    }

    func readUser(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let view = try version3(call)
        return try await answer(for: try await user(call.route.names[0], in: view), in: view)
    }

    func createUser(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let view = try version3(call)
        let body = try RequestBody(call.body, mayBeAbsent: true)
        var environment = view.environment ?? EnvironmentChoice.usual
        if let text = try body.identifier("environment") {
            guard let read = environments.read(text) else { throw .body(environments.explanation) }
            environment = read
        }
        let install = try await register(call.route.names[0], in: view.scope(environment), for: call)
        return try await answer(for: install, in: view)
    }

    /// Registers an install. One transaction writes the event and the row that reserves the name.
    func register(_ id: String, in scope: Scope, for call: Call) async throws(APIFailure) -> KnownInstall {
        var statement = BackendStatement(name: .userCreated, scope: scope, install: id, at: try clock.next())
        statement.change = .register(install: id)
        guard try await record(statement, for: call) else {
            throw APIFailure(422, .resource, .userAlreadyExists, "User with given uid already exists")
        }
        return KnownInstall(id: id, environment: scope.environment, createdAt: statement.at)
    }

    /// - Throws: 404 if the install is not known.
    func user(_ id: String, in view: Version3Source) async throws(APIFailure) -> KnownInstall {
        guard let known = try await knownUser(id, in: view) else {
            throw APIFailure(404, .resource, .notFound, "user not found")
        }
        return known
    }

    func knownUser(_ id: String, in view: Version3Source) async throws(APIFailure) -> KnownInstall? {
        try await gate.pass { () async throws(LookupFailure) in
            try await lookup.install(id, of: view.source.name, app: view.app, environment: view.environment)
        }
    }

    func identity(of install: KnownInstall, in view: Version3Source) async throws(APIFailure) -> InstallIdentity {
        try await gate.pass { () async throws(LookupFailure) in
            try await lookup.identity(ofInstall: install.id, in: view.scope(install.environment))
        }
    }

    private func answer(for install: KnownInstall, in view: Version3Source) async throws(APIFailure) -> HTTPAnswer {
        let identity = try await identity(of: install, in: view)
        return .object { json in
            json.member("id", install.id)
            json.member("identity_id", identity.current ?? identity.own)
            json.member("created", install.createdAt.wholeSeconds)
            json.member("environment", Version3Environment.write(install.environment))
        }
    }
}

extension Timestamp {
    /// Seconds since 1970, rounded down, as version 3 writes times.
    var wholeSeconds: Int64 {
        let (seconds, rest) = milliseconds.quotientAndRemainder(dividingBy: 1_000)
        return rest < 0 ? seconds - 1 : seconds
    }
}
