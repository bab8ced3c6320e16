import Crypto
import Foundation

/// What a receiver does with one request.
indirect enum Reply: Sendable {
    case status(Int, headers: [String] = [], body: String = "")
    /// After so many seconds, unless the receiver is stopped before.
    case after(Double, Reply)
    /// No answer while the receiver runs.
    case hang
    /// Closes the connection instead of an answer.
    case drop

    static let ok = Reply.status(204)
}

/// One request that a receiver got. The signature is judged here, by Standard Webhooks 1.0 alone: nothing of the relay
/// is asked.
struct Received: Sendable {
    /// Position among all requests of this receiver, from 0.
    let number: Int
    let request: HTTPMessage
    /// `v1` holds for one of the receiver's secrets, and the timestamp is within five minutes of now.
    let isVerified: Bool
    let at: Date
    /// As the script said; nil: no answer was given.
    var answered: Int?

    var id: String { request["webhook-id"] ?? "" }
    var body: [UInt8] { request.body }
    var isAccepted: Bool { (200..<300).contains(answered ?? 0) }

    /// The body as Foundation's JSONSerialization reads it; empty where it is no object.
    var json: [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:]
    }
    var data: [String: Any] { json["data"] as? [String: Any] ?? [:] }
    /// Of either format.
    var type: String { json["type"] as? String ?? json["event_name"] as? String ?? "" }
}

/// An HTTP/1.1 receiver in this process, on a free port: records every request, checks its signature, answers by a
/// script.
final class Receiver: Sendable {
    /// - Parameter request: not answered yet.
    typealias Script = @Sendable (_ request: Received) -> Reply

    private struct State: Sendable {
        var received: [Received] = []
        var script: Script
        var connections: Set<Int32> = []
        var connectionsMade = 0
        var isStopped = false
    }

    let port: UInt16
    let secrets: [String]
    private let listener: Socket
    private let state: Monitor<State>

    init(secrets: [String] = [Receiver.newSecret()], script: @escaping Script = { _ in .ok }) throws {
        (listener, port) = try Socket.listen()
        self.secrets = secrets
        state = Monitor(State(script: script))
        let (listener, state) = (listener, state)
        let keys = secrets.map(Self.key)
        Thread.detachNewThread { Self.accept(listener, state, keys) }
    }

    deinit { stop() }

    var url: String { "http://127.0.0.1:\(port)/hook" }
    var secret: String { secrets[0] }

    static func newSecret() -> String {
        "whsec_" + Data((0..<32).map { _ in UInt8.random(in: 0...255) }).base64EncodedString()
    }

    /// All requests so far, in order of arrival.
    var received: [Received] { state.read(\.received) }
    /// Those that were answered 2xx.
    var accepted: [Received] { state.read { $0.received.filter(\.isAccepted) } }
    var count: Int { state.read { $0.received.count } }
    var connectionsMade: Int { state.read(\.connectionsMade) }

    /// Answers by `script` from the next request on.
    func answer(_ script: @escaping Script) { state.change { $0.script = script } }

    /// Waits until `isReached` holds of the requests so far.
    func wait(_ seconds: Double = 180, until isReached: ([Received]) -> Bool) -> Bool {
        state.wait(seconds) { isReached($0.received) }
    }

    /// Waits until so many requests were accepted.
    func waitForAccepted(_ count: Int, _ seconds: Double = 180) -> Bool {
        // Each request is counted once, however often the condition is looked at.
        var seen = 0
        var pending: [Int] = []
        var accepted = 0
        return state.wait(seconds) { state in
            pending += seen..<state.received.count
            seen = state.received.count
            pending.removeAll { number in
                guard state.received[number].answered != nil else { return false }
                if state.received[number].isAccepted { accepted += 1 }
                return true
            }
            return accepted >= count
        }
    }

    /// Takes no more connections and ends those there are.
    func stop() {
        state.change { state in
            guard !state.isStopped else { return }
            state.isStopped = true
            shutdown(listener.descriptor, Int32(SHUT_RDWR))
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    private static func accept(_ listener: Socket, _ state: Monitor<State>, _ keys: [SymmetricKey]) {
        while true {
            let descriptor = Foundation.accept(listener.descriptor, nil, nil)
            if descriptor < 0, errno == EINTR || errno == ECONNABORTED { continue }
            guard descriptor >= 0 else { break }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            let isTaken = state.change { state in
                guard !state.isStopped else { return false }
                state.connections.insert(descriptor)
                state.connectionsMade += 1
                return true
            }
            guard isTaken else {
                close(descriptor)
                break
            }
            Thread.detachNewThread {
                serve(Socket(descriptor: descriptor), state, keys)
                // Under the lock, so that `stop` never meets a number that is another's already. Shut down first: a
                // child that was started in the wrong moment may hold a copy.
                state.change { state in
                    state.connections.remove(descriptor)
                    shutdown(descriptor, Int32(SHUT_RDWR))
                    close(descriptor)
                }
            }
        }
        close(listener.descriptor)
    }

    private static func serve(_ socket: Socket, _ state: Monitor<State>, _ keys: [SymmetricKey]) {
        socket.prepare(timeout: 300)
        var reader = HTTPReader(socket)
        while let request = try? reader.next(isAnswer: false) {
            let isVerified = verify(request, keys)
            let (received, script) = state.change { state in
                let received = Received(
                    number: state.received.count, request: request, isVerified: isVerified, at: Date())
                state.received.append(received)
                return (received, state.script)
            }
            var reply = script(received)
            while case .after(let seconds, let next) = reply {
                if state.wait(seconds, until: \.isStopped) { return }
                reply = next
            }
            switch reply {
            case .status(let status, let headers, let body):
                // Said before it is sent: whoever hears of the delivery from the relay finds it here.
                state.change { $0.received[received.number].answered = status }
                let lines =
                    ["HTTP/1.1 \(status) Scripted"] + headers + ["content-length: \(body.utf8.count)", "", body]
                guard (try? socket.send(Array(lines.joined(separator: "\r\n").utf8))) != nil else { return }
            case .hang:
                _ = state.wait(600, until: \.isStopped)
                return
            case .drop, .after: return
            }
        }
    }

    // MARK: Standard Webhooks 1.0, "Verifying signatures"

    private static func key(_ secret: String) -> SymmetricKey {
        SymmetricKey(data: Data(base64Encoded: String(secret.dropFirst(6))) ?? Data())
    }

    private static func verify(_ request: HTTPMessage, _ keys: [SymmetricKey]) -> Bool {
        keys.contains { isSigned(request, $0, now: Date().timeIntervalSince1970) }
    }

    static func isSigned(_ request: HTTPMessage, secret: String, now: Double) -> Bool {
        isSigned(request, key(secret), now: now)
    }

    private static func isSigned(_ request: HTTPMessage, _ key: SymmetricKey, now: Double) -> Bool {
        guard let id = request["webhook-id"], let timestamp = request["webhook-timestamp"],
            let signatures = request["webhook-signature"], let seconds = Double(timestamp), abs(seconds - now) < 300
        else { return false }
        return signatures.split(separator: " ").contains { signature in
            guard signature.hasPrefix("v1,"), let code = Data(base64Encoded: String(signature.dropFirst(3))) else {
                return false
            }
            var hash = HMAC<SHA256>(key: key)
            hash.update(data: Array("\(id).\(timestamp).".utf8))
            hash.update(data: request.body)
            return Array(hash.finalize()) == Array(code)
        }
    }
}
