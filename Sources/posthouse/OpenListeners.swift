import API
import Configuration
import HTTPServer
import Inbound
import NIOCore
import Vocabulary

/// The open listeners. A reload replaces all of their handlers at once. A request whose head was admitted before a
/// reload and whose body came after it is answered by the new handlers, so by the current secrets. If its source is
/// gone, it is answered 503, and 404 when it comes again.
final class OpenListeners: Sendable {
    /// The paths that a listener serves.
    enum Role: Sendable {
        case everything, webhooks, backend
    }

    /// The handlers of requests.
    struct Handlers: Sendable {
        let ingest: Ingest
        /// nil: nothing can be asked yet, and `operations` says so.
        let api: API?
        let operations: any OperationalPaths
    }

    private struct Entry: Sendable {
        let server: HTTPListener
        let role: Role
        let router: LiveRouter
    }

    private let entries: [Entry]

    var servers: [HTTPListener] { entries.map(\.server) }

    fileprivate init(_ entries: [(HTTPListener, Role, LiveRouter)]) {
        self.entries = entries.map { server, role, router in Entry(server: server, role: role, router: router) }
    }

    static func open(
        _ listeners: [(Listen, Role)], tls: TLSFiles?, handlers: Handlers, group: any EventLoopGroup,
        observe: @escaping Observer
    ) async throws -> OpenListeners {
        var entries: [(HTTPListener, Role, LiveRouter)] = []
        for (listener, role) in listeners {
            let router = LiveRouter(Router(handlers, role))
            do {
                let server = try await HTTPListener.start(
                    listener: listener, handler: router, group: group, tls: tls, accepting: false,
                    shortage: { failure in
                        observe(
                            .acceptFailed(
                                listen: listener.text, isMachine: failure.scope == .machine,
                                count: failure.count))
                    },
                    failed: {
                        observe(
                            .warning(
                                "the socket on \(listener.text) has failed and takes no connection until the daemon is "
                                    + "started again, which the watchdog of its unit does"))
                    })
                entries.append((server, role, router))
            } catch {
                for (server, _, _) in entries { await server.drain(upTo: .zero) }
                throw error
            }
        }
        // Only now: once one of them says that it is ready, all of them can be reached.
        for (server, _, _) in entries { await server.accept() }
        return OpenListeners(entries)
    }

    func answer(by handlers: Handlers) {
        for entry in entries { entry.router.replace(Router(handlers, entry.role)) }
    }

    var addresses: String { servers.map(\.boundAddress).joined(separator: ", ") }

    var areListening: Bool { servers.allSatisfy { $0.isListening } }

    /// Whether the listeners were opened with a certificate.
    var speakTLS: Bool { servers.contains { $0.speaksTLS } }

    /// Gives new connections this certificate.
    /// - Returns: whether it differs from the one before.
    func renew(_ certificate: TLSCertificate) -> Bool {
        servers.map { $0.replaceTLS(certificate) }.contains(true)
    }
}

/// A router that can be replaced while requests come.
private final class LiveRouter: IncomingHandler {
    private let router: Replaceable<Router>

    init(_ router: Router) { self.router = Replaceable(router) }

    func replace(_ next: Router) { router.replace(next) }

    func admit(_ head: IncomingHead) -> Admission { router.current.admit(head) }

    func respond(to request: IncomingRequest, with responder: Responder) {
        router.current.respond(to: request, with: responder)
    }

    func rejected(_ head: IncomingHead?, status: Int, reason: String) {
        router.current.rejected(head, status: status, reason: reason)
    }
}

/// Chooses the handler for each path of one listener.
private final class Router: IncomingHandler {
    private let ingest: (any IncomingHandler)?
    private let api: (any IncomingHandler)?
    private let operations: any OperationalPaths
    /// False: the listener serves webhooks only, without the API and the metrics.
    private let servesAPI: Bool

    init(_ handlers: OpenListeners.Handlers, _ role: OpenListeners.Role) {
        ingest = role == .backend ? nil : handlers.ingest
        servesAPI = role != .webhooks
        api = servesAPI ? handlers.api : nil
        operations = handlers.operations
    }

    func admit(_ head: IncomingHead) -> Admission {
        if let handler = handler(of: head) { return handler.admit(head) }
        return operations.admit(head, servesAPI: servesAPI)
    }

    func respond(to request: IncomingRequest, with responder: Responder) {
        if let handler = handler(of: request.head) {
            handler.respond(to: request, with: responder)
        } else {
            operations.respond(to: request, with: responder)
        }
    }

    func rejected(_ head: IncomingHead?, status: Int, reason: String) {
        guard let head else { return }
        handler(of: head)?.rejected(head, status: status, reason: reason)
    }

    /// The handler of a path; nil: `Operations` answers.
    private func handler(of head: IncomingHead) -> (any IncomingHandler)? {
        if head.path.hasPrefix(Ingest.prefix) { return ingest }
        return API.owns(path: head.path) ? api : nil
    }
}
