import API
import Configuration
import Front
import Inbound
import NIOCore
import Systemd
import Vocabulary

/// Where the relay listens, and what answers there.
struct Listeners {
    let ingest: Listen
    /// nil: the API and the metrics answer on `ingest`.
    let inner: Listen?
    let tls: Front.TLSFiles?

    /// - Parameter inherited: what the socket unit opened; it wins over what the configuration says, and must agree
    ///   with it: a proxy that asks the one address while the daemon serves the other would find nobody.
    init(_ server: Configuration.Server, inherited: [InheritedSocket]) throws {
        var sockets: [String: CInt] = [:]
        for socket in inherited { sockets[try Listen.address(ofInherited: socket.descriptor)] = socket.descriptor }
        let configured = try [server.listen, server.apiListen].compactMap {
            try $0.map { try Listen(parsing: $0.text) }
        }
        let listens = configured.map { listen in
            sockets.removeValue(forKey: listen.description).map { Listen.inherited(fileDescriptor: $0) } ?? listen
        }
        if let left = sockets.keys.sorted().first {
            let said = configured.map(\.description).joined(separator: ", ")
            throw Complaint(
                """
                posthouse.socket listens on \(left), the configuration on \(said): let ListenStream= and [server] listen \
                (or api_listen) name the same address
                """, code: Exit.configuration)
        }
        ingest = listens[0]
        inner = listens.count > 1 ? listens[1] : nil
        tls = server.tls.map { Front.TLSFiles(certificate: $0.certificate, key: $0.key) }
    }

    func start(
        ingest handler: Ingest, api: API, operations: Operations, group: any EventLoopGroup
    ) async throws -> [FrontServer] {
        guard let inner else {
            let router = Router(ingest: handler, api: api, operations: operations)
            return [try await FrontServer.start(listener: ingest, handler: router, group: group, tls: tls)]
        }
        let outside = Router(ingest: handler, api: nil, operations: operations)
        let inside = Router(ingest: nil, api: api, operations: operations)
        return [
            try await FrontServer.start(listener: ingest, handler: outside, group: group, tls: tls),
            try await FrontServer.start(listener: inner, handler: inside, group: group, tls: tls),
        ]
    }
}

/// Which part answers which path of one listener.
struct Router: FrontHandler {
    let ingest: Ingest?
    /// The metrics are shown where the API answers.
    let api: API?
    let operations: Operations

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

    /// Nil: what is asked of the daemon itself.
    private func part(of head: FrontHead) -> (any FrontHandler)? {
        if head.path.hasPrefix(Ingest.prefix) { return ingest }
        return API.owns(path: head.path) ? api : nil
    }
}
