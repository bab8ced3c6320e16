import Configuration
import HTTPServer
import Systemd
import Vocabulary

/// The addresses that the relay listens on, and what each serves.
struct Listeners {
    let ingest: Listen
    /// nil: the API and the metrics answer on `ingest`.
    let inner: Listen?
    let tls: TLSFiles?

    /// - Parameter inherited: the sockets that the socket unit opened. They take precedence over the configuration and
    ///   must agree with it: a proxy that connects to one address while the daemon serves another would reach nobody.
    init(_ server: Configuration.Server, inherited: [InheritedSocket]) throws {
        var sockets: [ListenAddress: CInt] = [:]
        for socket in inherited { sockets[try Listen.address(ofInherited: socket.descriptor)] = socket.descriptor }
        let configured = [server.listen, server.apiListen].compactMap { $0 }
        let listens = configured.map { address in
            sockets.removeValue(forKey: address).map { Listen.inherited(fileDescriptor: $0) } ?? .address(address)
        }
        if let left = sockets.keys.map(\.text).sorted().first {
            let said = configured.map(\.text).joined(separator: ", ")
            throw OperatorError(
                """
                posthouse.socket listens on \(left), the configuration on \(said): let ListenStream= and [server] listen \
                (or api_listen) name the same address
                """, code: Exit.configuration)
        }
        ingest = listens[0]
        inner = listens.count > 1 ? listens[1] : nil
        tls = server.tls
    }

    /// Each listener with the paths that it serves.
    var roles: [(Listen, OpenListeners.Role)] {
        guard let inner else { return [(ingest, .everything)] }
        return [(ingest, .webhooks), (inner, .backend)]
    }
}
