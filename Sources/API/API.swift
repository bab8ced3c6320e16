package import HTTPServer
package import Ledger
package import Vocabulary

/// The API for the app's backend: `/v1` and `/v3` of the API listener.
///
/// A request is checked by its head alone (token, path, method, scope) before anything of its body is kept, then
/// answered from the ledger. A write is an event like any other: recorded, resolved and delivered to the receivers; its
/// answer is read from the ledger after that.
package struct API: IncomingHandler {
    private let access: Access
    private let backend: Backend
    private let bodyBytesMax: Int
    private let observe: Observer

    /// - Parameters:
    ///   - now: the database's time; nil while it is unknown.
    ///   - gate: limits look-ups; the daemon's only one, which Google Play's webhooks share.
    package init(
        tokens: [APIToken], sources: [Source], subscriptionGroups: [SubscriptionGroup], lookup: HolderLookup,
        queue: RecordQueue, bodyBytesMax: Int, gate: LookupGate,
        now: @escaping @Sendable () -> Timestamp?, observe: @escaping Observer
    ) {
        access = Access(tokens)
        backend = Backend(
            sources: SourceChoice(sources), environments: EnvironmentChoice(sources),
            groups: Dictionary(firstOf: subscriptionGroups.map { ($0.name, $0.products) }),
            lookup: lookup, gate: gate, queue: queue, clock: BackendClock(now))
        self.bodyBytesMax = bodyBytesMax
        self.observe = observe
    }

    /// The OpenAPI 3.1 description of the API, served as `/v1/openapi.json`.
    package static let descriptionBytes: [UInt8] = PackageResources.openapi_json

    package static func owns(path: String) -> Bool {
        ["/v1", "/v3"].contains { path == $0 || path.hasPrefix($0 + "/") }
    }

    /// What is answered while there is no ledger to ask.
    package static func unavailable(_ reason: String) -> HTTPAnswer { APIFailure.unavailable(reason).answer }

    package func admit(_ head: IncomingHead) -> Admission {
        do throws(APIFailure) {
            let (route, _) = try judge(head)
            // A body whose stated length is too long is rejected here, so that the answer has the API's error format.
            let bytesMax = route.operation.method == "GET" ? 0 : bodyBytesMax
            if let length = head.first("content-length").flatMap({ Int($0) }), length > bytesMax {
                throw .bodyTooLarge(bytesMax: bytesMax)
            }
            return .accept(
                bodyBytesMax: bytesMax, answerTimeout: APILimits.answerTimeout,
                timeoutAnswer: APIFailure.tooSlow.answer)
        } catch {
            log(error)
            return .refuse(error.answer)
        }
    }

    package func respond(to request: IncomingRequest, with responder: Responder) {
        Task { responder.respond(await answer(request.head, body: request.body, age: { request.age })) }
    }

    package func rejected(_ head: IncomingHead?, status: Int, reason: String) {
        guard let head, Self.owns(path: head.path) else { return }
        observe(.refused(source: Self.name, status: status, reason: reason))
    }

    /// Answers a complete request. Checks it again, because `admit` keeps nothing.
    /// - Parameter age: of the request, since its first byte.
    func answer(
        _ head: IncomingHead, body: [UInt8], age: @escaping @Sendable () -> Duration = { .zero }
    ) async -> HTTPAnswer {
        do throws(APIFailure) {
            let (route, token) = try judge(head)
            let answer = try await backend.answer(
                Call(route: route, token: token, query: head.query, body: body, age: age))
            return head.method == "GET" ? answer.cacheable(for: head) : answer.unstored
        } catch {
            // One that is too old was answered by the server, and reported (`rejected`).
            if age() < APILimits.answerTimeout { log(error) }
            return error.answer
        }
    }

    private func judge(_ head: IncomingHead) throws(APIFailure) -> (Route, APIToken) {
        let token = try access.token(of: head)
        let route = try Route(method: head.method, path: head.path)
        try access.require(route.operation, of: token)
        return (route, token)
    }

    /// The name under which rejected requests are counted, beside the sources.
    private static let name = "api"

    /// Logs failures that a person should see: requests without permission, and requests that could not be answered.
    private func log(_ failure: APIFailure) {
        guard [401, 403, 503].contains(failure.status) else { return }
        observe(.refused(source: Self.name, status: failure.status, reason: failure.cause ?? failure.message))
    }
}

extension HTTPAnswer {
    fileprivate var unstored: HTTPAnswer {
        var answer = self
        answer.headers.append(("cache-control", "no-store"))
        return answer
    }

    /// Adds a strong validator (RFC 9110 section 8.8.3) made from the body; 304 if the client has it already.
    fileprivate func cacheable(for head: IncomingHead) -> HTTPAnswer {
        let tag = "\"" + KeyHash.body(body).hex + "\""
        let headers = [("etag", tag), ("cache-control", "private, no-cache")]
        let known = head.all("if-none-match").flatMap { $0.split(separator: ",") }.map { candidate in
            let bare = candidate.drop { $0 == " " || $0 == "\t" }
            return (bare.hasPrefix("W/") ? bare.dropFirst(2) : bare).prefix { $0 != " " && $0 != "\t" }
        }
        if known.contains(where: { $0 == tag || $0 == "*" }) { return HTTPAnswer(status: 304, headers: headers) }
        var answer = self
        answer.headers += headers
        return answer
    }
}
