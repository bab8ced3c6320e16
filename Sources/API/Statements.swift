internal import JSONText
internal import Ledger
internal import Vocabulary

/// A statement of the app's backend: an event like any other, recorded before it is answered.
struct BackendStatement {
    /// The event's name and type.
    enum Name: String {
        case identified = "IDENTIFIED"
        case loggedOut = "LOGGED_OUT"
        case restored = "RESTORED"
        case userCreated = "USER_CREATED"
        case entitlementGranted = "ENTITLEMENT_GRANTED"
        case entitlementRevoked = "ENTITLEMENT_REVOKED"
    }

    let name: Name
    let scope: Scope
    let install: String
    let at: Timestamp
    var change: HolderChange?
    var links: [HolderLink] = []
    var purchase: Purchase?
    var transaction: Transaction?
    var facts: [Fact] = []
    /// `Event.presumedAsOf`
    var presumedAsOf: Timestamp?

    /// - Parameter asked: writes the members of the request.
    func event(id: String, asked: (inout JSONWriter) -> Void) -> Event {
        let body = JSONWriter.object { json in
            json.member("event_name", name.rawValue)
            json.member("event_id", id)
            json.member("environment", scope.environment)
            json.member("install", install)
            asked(&json)
        }
        return Event(
            scope: scope, vendorEventID: id, name: name.rawValue, type: name.rawValue, holder: .anonymous(install),
            occurredAt: at, purchase: purchase, transaction: transaction, facts: facts, change: change, links: links,
            isOfBackend: true, presumedAsOf: presumedAsOf, body: body)
    }
}

extension Backend {
    /// Records a statement; returns after the commit.
    /// - Returns: false if it is conditional and its condition does not hold; nothing is stored then.
    /// - Throws: 503 also where the call has been answered 503 already, because its time was over. The backend may have
    ///   stated something else since, and this would come after it.
    @discardableResult
    func record(
        _ statement: BackendStatement, for call: Call, asked: (inout JSONWriter) -> Void = { _ in }
    ) async throws(APIFailure) -> Bool {
        let age = call.age()
        guard age < APILimits.answerTimeout else { throw .tooSlow }
        let event = statement.event(id: Identifier.random().uuid4, asked: asked)
        let (answer, problem): (RecordQueue.Answer, String?) = await withCheckedContinuation { continuation in
            // `API.log` reports why it is refused.
            let fallback = RecordQueue.Fallback(
                committed: {}, unavailable: { continuation.resume(returning: (.unavailable, $0)) })
            queue.submit(.event(event), startedAt: ContinuousClock.now - age, fallback: fallback) {
                continuation.resume(returning: ($0, nil))
            }
        }
        switch answer {
        case .stored: return true
        case .conditionFailed: return false
        case .unavailable:
            var failure = APIFailure.unavailable(
                "it could not be recorded now; send it again", after: Limits.retryAfterUnavailableSeconds)
            failure.cause = problem
            throw failure
        }
    }

    /// The source, app and environment of a write.
    func written(_ call: Call, _ parameters: Parameters) throws(APIFailure) -> (Source, Scope) {
        let environment = try environment(parameters) ?? EnvironmentChoice.usual
        let source = try sources.changed(try parameters.identifier(.source), by: call.token)
        let app = try app(of: source, parameters)
        return (source, Scope(source: source.name, app: app, environment: environment))
    }

    /// The app of a write. It is part of every key: under a wrong one nothing would be found and nothing moved.
    func app(of source: Source, _ parameters: Parameters) throws(APIFailure) -> String {
        let asked = try parameters.app
        let only = source.app ?? (source.kind.traits.namesApp ? nil : "")
        guard let app = only ?? asked else {
            throw .parameter(
                "app is missing: events of the source \(source.name) name the app that they are about; "
                    + "add app=… as they name it (app= for those that name none), or set the key app of the [[source]]")
        }
        guard asked?.utf8.elementsEqual(app.utf8) ?? true else {
            throw .parameter("no event of the source \(source.name) is kept under this app: leave app out")
        }
        return app
    }
}
