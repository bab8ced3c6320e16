internal import Synchronization
internal import Vocabulary

/// Asks a store's API about purchases, in the name of a service account. What a source asks goes through one of these:
/// its access token, a breaker for each of its apps (the right to ask may be missing for one of them) and its limit on
/// how many webhooks wait for it.
package final class StoreAPIClient: Sendable {
    /// What the API said, or why it said nothing.
    enum Reply: Sendable, Hashable {
        case answered(status: Int, body: [UInt8])
        /// For a person.
        case failed(reason: String)
    }

    /// A reply, and whether its failure is one of the API: not where too little time was left for it, or where
    /// the failure is this daemon's.
    private struct Attempt {
        let reply: Reply
        var isFair = true
    }

    private struct State {
        /// By the app that is asked about: one of the source's.
        var breakers: [String: APIBreaker] = [:]
        var events = 0
    }

    private let source: String
    private let settings: StoreAPI
    private let tokens: AccessTokens?
    /// Why nothing can be asked; nil: it can.
    private let problem: String?
    private let send: OutgoingRequests
    private let clock: StoreRequestClock
    private let observe: Observer
    private let state = Mutex(State())

    init(
        source: String, settings: StoreAPI, account: Result<ServiceAccount, ServiceAccount.Unusable>,
        clock: StoreRequestClock,
        send: @escaping OutgoingRequests, observe: @escaping Observer
    ) {
        self.source = source
        self.settings = settings
        self.clock = clock
        self.send = send
        self.observe = observe
        switch account {
        case .success(let account):
            tokens = AccessTokens(
                of: account, source: source, for: Enrichment.accessScope,
                allowsPrivateAddresses: settings.allowsPrivateAddresses, clock: clock, send: send)
            problem = nil
        case .failure(let unusable):
            tokens = nil
            problem = "the service account's key cannot be used: \(unusable.reason)"
        }
    }

    /// Takes the place of one webhook; false: too many wait already. Call `end` after it.
    func begin() -> Bool {
        state.withLock { state in
            guard state.events < StoreRequestLimits.eventsMax else { return false }
            state.events += 1
            return true
        }
    }

    func end() { state.withLock { $0.events -= 1 } }

    /// - Parameters:
    ///   - target: the path. It may have a whole token: it is for the request alone.
    ///   - app: what it is about.
    ///   - timeout: for all of it.
    func ask(_ target: String, about app: String, timeout: Duration) async -> Reply {
        guard let tokens else { return .failed(reason: problem ?? "nothing can be asked") }
        guard state.withLock({ $0.breakers[app, default: APIBreaker()].mayAsk(now: clock.elapsed()) }) else {
            return .failed(reason: "the API was out of reach a moment ago, and is tried again soon")
        }
        let end = clock.elapsed() + min(timeout, StoreRequestLimits.requestTimeout)
        var attempt = await self.attempt(target, tokens, until: end)
        // A token may be revoked before its end.
        if case .answered(status: 401, _) = attempt.reply {
            attempt = await self.attempt(target, tokens, until: end)
        }
        return judged(attempt, about: app)
    }

    private func attempt(_ target: String, _ tokens: AccessTokens, until end: Duration) async -> Attempt {
        let isFair = end - clock.elapsed() >= StoreRequestLimits.fairTime
        let token: Secret
        switch await tokens.token(until: end) {
        case .success(let given): token = given
        case .failure(let failure):
            return Attempt(reply: .failed(reason: failure.reason), isFair: isFair && failure.isOfServer)
        }
        let left = end - clock.elapsed()
        guard left > .zero else {
            return Attempt(reply: .failed(reason: "no access token came in time"), isFair: isFair)
        }
        let base = settings.url
        let url = EndpointURL(isTLS: base.isTLS, host: base.host, port: base.port, target: target)
        let bearer = token.withBytes { HeaderField(name: "authorization", value: Secret(Array("Bearer ".utf8) + $0)) }
        // A failure with less time left says nothing of the API in any case; its reason stays what it is.
        let fairTime = left >= StoreRequestLimits.fairTime ? StoreRequestLimits.fairTime : .zero
        let request = OutgoingRequest(
            url, of: source, allowsPrivateAddresses: settings.allowsPrivateAddresses,
            headers: [bearer, .plain("accept", "application/json")], timeout: left, fairTime: fairTime,
            answerBytesMax: Enrichment.answerBytesMax)
        switch await send(request) {
        case .failure(let failure):
            let what = failure.isOfServer ? "does not answer" : "has not answered"
            return Attempt(
                reply: .failed(reason: "\(base.shown) \(what): \(failure.reason)"),
                isFair: failure.isOfServer && left >= StoreRequestLimits.fairTime)
        case .success(let answer):
            if answer.status == 401 { await tokens.refuse(token) }
            // A longer one than can be kept is no fault of the API: it is read as one that says nothing.
            return Attempt(reply: .answered(status: answer.status, body: answer.body ?? []))
        }
    }

    /// Notifies the breaker, and logs where it changed.
    private func judged(_ attempt: Attempt, about app: String) -> Reply {
        let failure = Self.failure(of: attempt.reply, from: settings.url)
        if failure != nil, !attempt.isFair { return attempt.reply }
        let change = state.withLock { state in
            let now = clock.elapsed()
            return failure == nil
                ? state.breakers[app, default: APIBreaker()].answered()
                : state.breakers[app, default: APIBreaker()].failed(now: now)
        }
        switch change {
        case .none: break
        case .opened: observe(.storeLost(source: source, what: .api, reason: "\(failure ?? ""), asked about \(app)"))
        case .closed: observe(.storeRecovered(source: source, what: .api))
        }
        return attempt.reply
    }

    /// Why the API itself is at fault; nil: it works.
    private static func failure(of reply: Reply, from url: EndpointURL) -> String? {
        switch reply {
        case .failed(let reason): return reason
        case .answered(let status, let body):
            return Enrichment.verdict(status: status, body: body) == .fault ? "\(url.shown) answered \(status)" : nil
        }
    }
}
