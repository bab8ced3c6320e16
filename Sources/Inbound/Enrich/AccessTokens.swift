internal import Vocabulary

/// Gives out the access token of a service account: one is asked for when the first is needed, and again shortly before
/// its end. Whoever comes meanwhile waits for the same answer, or uses the old one as long as it lasts.
actor AccessTokens {
    private let account: ServiceAccount
    private let source: String
    private let scope: String
    private let allowsPrivateAddresses: Bool
    private let send: OutgoingRequests
    private let clock: StoreRequestClock
    private var current: AccessToken?
    private var isAsking = false
    /// Who waits for the token that is asked for.
    private var waiting: [Int: CheckedContinuation<Result<Secret, OutgoingFailure>, Never>] = [:]
    private var lastWaiting = 0

    init(
        of account: ServiceAccount, source: String, for scope: String, allowsPrivateAddresses: Bool,
        clock: StoreRequestClock, send: @escaping OutgoingRequests
    ) {
        self.account = account
        self.source = source
        self.scope = scope
        self.allowsPrivateAddresses = allowsPrivateAddresses
        self.clock = clock
        self.send = send
    }

    /// A token that is valid now.
    /// - Parameter end: until when it may be waited for.
    func token(until end: Duration) async -> Result<Secret, OutgoingFailure> {
        let now = clock.elapsed()
        if let current, now < current.renewAt { return .success(current.text) }
        if !isAsking { begin() }
        // Nobody need wait for the next one while this one lasts.
        if let current, now < current.endsAt { return .success(current.text) }
        lastWaiting += 1
        let number = lastWaiting
        let timer = Task {
            await clock.sleep(end)
            if !Task.isCancelled {
                answer(number, .failure(OutgoingFailure("no access token came in time", isOfServer: true)))
            }
        }
        defer { timer.cancel() }
        return await withCheckedContinuation { waiting[number] = $0 }
    }

    private func answer(_ number: Int, _ result: Result<Secret, OutgoingFailure>) {
        waiting.removeValue(forKey: number)?.resume(returning: result)
    }

    /// The API does not accept this one.
    func refuse(_ token: Secret) {
        if current?.text == token { current = nil }
    }

    private func begin() {
        isAsking = true
        Task { await ask() }
    }

    private func ask() async {
        let result = await request()
        if case .success(let token) = result { current = token }
        isAsking = false
        for number in waiting.keys.sorted() { answer(number, result.map(\.text)) }
    }

    private func request() async -> Result<AccessToken, OutgoingFailure> {
        guard let assertion = account.assertion(for: scope, now: clock.now()) else {
            return .failure(OutgoingFailure("the service account's key cannot sign", isOfServer: true))
        }
        let form = "grant_type=\(Self.escaped(ServiceAccount.grant))&assertion=\(assertion)"
        let askedAt = clock.elapsed()
        let request = OutgoingRequest(
            account.tokenURL, of: source, method: .post, allowsPrivateAddresses: allowsPrivateAddresses,
            headers: [.plain("content-type", "application/x-www-form-urlencoded")], body: Array(form.utf8),
            timeout: StoreRequestLimits.tokenTimeout, answerBytesMax: StoreRequestLimits.tokenAnswerBytesMax)
        let answer: OutgoingAnswer
        switch await send(request) {
        case .success(let given): answer = given
        case .failure(let failure):
            let reason = "no access token from \(account.tokenURL.shown): \(failure.reason)"
            return .failure(OutgoingFailure(reason, isOfServer: failure.isOfServer))
        }
        guard answer.status == 200 else {
            let reason = "no access token: \(account.tokenURL.shown) answered \(answer.status)"
            return .failure(OutgoingFailure(reason, isOfServer: true))
        }
        guard let body = answer.body, let token = AccessToken(body, now: askedAt) else {
            let reason = "no access token: the answer of \(account.tokenURL.shown) has none"
            return .failure(OutgoingFailure(reason, isOfServer: true))
        }
        return .success(token)
    }

    /// Of a form's value, the only character that occurs and has a meaning of its own.
    private static func escaped(_ text: String) -> String {
        text.split(separator: ":", omittingEmptySubsequences: false).joined(separator: "%3A")
    }
}

extension HeaderField {
    static func plain(_ name: String, _ value: String) -> HeaderField {
        HeaderField(name: name, value: Secret(Array(value.utf8)))
    }
}
