internal import Synchronization
package import Vocabulary

/// What sources need of a store's servers: the keys of its tokens and its API. They outlive a reload that does not
/// change them, with the keys, the access token and the breaker that they have.
package final class StoreClients: Sendable {
    private struct Client<Settings: Equatable & Sendable, Value: Sendable>: Sendable {
        let settings: Settings
        let client: Value
    }

    private struct State {
        /// By the source's name.
        var keySets: [[UInt8]: Client<KeySetLocation, KeySet>] = [:]
        var apis: [[UInt8]: Client<StoreAPI, StoreAPIClient>] = [:]
    }

    private let send: OutgoingRequests
    private let readFile: KeySet.ReadFile
    private let readURL: @Sendable (String) -> EndpointURL?
    private let clock: StoreRequestClock
    private let observe: Observer
    private let state = Mutex(State())

    /// - Parameter readURL: as of `ServiceAccount.init`.
    package init(
        clock: StoreRequestClock, send: @escaping OutgoingRequests, readFile: @escaping KeySet.ReadFile,
        readURL: @escaping @Sendable (String) -> EndpointURL?, observe: @escaping Observer
    ) {
        self.clock = clock
        self.send = send
        self.readFile = readFile
        self.readURL = readURL
        self.observe = observe
    }

    /// What is wrong with the accounts of sources, each in one sentence.
    package static func problems(
        in sources: [Source], readURL: (String) -> EndpointURL?
    ) -> [String] {
        sources.compactMap { source in
            guard let account = source.api?.account else { return nil }
            do throws(ServiceAccount.Unusable) {
                _ = try ServiceAccount(account, readURL: readURL)
                return nil
            } catch {
                return "`api` of source \(source.name): \(error.reason)"
            }
        }
    }

    /// Begins what these sources need, and ends what none of them needs any more. Waits for nothing.
    package func adopt(_ sources: [Source]) {
        let (begun, ended) = state.withLock { state in
            let old = state
            state = State()
            for source in sources {
                let name = Array(source.name.utf8)
                if let place = source.keySet {
                    let same = old.keySets[name].flatMap { $0.settings == place ? $0 : nil }
                    state.keySets[name] = same ?? Client(settings: place, client: keySet(of: source, at: place))
                }
                if let api = source.api {
                    let same = old.apis[name].flatMap { $0.settings == api ? $0 : nil }
                    state.apis[name] = same ?? Client(settings: api, client: client(of: source, api))
                }
            }
            let (before, now) = (old.keySets.values.map(\.client), state.keySets.values.map(\.client))
            return (
                now.filter { new in !before.contains { $0 === new } },
                before.filter { gone in !now.contains { $0 === gone } }
            )
        }
        for keySet in ended { keySet.stop() }
        for keySet in begun { keySet.start() }
    }

    /// For commands, which ask and verify nothing: the same without keys.
    package func adoptAPIs(_ sources: [Source]) {
        state.withLock { state in
            for source in sources {
                guard let api = source.api else { continue }
                state.apis[Array(source.name.utf8)] = Client(settings: api, client: client(of: source, api))
            }
        }
    }

    /// Ends all of it.
    package func stop() { adopt([]) }

    /// The adapter of an adopted source.
    package func adapter(for source: Source) -> any SourceAdapter {
        guard let held = state.withLock({ $0.keySets[Array(source.name.utf8)] }) else {
            return SourceAdapters.adapter(for: source.kind)
        }
        return SourceAdapters.adapter(for: source.kind, keys: { held.client.lookUp($0) })
    }

    /// Looks up what is known of the webhooks of an adopted source, and asks its API where it has one; nil: neither.
    package func enricher(for source: Source, lookups: Enricher.Lookups) -> Enricher? {
        if source.kind.traits.namesTokens, source.api == nil {
            return Enricher(source: source.name, client: nil, lookups: lookups, clock: clock)
        }
        return state.withLock { $0.apis[Array(source.name.utf8)] }.map { held in
            Enricher(source: source.name, client: held.client, lookups: lookups, clock: clock)
        }
    }

    private func keySet(of source: Source, at place: KeySetLocation) -> KeySet {
        KeySet(source: source.name, place: place, clock: clock, send: send, readFile: readFile, observe: observe)
    }

    private func client(of source: Source, _ api: StoreAPI) -> StoreAPIClient {
        let account: Result<ServiceAccount, ServiceAccount.Unusable>
        do throws(ServiceAccount.Unusable) {
            guard let document = api.account else { throw ServiceAccount.Unusable(reason: "it cannot be read here") }
            account = .success(try ServiceAccount(document, readURL: readURL))
        } catch {
            account = .failure(error)
        }
        return StoreAPIClient(
            source: source.name, settings: api, account: account, clock: clock, send: send, observe: observe)
    }
}
