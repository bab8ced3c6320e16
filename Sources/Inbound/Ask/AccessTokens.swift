internal import Vocabulary

/// Gives out the access token of a service account: one is asked for when the first is needed, and again shortly before
/// its end. Whoever comes meanwhile waits for the same answer, or uses the old one as long as it lasts.
actor AccessTokens {
    private let account: ServiceAccount
    private let scope: String
    private let allowsPrivateAddresses: Bool
    private let send: OutgoingRequests
    private let clock: AskClock
    private var current: AccessToken?
    private var asking: Task<Result<AccessToken, OutgoingFailure>, Never>?

    init(
        of account: ServiceAccount, for scope: String, allowsPrivateAddresses: Bool, clock: AskClock,
        send: @escaping OutgoingRequests
    ) {
        self.account = account
        self.scope = scope
        self.allowsPrivateAddresses = allowsPrivateAddresses
        self.clock = clock
        self.send = send
    }

    /// A token that is valid now.
    func token() async -> Result<Secret, OutgoingFailure> {
        let now = clock.elapsed()
        if let current, now < current.renewAt { return .success(current.text) }
        let asked = asking ?? begin()
        // Nobody need wait for the next one while this one lasts.
        if let current, now < current.endsAt { return .success(current.text) }
        return await asked.value.map(\.text)
    }

    /// The API does not accept this one.
    func refuse(_ token: Secret) {
        if current?.text == token { current = nil }
    }

    private func begin() -> Task<Result<AccessToken, OutgoingFailure>, Never> {
        let task = Task { await ask() }
        asking = task
        return task
    }

    private func ask() async -> Result<AccessToken, OutgoingFailure> {
        let result = await request()
        if case .success(let token) = result { current = token }
        asking = nil
        return result
    }

    private func request() async -> Result<AccessToken, OutgoingFailure> {
        guard let assertion = account.assertion(for: scope, now: clock.now()) else {
            return .failure(OutgoingFailure("the service account's key cannot sign"))
        }
        let form = "grant_type=\(Self.escaped(ServiceAccount.grant))&assertion=\(assertion)"
        let askedAt = clock.elapsed()
        let request = OutgoingRequest(
            account.tokenURL, method: .post, allowsPrivateAddresses: allowsPrivateAddresses,
            headers: [.plain("content-type", "application/x-www-form-urlencoded")], body: Array(form.utf8),
            timeout: AskLimits.tokenTimeout, answerBytesMax: AskLimits.tokenAnswerBytesMax)
        let answer: OutgoingAnswer
        switch await send(request) {
        case .success(let given): answer = given
        case .failure(let failure):
            return .failure(OutgoingFailure("no access token from \(account.tokenURL.shown): \(failure.reason)"))
        }
        guard answer.status == 200 else {
            return .failure(OutgoingFailure("no access token: \(account.tokenURL.shown) answered \(answer.status)"))
        }
        guard let body = answer.body, let token = AccessToken(body, now: askedAt) else {
            return .failure(OutgoingFailure("no access token: the answer of \(account.tokenURL.shown) has none"))
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
