import CryptoExtras
import JSONText
import Synchronization
import Vocabulary

@testable import Inbound

/// Time that stands until a test moves it on.
final class StoodClock: Sendable {
    private struct Sleeper {
        let until: Duration
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var now = Duration.zero
        var sleepers: [Int: Sleeper] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    var clock: StoreRequestClock {
        StoreRequestClock(
            elapsed: { [self] in state.withLock { $0.now } }, now: { PubSubFixtures.now },
            sleep: { [self] until in await sleep(until: until) })
    }

    func move(to now: Duration) {
        let due = state.withLock { state in
            state.now = now
            let due = state.sleepers.filter { $0.value.until <= now }
            for id in due.keys { state.sleepers[id] = nil }
            return due.values.map(\.continuation)
        }
        for continuation in due { continuation.resume() }
    }

    /// The times at which somebody wants to be woken.
    var alarms: [Duration] { state.withLock { $0.sleepers.values.map(\.until).sorted() } }

    private func sleep(until: Duration) async {
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    guard !Task.isCancelled, state.now < until else { return true }
                    state.sleepers[id] = Sleeper(until: until, continuation: continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation.resume()
        }
    }
}

/// A store's servers, scripted.
final class FakeServers: Sendable {
    typealias Script = @Sendable (OutgoingRequest) -> Result<OutgoingAnswer, OutgoingFailure>

    private let script: Mutex<Script>
    private let requests = Mutex<[OutgoingRequest]>([])
    private let observations = Mutex<[String]>([])

    init(_ script: @escaping Script) { self.script = Mutex(script) }

    func answer(_ script: @escaping Script) { self.script.withLock { $0 = script } }

    var send: OutgoingRequests {
        { [self] request in
            requests.withLock { $0.append(request) }
            return script.withLock { $0 }(request)
        }
    }

    var sent: [OutgoingRequest] { requests.withLock { $0 } }
    /// The paths that were asked for.
    var targets: [String] { sent.map(\.url.target) }

    var observe: Observer {
        { [self] observation in
            let text: String? =
                switch observation {
                case .storeLost(let source, let what, let reason): "\(source) lost \(what.rawValue): \(reason)"
                case .storeRecovered(let source, let what): "\(source) has \(what.rawValue)"
                default: nil
                }
            if let text { observations.withLock { $0.append(text) } }
        }
    }
    var observed: [String] { observations.withLock { $0 } }

    /// Both of Google's servers: `token` gives access tokens out, everything else is the API.
    static func google(_ answer: @escaping @Sendable (_ target: String) -> (Int, String)) -> Script {
        { request in
            if request.method == .post {
                return .success(OutgoingAnswer(status: 200, body: Array(StoreRequestFixtures.tokenAnswer.utf8)))
            }
            let (status, body) = answer(request.url.target)
            return .success(OutgoingAnswer(status: status, body: Array(body.utf8)))
        }
    }
}

enum StoreRequestFixtures {
    static let tokenURL = EndpointURL(isTLS: true, host: "oauth2.example.com", port: 443, target: "/token")
    static let apiURL = EndpointURL(isTLS: true, host: "publisher.example.com", port: 443, target: "/")
    static let tokenAnswer = #"{"access_token":"ya29.first","expires_in":3599,"token_type":"Bearer"}"#

    static let account: Secret = account()

    /// The JSON document of a key, with members (raw JSON values) set or, where nil, taken out.
    static func account(_ fields: BodyEdit.Fields = []) -> Secret {
        let pem = PubSubFixtures.privateKey.pemRepresentation.split(separator: "\n").joined(separator: #"\n"#)
        let whole =
            #"{"type":"service_account","project_id":"p","private_key_id":"run-1","private_key":"\#(pem)\n","#
            + #""client_email":"play@p.iam.gserviceaccount.com","token_uri":"https://oauth2.example.com/token"}"#
        return Secret(Array(BodyEdit.edit(whole, fields).utf8))
    }

    static func readURL(_ text: String) -> EndpointURL? { text == "https://oauth2.example.com/token" ? tokenURL : nil }

    static func client(_ servers: FakeServers, _ clock: StoodClock) throws -> StoreAPIClient {
        let account = try ServiceAccount(account, readURL: readURL)
        return StoreAPIClient(
            source: "play", settings: StoreAPI(account: nil, url: apiURL), account: .success(account),
            clock: clock.clock, send: servers.send, observe: servers.observe)
    }
}

/// Lets other tasks run until `condition` holds; false: it does not come to hold.
func comesToHold(_ condition: () -> Bool) async -> Bool {
    // The limit is against hanging alone: on a busy machine others take long to come to run.
    let end = ContinuousClock.now + .seconds(600)
    while !condition() {
        if ContinuousClock.now >= end { return false }
        try? await Task.sleep(for: .milliseconds(1))
    }
    return true
}
