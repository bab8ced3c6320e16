import API
import Configuration
import Front
import Inbound
import NIOCore
import Synchronization
import Vocabulary

/// The open listeners. A reload replaces all of their handlers at once. A request whose head was admitted before a
/// reload and whose body came after it is answered by the new handlers, so by the current secrets. If its source is
/// gone, it is answered 503, and 404 when it comes again.
final class Doors: Sendable {
    /// The paths that a listener serves.
    enum Side: Sendable {
        case everything, webhooks, backend
    }

    /// The handlers of requests.
    struct Parts: Sendable {
        let ingest: Ingest
        let api: API
        let operations: Operations
    }

    private struct Door: Sendable {
        let server: FrontServer
        let side: Side
        let router: LiveRouter
    }

    private let doors: [Door]

    var servers: [FrontServer] { doors.map(\.server) }

    fileprivate init(_ doors: [(FrontServer, Side, LiveRouter)]) {
        self.doors = doors.map { Door(server: $0.0, side: $0.1, router: $0.2) }
    }

    static func open(
        _ listeners: [(Listen, Side)], tls: Front.TLSFiles?, parts: Parts, group: any EventLoopGroup
    ) async throws -> Doors {
        var doors: [(FrontServer, Side, LiveRouter)] = []
        for (listener, side) in listeners {
            let router = LiveRouter(Router(parts, side))
            do {
                let server = try await FrontServer.start(listener: listener, handler: router, group: group, tls: tls)
                doors.append((server, side, router))
            } catch {
                for (server, _, _) in doors { await server.drain(upTo: .zero) }
                throw error
            }
        }
        return Doors(doors)
    }

    func answer(by parts: Parts) {
        for door in doors { door.router.replace(Router(parts, door.side)) }
    }

    /// Whether the listeners were opened with a certificate.
    var speakTLS: Bool { servers.contains { $0.speaksTLS } }

    /// Gives new connections this certificate.
    /// - Returns: whether it differs from the one before.
    func renew(_ identity: TLSIdentity) -> Bool {
        servers.map { $0.replaceTLS(identity) }.contains(true)
    }
}

/// A router that can be replaced while requests come.
private final class LiveRouter: FrontHandler {
    private let router: Mutex<Router>

    init(_ router: Router) { self.router = Mutex(router) }

    func replace(_ next: Router) { router.withLock { $0 = next } }

    private var current: Router { router.withLock { $0 } }

    func admit(_ head: FrontHead) -> Admission { current.admit(head) }

    func respond(to request: FrontRequest, with responder: Responder) {
        current.respond(to: request, with: responder)
    }

    func turnedAway(_ head: FrontHead?, status: Int, reason: String) {
        current.turnedAway(head, status: status, reason: reason)
    }
}

/// Chooses the handler for each path of one listener.
private struct Router: FrontHandler {
    private let ingest: Ingest?
    /// nil: the listener serves webhooks only, without the API and the metrics.
    private let api: API?
    private let operations: Operations

    init(_ parts: Doors.Parts, _ side: Doors.Side) {
        ingest = side == .backend ? nil : parts.ingest
        api = side == .webhooks ? nil : parts.api
        operations = parts.operations
    }

    func admit(_ head: FrontHead) -> Admission {
        if let part = part(of: head) { return part.admit(head) }
        return operations.admit(head, showsMetrics: api != nil)
    }

    func respond(to request: FrontRequest, with responder: Responder) {
        if let part = part(of: request.head) {
            part.respond(to: request, with: responder)
        } else {
            operations.respond(to: request, with: responder)
        }
    }

    func turnedAway(_ head: FrontHead?, status: Int, reason: String) {
        guard let head else { return }
        part(of: head)?.turnedAway(head, status: status, reason: reason)
    }

    /// The handler of a path; nil: `Operations` answers.
    private func part(of head: FrontHead) -> (any FrontHandler)? {
        if head.path.hasPrefix(Ingest.prefix) { return ingest }
        return API.owns(path: head.path) ? api : nil
    }
}
