internal import Synchronization
internal import Vocabulary

/// The keys of one source's tokens, kept up to date in the background: fetched from a URL as `KeySetMachine` decides,
/// or read from a file. Keys that were there once stay in use until others are.
package final class KeySet: Sendable {
    /// Reads at most so many bytes of a file; the failure is for a person.
    package typealias ReadFile = @Sendable (_ path: String, _ bytesMax: Int) -> Result<[UInt8], OutgoingFailure>

    private struct State {
        /// Of a URL.
        var machine: KeySetMachine
        /// Of a file.
        var keys: JSONWebKeys?
        /// The text that was read last.
        var text: [UInt8]?
        var isLost = false
        var isStopped = false
        /// Waits for the time that the machine named, or for the next look at the file.
        var timer: Task<Void, Never>?
    }

    private let source: String
    private let place: KeySetLocation
    private let send: OutgoingRequests
    private let readFile: ReadFile
    private let clock: StoreRequestClock
    private let observe: Observer
    private let state: Mutex<State>

    init(
        source: String, place: KeySetLocation, clock: StoreRequestClock, send: @escaping OutgoingRequests,
        readFile: @escaping ReadFile, observe: @escaping Observer
    ) {
        self.source = source
        self.place = place
        self.clock = clock
        self.send = send
        self.readFile = readFile
        self.observe = observe
        state = Mutex(State(machine: KeySetMachine(now: clock.elapsed())))
    }

    /// Looks a key up; does not wait. A key that is not known may be a reason to fetch the set again.
    package func lookUp(_ id: String) -> JSONWebKeyAnswer {
        switch place {
        case .url:
            let lookup = state.withLock { $0.machine.look(up: id, now: clock.elapsed()) }
            perform(lookup.action)
            return lookup.answer
        case .file:
            guard let keys = state.withLock({ $0.keys }) else { return .unverifiable }
            return keys.key(id).map { .key($0) } ?? .unknown
        }
    }

    /// Begins to keep it up to date. A file is read at once.
    package func start() {
        switch place {
        case .url: due()
        case .file(let path): look(at: path)
        }
    }

    package func stop() {
        let timer = state.withLock { state in
            state.isStopped = true
            return state.timer.take()
        }
        timer?.cancel()
    }

    private func due() { perform(state.withLock { $0.machine.due(now: clock.elapsed()) }) }

    private func perform(_ action: KeySetMachine.Action) {
        switch action {
        case .nothing: break
        case .fetch:
            guard case .url(let url, let allowsPrivate) = place else { return }
            Task { await fetch(url, allowsPrivateAddresses: allowsPrivate) }
        case .wait(let end): wait(until: end) { $0.due() }
        }
    }

    private func wait(until end: Duration, then next: @escaping @Sendable (KeySet) -> Void) {
        let task = Task { [weak self, clock] in
            await clock.sleep(end)
            guard !Task.isCancelled, let self else { return }
            next(self)
        }
        let old = state.withLock { state -> Task<Void, Never>? in
            guard !state.isStopped else { return task }
            defer { state.timer = task }
            return state.timer
        }
        old?.cancel()
    }

    // MARK: A URL

    private func fetch(_ url: EndpointURL, allowsPrivateAddresses: Bool) async {
        let request = OutgoingRequest(
            url, of: source, allowsPrivateAddresses: allowsPrivateAddresses,
            headers: [.plain("accept", "application/json")], timeout: StoreRequestLimits.keysTimeout,
            answerBytesMax: JSONWebKeys.documentBytesMax)
        let result = await send(request)
        guard !state.withLock({ $0.isStopped }) else { return }
        do throws(OutgoingFailure) {
            let (keys, age) = try Self.keys(of: result)
            perform(state.withLock { $0.machine.fetched(keys, maxAge: age, now: clock.elapsed()) })
            found()
        } catch {
            perform(state.withLock { $0.machine.failed(now: clock.elapsed()) })
            lost("\(url.shown): \(error.reason)")
        }
    }

    private static func keys(
        of result: Result<OutgoingAnswer, OutgoingFailure>
    ) throws(OutgoingFailure) -> (JSONWebKeys, maxAge: Duration?) {
        let answer = try result.get()
        guard answer.status == 200 else { throw OutgoingFailure("answered \(answer.status)", isOfServer: true) }
        guard let body = answer.body else {
            throw OutgoingFailure("the key set is longer than \(JSONWebKeys.documentBytesMax) bytes", isOfServer: true)
        }
        return (try read(body), answer.cacheControl.flatMap(CacheControl.maxAge))
    }

    private static func read(_ document: [UInt8]) throws(OutgoingFailure) -> JSONWebKeys {
        do throws(JSONWebKeys.Unusable) {
            return try JSONWebKeys(document)
        } catch {
            throw OutgoingFailure(error.reason, isOfServer: true)
        }
    }

    // MARK: A file

    private func look(at path: String) {
        do throws(OutgoingFailure) {
            let text = try readFile(path, JSONWebKeys.documentBytesMax).get()
            if state.withLock({ $0.text }) != text {
                let keys = try Self.read(text)
                state.withLock { ($0.text, $0.keys) = (text, keys) }
            }
            found()
        } catch {
            lost("\(path): \(error.reason)")
        }
        wait(until: clock.elapsed() + StoreRequestLimits.keyFileInterval) { $0.look(at: path) }
    }

    // MARK: The journal

    private func found() {
        let wasLost = state.withLock { state in
            defer { state.isLost = false }
            return state.isLost
        }
        if wasLost { observe(.storeRecovered(source: source, what: .keys)) }
    }

    /// Once, until they are found again.
    private func lost(_ reason: String) {
        let isNew = state.withLock { state in
            defer { state.isLost = true }
            return !state.isLost
        }
        if isNew { observe(.storeLost(source: source, what: .keys, reason: reason)) }
    }
}
