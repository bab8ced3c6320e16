import Glibc
package import NIOCore
import Vocabulary

/// A host name that could not be looked up.
package struct ResolutionError: Error, Sendable, Equatable {
    package let reason: String
    /// The look-up itself failed: nothing is known of the name.
    package let isTemporary: Bool

    package init(reason: String, isTemporary: Bool = false) {
        self.reason = reason
        self.isTemporary = isTemporary
    }
}

/// Turns a host name into addresses, off the event loop. Tests replace it.
package struct AddressResolver: Sendable {
    package let resolve: @Sendable (_ host: String, _ port: Int, any EventLoop) -> EventLoopFuture<[SocketAddress]>

    /// Failures of the future are `ResolutionError`.
    package init(
        resolve: @escaping @Sendable (_ host: String, _ port: Int, any EventLoop) -> EventLoopFuture<[SocketAddress]>
    ) {
        self.resolve = resolve
    }

    /// EAI_NODATA, which glibc's headers declare for GNU sources only: the name exists and has no address.
    private static let noAddressCode: CInt = -5

    /// getaddrinfo(3): blocks. The addresses come in the order that the system prefers (RFC 6724), without a port.
    package static let system: NameResolver.LookUp = { host in
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_protocol = CInt(IPPROTO_TCP)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &list)
        guard code == 0 else {
            let isUnknown = code == EAI_NONAME || code == noAddressCode
            return .failure(ResolutionError(reason: String(cString: gai_strerror(code)), isTemporary: !isUnknown))
        }
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
        return .success(addresses)
    }
}
