internal import HTTPServer
internal import JSONText
internal import Ledger
internal import Vocabulary

/// Operations of a device's SDK that no REST API of the vendor has: identify, logout, restore. Each is answered with
/// the purchases that the install has then.
extension Backend {
    func identify(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let parameters = try call.parameters()
        let (source, scope) = try written(call, parameters)
        let body = try RequestBody(call.body, members: ["identity"])
        let (install, identity) = (call.route.names[0], try body.requiredIdentifier("identity"))
        _ = try await identify(install, as: identity, of: source, in: scope, isClaim: false, for: call)
        return try await seen(by: install, in: scope)
    }

    /// Records a login. The ledger derives the session, and what the first identify shares or moves, from the change. A
    /// login that moves nothing only creates the session.
    ///
    /// - Parameter isClaim: requires that the identity and the install are free.
    /// - Returns: false if they are not free; nothing is stored then.
    func identify(
        _ install: String, as identity: String, of source: Source, in scope: Scope, isClaim: Bool, for call: Call
    ) async throws(APIFailure) -> Bool {
        let former = try await newestTime(of: install, in: scope)
        var statement = BackendStatement(
            name: .identified, scope: scope, install: install, at: try clock.next(after: former))
        if isClaim {
            statement.change = .claim(install: install, identity: identity, moves: source.loginMoves)
        } else if source.loginMoves {
            statement.change = .identify(install: install, identity: identity)
        } else {
            statement.links = [HolderLink(anonymousID: install, userID: identity)]
        }
        return try await record(statement, for: call) { $0.member("identity", identity) }
    }

    func logout(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let parameters = try call.parameters()
        let (_, scope) = try written(call, parameters)
        let install = call.route.names[0]
        let former = try await newestTime(of: install, in: scope)
        var statement = BackendStatement(
            name: .loggedOut, scope: scope, install: install, at: try clock.next(after: former))
        statement.links = [HolderLink(anonymousID: install, userID: nil)]
        try await record(statement, for: call)
        return try await seen(by: install, in: scope)
    }

    func restore(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let parameters = try call.parameters()
        let (source, scope) = try written(call, parameters)
        let body = try RequestBody(call.body, members: ["transactions", "strategy"])
        let transactions = try body.identifiers("transactions", max: APILimits.restoreTransactionsMax)
        let strategy = try Self.strategy(body) ?? source.restore
        if strategy == .copy, source.ownership == .exclusive {
            throw .body("strategy copy: a purchase of this source has one holder (ownership = \"exclusive\")")
        }
        let install = call.route.names[0]
        let former = try await newestTime(of: install, restoring: transactions, in: scope)
        var statement = BackendStatement(
            name: .restored, scope: scope, install: install, at: try clock.next(after: former))
        statement.change = .restore(install: install, transactions: transactions, strategy: strategy)
        try await record(statement, for: call) { json in
            json.member("transactions", strings: transactions)
            json.member("strategy", strategy.rawValue)
        }
        return try await seen(by: install, in: scope)
    }

    private static func strategy(_ body: RequestBody) throws(APIFailure) -> RestoreStrategy? {
        guard let text = try body.identifier("strategy") else { return nil }
        guard let strategy = RestoreStrategy(rawValue: text) else {
            throw .body("strategy is neither transfer nor copy")
        }
        return strategy
    }

    /// The time of the last known change of the install's identity, because another daemon's clock may have been ahead
    /// of ours, or of what the install holds or restores, because a platform's clock may be: a login or a restore is
    /// after a purchase that is recorded already.
    private func newestTime(
        of install: String, restoring transactions: [String] = [], in scope: Scope
    ) async throws(APIFailure) -> Timestamp? {
        let limit = try clock.now().advanced(byMilliseconds: APILimits.heldAheadMax.wholeMilliseconds)
        return try await gate.pass { () async throws(LookupFailure) in
            try await lookup.newestTime(
                ofInstall: install, restoring: transactions, in: scope, heldUntil: limit)
        }
    }

    private func seen(by install: String, in scope: Scope) async throws(APIFailure) -> HTTPAnswer {
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.entitlements(
                of: .install(install), in: LookupScope(environment: scope.environment, source: scope.source),
                isActive: true)
        }
        return .page(page) { $1.write($0) }
    }
}
