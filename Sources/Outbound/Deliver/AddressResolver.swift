import Glibc
package import NIOCore
package import NIOPosix
import Vocabulary

/// A host name that could not be looked up.
package struct ResolutionError: Error, Sendable, Equatable {
    package let reason: String

    package init(reason: String) { self.reason = reason }
}

/// Turns a host name into addresses, off the event loop. Tests put their own in its place.
package struct AddressResolver: Sendable {
    package let resolve: @Sendable (_ host: String, _ port: Int, any EventLoop) -> EventLoopFuture<[SocketAddress]>

    /// Failures of the future are `ResolutionError`.
    package init(
        resolve: @escaping @Sendable (_ host: String, _ port: Int, any EventLoop) -> EventLoopFuture<[SocketAddress]>
    ) {
        self.resolve = resolve
    }

    /// getaddrinfo(3) on `pool`: give it `DeliverLimits.resolverThreads` threads of its own, for a look-up can hang.
    package static func system(pool: NIOThreadPool) -> AddressResolver {
        AddressResolver { host, port, eventLoop in
            pool.runIfActive(eventLoop: eventLoop) { try lookUp(host: host, port: port) }
        }
    }

    /// Blocks. The addresses come in the order that the system prefers (RFC 6724).
    private static func lookUp(host: String, port: Int) throws(ResolutionError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_protocol = CInt(IPPROTO_TCP)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &list)
        guard code == 0 else { throw ResolutionError(reason: String(cString: gai_strerror(code))) }
        defer { freeaddrinfo(list) }
        var addresses = [SocketAddress]()
        var next = list
        while let entry = next {
            next = entry.pointee.ai_next
            guard let raw = UnsafeRawPointer(entry.pointee.ai_addr) else { continue }
            switch entry.pointee.ai_family {
            case AF_INET: addresses.append(SocketAddress(raw.loadUnaligned(as: sockaddr_in.self), host: host))
            case AF_INET6: addresses.append(SocketAddress(raw.loadUnaligned(as: sockaddr_in6.self), host: host))
            default: continue
            }
        }
        return addresses
    }
}
