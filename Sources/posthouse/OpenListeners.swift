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
        let ingest: any IncomingHandler
        /// nil: nothing can be asked yet, and `operations` says so.
        let api: (any IncomingHandler)?
        let operations: any OperationalPaths
    }

    let servers: [HTTPListener]
    private let handlers: Replaceable<Handlers>

    private init(_ servers: [HTTPListener], _ handlers: Replaceable<Handlers>) {
        self.servers = servers
        self.handlers = handlers
    }

    static func open(
        _ listeners: [(Listen, Role)], tls: TLSFiles?, handlers: Handlers, group: any EventLoopGroup,
        observe: @escaping Observer
    ) async throws -> OpenListeners {
        let handlers = Replaceable(handlers)
        var servers: [HTTPListener] = []
        for (listener, role) in listeners {
            do {
                let server = try await HTTPListener.start(
                    listener: listener, handler: Router(handlers: handlers, role: role), group: group, tls: tls,
                    accepting: false,
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
                servers.append(server)
            } catch {
                for server in servers { await server.drain(upTo: .zero) }
                throw error
            }
        }
        // Only now: once one of them says that it is ready, all of them can be reached.
        for server in servers { await server.accept() }
        return OpenListeners(servers, handlers)
    }

    func answer(by handlers: Handlers) { self.handlers.replace(handlers) }

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

/// Chooses the handler for each path of one listener. The handlers can be replaced while requests come.
private struct Router: IncomingHandler {
    let handlers: Replaceable<OpenListeners.Handlers>
    let role: OpenListeners.Role

    /// False: the listener serves webhooks only, without the API and the metrics.
    private var servesAPI: Bool { role != .webhooks }

    func admit(_ head: IncomingHead) -> Admission {
        let handlers = handlers.current
        if let handler = handler(of: head, among: handlers) { return handler.admit(head) }
        return handlers.operations.admit(head, servesAPI: servesAPI)
    }

    func respond(to request: IncomingRequest, with responder: Responder) {
        let handlers = handlers.current
        if let handler = handler(of: request.head, among: handlers) {
            handler.respond(to: request, with: responder)
        } else {
            handlers.operations.respond(to: request, with: responder)
        }
    }

    func rejected(_ head: IncomingHead?, status: Int, reason: String) {
        guard let head else { return }
        handler(of: head, among: handlers.current)?.rejected(head, status: status, reason: reason)
    }

    /// The handler of a path; nil: `Operations` answers.
    private func handler(of head: IncomingHead, among handlers: OpenListeners.Handlers) -> (any IncomingHandler)? {
        if head.path.hasPrefix(Ingest.prefix) { return role == .backend ? nil : handlers.ingest }
        return servesAPI && API.owns(path: head.path) ? handlers.api : nil
    }
}
