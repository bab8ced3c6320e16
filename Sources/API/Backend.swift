internal import HTTPServer
internal import Ledger
internal import Synchronization
internal import Vocabulary

/// One authorised request.
struct Call: Sendable {
    let route: Route
    let token: APIToken
    let query: String?
    let body: [UInt8]
    /// Since the first byte of the request.
    let age: @Sendable () -> Duration

    var operation: APIOperation { route.operation }

    func parameters() throws(APIFailure) -> Parameters { try Parameters(query, of: operation) }
}

/// Everything that answers are made from.
struct Backend: Sendable {
    let sources: SourceChoice
    let environments: EnvironmentChoice
    /// The products of each configured subscription group.
    let groups: [String: [String]]
    let lookup: HolderLookup
    let gate: LookupGate
    let queue: RecordQueue
    let clock: BackendClock

    func answer(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        switch call.operation {
        case .readDescription: try description(call)
        case .readEntitlements: try await readEntitlements(call)
        case .readHistory: try await readHistory(call)
        case .readTransfers: try await readTransfers(call)
        case .readIdentities: try await readIdentities(call)
        case .readEligibility: try await readEligibility(call)
        case .judgeReceipt: try judgeReceipt(call)
        case .identify: try await identify(call)
        case .logout: try await logout(call)
        case .restore: try await restore(call)
        case .readUser: try await readUser(call)
        case .createUser: try await createUser(call)
        case .readIdentity: try await readIdentity(call)
        case .createIdentity: try await createIdentity(call)
        case .readUserEntitlements: try await readUserEntitlements(call)
        case .grantEntitlement: try await grantEntitlement(call)
        case .revokeEntitlement: try await revokeEntitlement(call)
        }
    }

    private func description(_ call: Call) throws(APIFailure) -> HTTPAnswer {
        _ = try call.parameters()
        return .json(200, API.descriptionBytes)
    }

    /// The part of the ledger that a read may see.
    func scope(_ parameters: Parameters, _ call: Call) async throws(APIFailure) -> LookupScope {
        let scope = LookupScope(
            environment: try environment(parameters) ?? EnvironmentChoice.usual,
            source: try SourceChoice.shown(try parameters.identifier(.source), to: call.token))
        // Of a misspelt name nothing is stored, which would look like a holder who has nothing.
        if let source = scope.source, !sources.contains(source) {
            let isStored = try await gate.pass { () async throws(LookupFailure) in
                try await lookup.hasServed(source: source)
            }
            guard isStored else { throw SourceChoice.unknown }
        }
        return scope
    }

    /// The named environment; nil if none is named.
    func environment(_ parameters: Parameters) throws(APIFailure) -> String? {
        guard let text = try parameters.identifier(.environment) else { return nil }
        guard let environment = environments.read(text) else { throw .parameter(environments.explanation) }
        return environment
    }
}

/// The database's time for the API's own statements. Strictly ascending within this daemon, because event time orders
/// facts, and a logout must never have the same time as the login before it. It follows the database's clock back where
/// that was ahead by more than `APILimits.clockLeadMax`: then the time of an install's last change orders its
/// statements.
final class BackendClock: Sendable {
    private let read: @Sendable () -> Timestamp?
    private let last = Mutex(Timestamp.distantPast)

    init(_ read: @escaping @Sendable () -> Timestamp?) { self.read = read }

    /// The current time, for comparisons.
    func now() throws(APIFailure) -> Timestamp {
        guard let now = read() else { throw .databaseAway }
        return now
    }

    /// A time for a new event: later than every earlier one that the clock gave, and than `former`. That may be far
    /// ahead, because a source stated it: it must not put what has nothing to do with it ahead as well.
    func next(after former: Timestamp? = nil) throws(APIFailure) -> Timestamp {
        let now = try now()
        let latest = now.advanced(byMilliseconds: APILimits.clockLeadMax.wholeMilliseconds)
        let next = last.withLock { last in
            last = last > latest ? now : max(now, last.advanced(byMilliseconds: 1))
            return last
        }
        return max(next, former?.advanced(byMilliseconds: 1) ?? next)
    }
}
