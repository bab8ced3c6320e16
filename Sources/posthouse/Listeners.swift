import Configuration
import Front
import Inbound
import NIOCore
import Vocabulary

/// Where the relay listens, and what answers there.
struct Listeners {
    let ingest: Listen
    /// nil: the API and the metrics answer on `ingest`.
    let api: Listen?
    let tls: Front.TLSFiles?

    init(_ server: Configuration.Server) throws(ListenMistake) {
        ingest = try Listen(parsing: server.listen.text)
        if let text = server.apiListen?.text { api = try Listen(parsing: text) } else { api = nil }
        tls = server.tls.map { Front.TLSFiles(certificate: $0.certificate, key: $0.key) }
    }

    func start(
        ingest handler: Ingest, operations: Operations, group: any EventLoopGroup
    ) async throws -> [FrontServer] {
        guard let api else {
            let router = Router(ingest: handler, operations: operations, showsMetrics: true)
            return [try await FrontServer.start(listener: ingest, handler: router, group: group, tls: tls)]
        }
        let inbound = Router(ingest: handler, operations: operations, showsMetrics: false)
        let inner = Router(ingest: nil, operations: operations, showsMetrics: true)
        return [
            try await FrontServer.start(listener: ingest, handler: inbound, group: group, tls: tls),
            try await FrontServer.start(listener: api, handler: inner, group: group, tls: tls),
        ]
    }
}

/// Which part answers which path of one listener.
struct Router: FrontHandler {
    let ingest: Ingest?
    let operations: Operations
    let showsMetrics: Bool

    func admit(_ head: FrontHead) -> Admission {
        if head.path.hasPrefix(Ingest.prefix), let ingest { return ingest.admit(head) }
        return operations.admit(head, showsMetrics: showsMetrics)
    }

    func respond(to request: FrontRequest, with responder: Responder) {
        if request.head.path.hasPrefix(Ingest.prefix), let ingest {
            ingest.respond(to: request, with: responder)
        } else {
            operations.respond(to: request, with: responder)
        }
    }

    func turnedAway(_ head: FrontHead?, status: Int, reason: String) {
        ingest?.turnedAway(head, status: status, reason: reason)
    }
}
